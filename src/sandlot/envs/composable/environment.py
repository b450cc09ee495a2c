"""An environment of a set of tasks and a harness: the tasks say what is to be done, the harness how the agent runs.

Invariants: every rollout has a sandbox and an endpoint of its own, both closed however it ends; the agent's calls are
the rollout's turns and come from nowhere else; nothing of the agent runs while it is scored.
"""

from __future__ import annotations

import json
import shlex
from importlib import resources
from pathlib import Path
from typing import Any

from sandlot.engine import State, in_thread
from sandlot.envs.agents.playing import PlaysAgent
from sandlot.envs.calls import maybe_await
from sandlot.envs.composable.harness import Harness
from sandlot.envs.composable.tasks import Folder, SandboxSpec, TaskSet
from sandlot.envs.numbers import finite_number
from sandlot.errors import Invalid, SandboxError

_LEFT_BEHIND = (".git", ".venv", "venv", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", "node_modules")


class ComposableEnv(PlaysAgent):
    """Plays the tasks of `taskset` with the agent of `harness`, each rollout in a sandbox.

    The rubric is the set's (`rubric` overrides it). `install_env` are variables of the installation alone. Other
    options are those of `PlaysAgent`.
    """

    def __init__(
        self, taskset: TaskSet, harness: Harness, *, install_env: dict[str, str] | None = None, **kwargs: Any
    ) -> None:
        kwargs.setdefault("rubric", taskset.get_rubric())
        super().__init__(run_command=harness.run_command, dataset=taskset.get_dataset, **kwargs)
        self.taskset, self.harness = taskset, harness
        self.install_env = dict(install_env or {})

    async def get_docker_image(self, state: State) -> str:
        """The image of the task's sandbox, else the harness' own."""
        spec = self._spec(state)
        return spec.image if spec else self.docker_image

    def get_sandbox_resources(self, state: State) -> dict[str, Any]:
        """What the task asks for, else the harness, else the environment."""
        spec = self._spec(state)
        if spec is None:
            return super().get_sandbox_resources(state)
        return {
            "cpu_cores": spec.cpu_cores,
            "memory_gb": spec.memory_gb,
            "disk_size_gb": spec.disk_size_gb,
            "gpu_count": spec.gpu_count,
            "gpu_type": spec.gpu_type,
            "timeout_minutes": spec.timeout_minutes or self.compute_sandbox_timeout_minutes(),
        }

    async def build_env_vars(self, state: State) -> dict[str, str]:
        """The environment's variables, the harness' and the set's. `Invalid` where one would hide the endpoint."""
        variables = await super().build_env_vars(state)
        own = self.PROTECTED_ENV_VARS | {"AGENT_WORKDIR"}
        of_harness = self.harness.environment_vars(state) if self.harness.environment_vars else {}
        for owner, more in (("the harness", of_harness), (type(self.taskset).__name__, self.taskset.get_env_vars())):
            if taken := sorted(own & more.keys()):
                raise Invalid(f"{owner} sets {', '.join(taken)}, which say where the rollout's endpoint is")
            variables.update(more)
        return {**variables, "AGENT_WORKDIR": self.taskset.get_workdir(state["info"] or {})}

    async def post_sandbox_setup(self, state: State) -> None:
        """The task's set-up, then what the agent reads, then the agent itself."""
        sandbox_id, harness = state["sandbox_id"], self.harness
        spec = self._spec(state)
        minutes = (spec and spec.timeout_minutes) or self.compute_sandbox_timeout_minutes()
        state.update(sandbox_client=self.sandbox_client, test_timeout=60 * minutes)
        await maybe_await(self.taskset.setup, state)
        instruction = self.taskset.get_instruction(state["info"] or {})
        await self.upload_content(sandbox_id, instruction, harness.instruction_path)
        if harness.system_prompt:
            await self.upload_content(sandbox_id, harness.system_prompt, harness.system_prompt_path)
        for source, path in (await in_thread(self._folders)).items():
            await self._lay(sandbox_id, source, path)
        await self._install(sandbox_id, harness.install_script, "the agent could not be installed")
        for path, text in (harness.post_install_uploads or {}).items():
            await self.upload_content(sandbox_id, text, path)
        await self._install(sandbox_id, harness.post_install_script, "what follows the agent's installation failed")

    async def post_rollout(self, state: State) -> None:
        """Takes the agent's log and its metrics."""
        await super().post_rollout(state)
        if self.harness.log_path and "agent_logs" not in state:
            state["agent_logs"] = (await self.read_file(state["sandbox_id"], self.harness.log_path) or "").strip()
        if self.harness.metrics_path:
            state["_harness_metrics"] = await self._left_metrics(state, self.harness.metrics_path)
            state.update(state["_harness_metrics"])

    async def add_trajectory_step(self, state: State, trajectory_step: dict[str, Any]) -> None:
        """Adds a step, unless the harness says that it is not the agent's own."""
        keep = self.harness.keep_trajectory_step
        if keep is None or keep(trajectory_step, state, state.get("_last_request_headers") or {}):
            await super().add_trajectory_step(state, trajectory_step)

    def monitor(self, state: State) -> dict[str, float]:
        """The turns, the calls of the harness' tools, and the numbers that the agent left."""
        names = self.harness.tool_names or []
        called = [
            str(call.get("function", {}).get("name"))
            for step in state["trajectory"]
            for message in step["completion"]
            for call in message.get("tool_calls") or []
        ]
        counts = {f"{name}_calls": float(called.count(name)) for name in names}
        total = {"total_tool_calls": float(len(called))} if names else {}
        numbers = {
            name: finite_number(value, f"the agent's metric {name} is")
            for name, value in (state.get("_harness_metrics") or {}).items()
            if isinstance(value, int | float)
        }
        return {**super().monitor(state), **total, **counts, **numbers}

    def _spec(self, state: State) -> SandboxSpec | None:
        return self.taskset.get_sandbox_spec(state["info"] or {}) or self.harness.sandbox_spec

    def _folders(self) -> dict[Folder, str]:
        """What is laid in the sandbox, and where."""
        places = self.harness.get_effective_upload_dir_mapping() or {}
        of_tasks = self.taskset.get_upload_dirs() or {}
        of_harness = (self.harness.get_upload_dirs() if self.harness.get_upload_dirs else None) or {}
        if twice := sorted(of_tasks.keys() & of_harness.keys()):
            raise Invalid(f"the tasks and the harness both lay a folder named {', '.join(twice)}")
        return {folder: places[name] for name, folder in {**of_tasks, **of_harness}.items() if name in places}

    async def _lay(self, sandbox_id: str, source: Folder, path: str) -> None:
        sandbox = self.sandbox_client.sandbox_of(sandbox_id)
        if isinstance(source, Path):
            await sandbox.upload(source, path)
        else:
            with resources.as_file(source) as folder:
                await sandbox.upload(folder, path)
        names = " -o ".join(f"-name {name}" for name in _LEFT_BEHIND)
        await self.sandbox_client.execute_command(
            sandbox_id, f"find {shlex.quote(path)} \\( {names} \\) -prune -exec rm -rf {{}} +", timeout=60
        )

    async def _install(self, sandbox_id: str, script: str | None, wrong: str) -> None:
        if not script:
            return
        done = await self.sandbox_client.execute_command(
            sandbox_id, script, env=self.install_env, timeout=float(self.harness.install_timeout)
        )
        if done.exit_code:
            said = (done.stderr or done.stdout).strip()[-500:]
            raise SandboxError(f"{wrong} (exit code {done.exit_code}): {said or 'it said nothing'}")

    async def _left_metrics(self, state: State, pattern: str) -> dict[str, Any]:
        """What the agent wrote of itself; nothing where it wrote nothing that can be read."""
        harness = self.harness
        glob = pattern.format(workdir=shlex.quote(self.taskset.get_workdir(state["info"] or {})))
        found = await self.sandbox_client.execute_command(
            state["sandbox_id"], f'for file in {glob}; do [ -f "$file" ] && cat -- "$file" && break; done; true'
        )
        try:
            read = json.loads(found.stdout or "{}")
            values = read.get(harness.metrics_key, {}) if harness.metrics_key else read
            named = {str(name): value for name, value in dict(values).items()}
        except (ValueError, TypeError, AttributeError):
            self.logger.warning("the agent left metrics at %s that are no JSON object", pattern)
            return {}
        wanted = (
            named if harness.metrics_keys is None else {k: v for k, v in named.items() if k in harness.metrics_keys}
        )
        return {f"{harness.metrics_prefix}{name}": value for name, value in wanted.items()}
