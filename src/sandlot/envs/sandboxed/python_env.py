"""Environments whose model works in a Python that keeps its variables, in a sandbox of each rollout's own.

Invariants: code that takes too long is killed with everything it started, and the next starts in a new Python with the
same files; the model is told so.
"""

from __future__ import annotations

import asyncio
import json
import time
import warnings
from pathlib import Path
from typing import Any, TypedDict

from sandlot.engine import State
from sandlot.envs.sandboxed.interpreter import packages
from sandlot.envs.sandboxed.sandbox_env import SandboxEnv, SandboxState
from sandlot.errors import SandboxError
from sandlot.records import JsonObject, Messages
from sandlot.sandboxes import Command, ExecResult

_WORKER = Path(__file__).with_name("python_worker.py")
_PLACE, _REQUESTS, _ANSWERS = "/opt/python_worker.py", "/tmp/.python_requests", "/tmp/.python_answers"
_READY = f"until [ -p {_REQUESTS} ] && [ -p {_ANSWERS} ]; do sleep 0.01; done"
_ASK = f"cat > {_REQUESTS} && exec cat {_ANSWERS}"
_ANEW = "Python was started anew, so that its variables are gone; the files are still there."


class PythonWorkerNotReadyError(SandboxError):
    """Python did not start in a sandbox."""


class PythonWorkerRequestError(SandboxError):
    """Python in a sandbox could not be asked."""


class PythonWorkerDeadError(SandboxError):
    """Python in a sandbox has ended."""


class PythonWorkerState(TypedDict):
    """`state["python_state"]`."""

    ready: bool
    execution_count: int
    ready_wait_time: float
    worker: str
    """The job that it runs as; empty before the first code, and after it ended."""


class PythonEnv(SandboxEnv):
    """A `SandboxEnv` with a tool `python`, whose variables last for the rollout, in place of `bash`.

    `pip_install_packages` can be imported where they are installed on this machine; those that are not are named in a
    warning when the environment is built. Code may take `timeout_per_command_seconds`.
    """

    def __init__(
        self,
        pip_install_packages: str = "numpy sympy scipy",
        max_startup_wait_seconds: float = 30,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"sandbox_name": "python-env", **kwargs})
        bound, missing = packages(pip_install_packages)
        if missing:
            named = ", ".join(missing)
            warnings.warn(
                f"code in the sandbox cannot import {named}: not installed where sandboxes can see it (pip install "
                f"{' '.join(missing)}), or drop it from pip_install_packages",
                UserWarning,
                stacklevel=2,
            )
        self.sandbox_client.read_only |= bound
        self.max_startup_wait_seconds = max_startup_wait_seconds
        self.add_tool(self.python, args_to_skip=["sandbox_id", "sandbox_state", "python_state"])
        self.remove_tool(self.bash)

    async def setup_state(self, state: State, **kwargs: Any) -> State:
        """Opens the rollout's sandbox. Python starts in it with the first code."""
        state = await super().setup_state(state, **kwargs)
        state["python_state"] = PythonWorkerState(ready=False, execution_count=0, ready_wait_time=0.0, worker="")
        return state

    def update_tool_args(
        self, tool_name: str, tool_args: JsonObject, messages: Messages, state: State, **kwargs: Any
    ) -> Any:
        """Python is the rollout's own."""
        if tool_name != "python":
            return super().update_tool_args(tool_name, tool_args, messages, state, **kwargs)
        own = {name: state[name] for name in ("sandbox_id", "sandbox_state", "python_state")}
        return {**tool_args, **own}

    async def python(
        self, code: str, sandbox_id: str, sandbox_state: SandboxState, python_state: PythonWorkerState
    ) -> str:
        """Runs Python code; variables last from one call to the next.

        Args:
            code: what it prints and the value of its last expression are returned
        """
        if not python_state["worker"]:
            await self._start(sandbox_id, python_state)
        python_state["execution_count"] += 1
        begun = time.perf_counter()
        answer = await self._asked(code, sandbox_id, python_state)
        sandbox_state["command_execution_times"].append(time.perf_counter() - begun)
        if isinstance(answer, str):
            await self.sandbox_client.job_of(sandbox_id, python_state["worker"]).kill()
            python_state["worker"], python_state["ready"] = "", False
            return f"Error: {answer}. {_ANEW}"
        return _shown(answer, python_state["execution_count"])

    def monitor(self, state: State) -> dict[str, float]:
        """The turns and calls, and how long Python took to start."""
        found = super().monitor(state)
        if "python_state" in state:
            found["python_ready_wait_time"] = state["python_state"]["ready_wait_time"]
        return found

    async def _start(self, sandbox_id: str, python_state: PythonWorkerState) -> None:
        begun = time.perf_counter()
        client = self.sandbox_client
        await client.execute_command(sandbox_id, f"rm -rf {_REQUESTS} {_ANSWERS}")
        await client.upload_bytes(sandbox_id, _PLACE, await asyncio.to_thread(_WORKER.read_bytes))
        call = f"exec python -u {_PLACE} {_REQUESTS} {_ANSWERS}"
        job = await client.start_background_job(sandbox_id, call)
        seconds = self.max_startup_wait_seconds
        ready = await client.sandbox_of(sandbox_id).run(Command.shell(_READY, seconds=seconds))
        ended = client.job_of(sandbox_id, job.job_id).poll()
        if ended is not None or ready.code:
            said = ended.stderr.strip() if ended is not None else f"not ready after {seconds:g} s"
            raise PythonWorkerNotReadyError(f"Python did not start in sandbox {sandbox_id}: {said}")
        python_state["worker"], python_state["ready"] = job.job_id, True
        python_state["ready_wait_time"] = time.perf_counter() - begun

    async def _asked(self, code: str, sandbox_id: str, python_state: PythonWorkerState) -> JsonObject | str:
        """What the code did, or in words why that is not known."""
        client, seq = self.sandbox_client, python_state["execution_count"]
        asked = json.dumps({"seq": seq, "code": code}).encode()
        request = Command(("sh", "-c", _ASK), stdin=asked, seconds=self.timeout_per_command_seconds)
        running = asyncio.ensure_future(client.sandbox_of(sandbox_id).run(request))
        ending = asyncio.ensure_future(client.job_of(sandbox_id, python_state["worker"]).wait())
        try:
            await asyncio.wait((running, ending), return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                return _ended(ending.result())
            result = running.result()
        finally:
            for task in (running, ending):
                task.cancel()
            await asyncio.wait((running, ending))
        if result.timed_out:
            return f"the code took longer than {self.timeout_per_command_seconds:g} s and was killed"
        try:
            answer = json.loads(result.stdout)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or answer.get("seq") != seq:
            return "the code ended Python, or answered in its place"
        return answer


def _ended(result: ExecResult) -> str:
    said = result.stderr.strip().splitlines()
    return f"the code ended Python{': ' + said[-1] if said else ''}"


def _shown(answer: JsonObject, count: int) -> str:
    stdout, stderr = str(answer.get("stdout") or "").rstrip(), str(answer.get("stderr") or "").rstrip()
    result = answer.get("result")
    parts = [stdout, f"stderr:\n{stderr}" if stderr else ""]
    if result is not None:
        parts.append(str(result).rstrip() if answer.get("status") == "error" else f"Out[{count}]: {result}")
    return "\n".join(part for part in parts if part) or "(no output)"
