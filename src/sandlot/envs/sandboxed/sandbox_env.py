"""Environments whose model works in a sandbox of each rollout's own, by a shell.

Invariants: the model never sees a failure of the provider as a command's output; grading finds the sandbox as the
agent left it, and nobody finds it after that.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, TypedDict

from sandlot.engine import State
from sandlot.envs.calls import maybe_await
from sandlot.envs.decorators import cleanup
from sandlot.envs.sandboxed.mixin import SandboxMixin
from sandlot.envs.sandboxed.requests import CommandTimeoutError, CreateSandboxRequest, author_class
from sandlot.envs.stateful_tools import StatefulToolEnv
from sandlot.errors import SandboxError
from sandlot.records import JsonObject, Messages


class SandboxState(TypedDict):
    """`state["sandbox_state"]`: seconds, counted for the metrics."""

    ready: bool
    ready_wait_time: float
    command_execution_times: list[float]


class SandboxEnv(SandboxMixin, StatefulToolEnv):
    """A `ToolEnv` with a tool `bash` that runs in a sandbox of the rollout's own, `state["sandbox_id"]`.

    The sandbox is opened at set-up and closed by the engine behind the scoring, so that a reward function can still run
    a `grade` in it. `docker_image` is not fetched: see `AsyncSandboxClient`. `memory_gb`, `disk_size_gb` and
    `timeout_minutes` bound it, `timeout_per_command_seconds` each command; `network` lets it reach the network. Options
    of the original about teams, labels and connections say nothing here.
    """

    def __init__(
        self,
        sandbox_name: str = "sandbox-env",
        docker_image: str = "python:3.11-slim",
        start_command: str = "tail -f /dev/null",
        cpu_cores: float = 1,
        memory_gb: float = 2,
        disk_size_gb: float = 5,
        gpu_count: int = 0,
        timeout_minutes: int = 60,
        timeout_per_command_seconds: float = 30,
        environment_vars: dict[str, str] | None = None,
        team_id: str | None = None,
        advanced_configs: Any = None,
        labels: list[str] | None = None,
        stop_errors: Sequence[type[Exception]] | None = None,
        network: bool | None = None,
        **kwargs: Any,
    ) -> None:
        options, rest = _split(kwargs)
        super().__init__(stop_errors=[SandboxError] if stop_errors is None else stop_errors, **rest)
        self.network = network
        self.init_sandbox_client(**options)
        self.timeout_per_command_seconds = timeout_per_command_seconds
        self.sandbox_request = CreateSandboxRequest(
            name=sandbox_name,
            docker_image=docker_image,
            start_command=start_command,
            cpu_cores=cpu_cores,
            memory_gb=memory_gb,
            disk_size_gb=disk_size_gb,
            gpu_count=gpu_count,
            timeout_minutes=timeout_minutes,
            environment_vars=environment_vars,
            team_id=team_id,
            advanced_configs=advanced_configs,
            labels=labels or [],
        )
        self.add_tool(self.bash, args_to_skip=["sandbox_id", "sandbox_state", "working_dir"])

    def get_sandbox_request(self, state: State) -> CreateSandboxRequest:
        """What this rollout's sandbox is to be like. Override it where tasks differ."""
        return self.sandbox_request.model_copy()

    async def setup_state(self, state: State, **kwargs: Any) -> State:
        """Opens the rollout's sandbox. `MissingDependency` where this machine has no sandboxes."""
        begun = time.perf_counter()
        await self.open_for(state, self.get_sandbox_request(state))
        waited = time.perf_counter() - begun
        state["sandbox_state"] = SandboxState(ready=True, ready_wait_time=waited, command_execution_times=[])
        return await super().setup_state(state, **kwargs) or state

    def update_tool_args(
        self, tool_name: str, tool_args: JsonObject, messages: Messages, state: State, **kwargs: Any
    ) -> Any:
        """The sandbox is the rollout's own; it works in `state["working_dir"]`, where there is one."""
        if tool_name != "bash":
            return dict(tool_args)
        return {
            **tool_args,
            "sandbox_id": state["sandbox_id"],
            "sandbox_state": state["sandbox_state"],
            "working_dir": state.get("working_dir"),
        }

    async def bash(
        self, command: str, sandbox_id: str, sandbox_state: SandboxState, working_dir: str | None = None
    ) -> str:
        """Runs a command in a sandbox that keeps its files.

        Args:
            command: a script for bash
        """
        begun = time.perf_counter()
        seconds = self.timeout_per_command_seconds
        try:
            done = await self.sandbox_client.execute_command(
                sandbox_id, command, working_dir=working_dir, timeout=seconds
            )
        except author_class(CommandTimeoutError):
            sandbox_state["command_execution_times"].append(seconds)
            return f"Error: Command timed out after {seconds:g}s"
        except SandboxError:
            raise
        except RuntimeError as error:  # The sandbox is closed, or its time is up.
            raise SandboxError(str(error)) from error
        sandbox_state["command_execution_times"].append(time.perf_counter() - begun)
        stderr = done.stderr.strip()
        parts = [done.stdout.strip(), f"stderr:\n{stderr}" if stderr else ""]
        return "\n".join(part for part in parts if part) or "(no output)"

    async def post_rollout(self, state: State) -> None:
        """Called when the agent has stopped and before scoring, with the sandbox still open."""

    @cleanup
    async def destroy_sandbox(self, state: State) -> None:
        """Calls `post_rollout` and ends what still runs; the sandbox itself is closed behind the scoring."""
        await maybe_await(self.post_rollout, state)
        if state.get("sandbox_id") in self.active_sandboxes:
            await self.sandbox_client.stop_jobs(state["sandbox_id"])

    def monitor(self, state: State) -> dict[str, float]:
        """The turns and calls, and how long the sandbox and its commands took."""
        found = super().monitor(state)
        counted: SandboxState | None = state.get("sandbox_state")
        if counted is not None:
            found["sandbox_ready_wait_time"] = counted["ready_wait_time"]
            if times := counted["command_execution_times"]:
                found["sandbox_command_execution_time"] = sum(times) / len(times)
        return found


_CLIENT = frozenset(
    {
        "max_retries", "base_delay", "backoff_factor", "max_backoff_seconds", "jitter", "timeouts", "sandbox_client",
        "sandbox_client_max_workers", "sandbox_client_max_connections", "sandbox_client_max_keepalive_connections",
        "sandbox_wait_for_creation_max_attempts", "sandbox_creations_per_minute",
    }
)  # fmt: skip
"""Options that are the client's."""


def _split(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    client = {name: value for name, value in options.items() if name in _CLIENT}
    return client, {name: value for name, value in options.items() if name not in _CLIENT}
