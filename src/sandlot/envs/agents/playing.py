"""An environment whose agent is a program: it runs in a sandbox and calls an endpoint, and its calls are the turns.

Invariants: the sandbox and the endpoint are one rollout's alone and are closed however it ends; the program is ended
before anybody scores what it left; a program that ends before it has called the policy is a failed set-up and no
answer.
"""

from __future__ import annotations

import asyncio
from typing import Any

from sandlot.engine import State
from sandlot.envs.agents.endpoint import AgentCall, AgentEndpoint
from sandlot.envs.calls import maybe_await
from sandlot.envs.decorators import cleanup, stop
from sandlot.envs.multiturn import MultiTurnEnv
from sandlot.envs.response import Response
from sandlot.envs.sandboxed import CreateSandboxRequest, SandboxMixin
from sandlot.errors import Error, InfraError
from sandlot.records import Messages

_SILENT = {"OPENAI_TIMEOUT": "3600", "OPENAI_REQUEST_TIMEOUT": "3600", "HTTPX_TIMEOUT": "3600"}
"""The policy may think for long: clients that look at these variables wait."""
_SAID = 2000


class AgentError(InfraError):
    """The agent's program could not be run."""


class PlaysAgent(SandboxMixin, MultiTurnEnv):
    """Runs `run_command` in a sandbox of each rollout's own, with `$OPENAI_BASE_URL` and `$OPENAI_MODEL`.

    It is over when the program ends, or at `max_turns` calls or after `timeout_seconds`, when the program is ended. The
    sandbox reaches the network of this machine, because the endpoint is there. Override `build_env_vars`,
    `post_sandbox_setup` and `post_rollout`; `docker_image`, `cpu_cores`, `memory_gb` and so on are as of `SandboxEnv`.
    """

    PROTECTED_ENV_VARS = frozenset({"OPENAI_BASE_URL", "OPENAI_MODEL", "OPENAI_API_KEY", *_SILENT})

    def __init__(
        self,
        run_command: str,
        max_turns: int = -1,
        docker_image: str = "python:3.11-slim",
        start_command: str = "tail -f /dev/null",
        cpu_cores: float = 1,
        memory_gb: float = 2,
        disk_size_gb: float = 5,
        gpu_count: int = 0,
        environment_vars: dict[str, str] | None = None,
        labels: list[str] | None = None,
        keep_sandbox_for_scoring: bool = False,
        poll_interval: float = 1.0,
        **kwargs: Any,
    ) -> None:
        client = {name: kwargs.pop(name) for name in list(kwargs) if name.startswith(_CLIENT) or name in _RETRIES}
        super().__init__(max_turns=max_turns, **kwargs)
        self.network = True
        self.init_sandbox_client(**client)
        self.run_command = run_command
        self.docker_image, self.start_command = docker_image, start_command
        self.cpu_cores, self.memory_gb, self.disk_size_gb = cpu_cores, memory_gb, disk_size_gb
        self.gpu_count, self.labels = gpu_count, labels
        self.environment_vars = dict(environment_vars or {})
        self.keep_sandbox_for_scoring, self.poll_interval = keep_sandbox_for_scoring, poll_interval

    # What an author may override

    async def get_docker_image(self, state: State) -> str:
        """The image of this rollout's sandbox."""
        return self.docker_image

    def get_sandbox_resources(self, state: State) -> dict[str, Any]:
        """What this rollout's sandbox may take."""
        return {
            "cpu_cores": self.cpu_cores,
            "memory_gb": self.memory_gb,
            "disk_size_gb": self.disk_size_gb,
            "gpu_count": self.gpu_count,
            "timeout_minutes": self.compute_sandbox_timeout_minutes(),
        }

    async def build_env_vars(self, state: State) -> dict[str, str]:
        """Variables that every command in the sandbox sees, the endpoint's among them."""
        return {
            **_SILENT,
            "OPENAI_API_KEY": "none",
            **self.environment_vars,
            "OPENAI_BASE_URL": state["interception_base_url"],
            "OPENAI_MODEL": str(state["model"]),
        }

    async def post_rollout(self, state: State) -> None:
        """Called when the program has stopped and before scoring, with the sandbox still open."""

    async def normalize_response(self, response: Response) -> Response:
        """The response as it stands in the trajectory."""
        return response

    # The loop

    async def setup_state(self, state: State, **kwargs: Any) -> State:
        """Opens the endpoint and the sandbox, and starts the program."""
        state = await super().setup_state(state, **kwargs) or state
        endpoint = AgentEndpoint(model=str(state["model"]))
        state.hold(endpoint.close)
        await endpoint.open()
        state.update(_endpoint=endpoint, rollout_id=state["trajectory_id"], interception_base_url=endpoint.url)
        resources = {name: value for name, value in self.get_sandbox_resources(state).items() if value is not None}
        request = CreateSandboxRequest(
            name=str(state["rollout_id"]),
            docker_image=await self.get_docker_image(state),
            start_command=self.start_command,
            environment_vars=await self.build_env_vars(state),
            labels=self.labels or [],
            **{name: value for name, value in resources.items() if name != "vm"},
        )
        await self.create_sandbox(state, request)
        await self.start_agent(state)
        return state

    async def start_agent(self, state: State) -> None:
        """Starts the program in the background."""
        sandbox_id = state["sandbox_id"]
        started = await self.sandbox_client.start_background_job(sandbox_id, self.run_command)
        job = self.sandbox_client.job_of(sandbox_id, started.job_id)
        state.update(agent_completed=False, background_job=started, _ended=asyncio.ensure_future(job.wait()))

    async def get_prompt_messages(self, state: State) -> Messages:
        """The program's next call; its end is the environment's last word."""
        call = await self._next_call(state)
        if call is None:
            state.update(agent_completed=True, final_env_response=[])
            return []
        state["_call"] = call
        state["tool_defs"] = call.tools
        return call.messages

    async def add_model_response(self, state: State, prompt_messages: Messages, response: Response) -> None:
        """Answers the program's call, and keeps the turn."""
        call: AgentCall | None = state.pop("_call", None)
        if call is not None:
            state["_last_request_headers"] = call.headers
            call.answer(response.completion, prompt_messages)
        if not state["trajectory"]:
            state["prompt"] = list(prompt_messages)
        await super().add_model_response(state, prompt_messages, await self.normalize_response(response))

    async def env_response(self, messages: Messages, state: State, **kwargs: Any) -> Any:
        """Nothing: the program goes on by itself."""
        return []

    @stop
    async def agent_completed(self, state: State) -> bool:
        """The program has ended."""
        return bool(state.get("agent_completed"))

    @cleanup(priority=10)
    async def cleanup_interception_context(self, state: State) -> None:
        """Ends the program and its endpoint, and looks at what it left while the sandbox is there."""
        if state.get("sandbox_id") in self.active_sandboxes:
            await self.sandbox_client.stop_jobs(state["sandbox_id"])
            if "_ended" in state:
                await self._note_end(state)
                await maybe_await(self.post_rollout, state)
        if "_endpoint" in state:
            await state["_endpoint"].close()

    def monitor(self, state: State) -> dict[str, float]:
        """The turns, and whether the program ran out of time or ended with an error."""
        code = state.get("agent_exit_code")
        ended = {"agent_error": float(bool(code))} if state.get("agent_completed") else {}
        return {**super().monitor(state), "agent_timeout": float(bool(state.get("timed_out"))), **ended}

    async def _next_call(self, state: State) -> AgentCall | None:
        """The next call, or None when the program has ended. Calls that were made before its end are still turns."""
        endpoint: AgentEndpoint = state["_endpoint"]
        calling = asyncio.ensure_future(endpoint.next())
        try:
            await asyncio.wait([calling, state["_ended"]], return_when=asyncio.FIRST_COMPLETED)
            if calling.done():
                return calling.result()
        finally:
            calling.cancel()
        await self._note_end(state)
        if not state["turn"]:
            said = (state["agent_stderr"] or state["agent_stdout"]).strip()[-_SAID:]
            raise AgentError(
                f"the agent's program ended with exit code {state['agent_exit_code']} before it called the policy at "
                f"$OPENAI_BASE_URL: {said or 'it said nothing'}"
            )
        return None

    async def _note_end(self, state: State) -> None:
        try:
            ended = await state["_ended"]
        except Error:
            return  # The provider's failure is on record where the program was waited for.
        state.update(agent_exit_code=ended.code, agent_stdout=ended.stdout, agent_stderr=ended.stderr)


_CLIENT = "sandbox_c"
_RETRIES = frozenset({"max_retries", "base_delay", "backoff_factor", "max_backoff_seconds", "jitter", "timeouts"})
"""Options that are the client's, with those that begin so."""
