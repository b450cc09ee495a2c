"""What an agent left in its sandbox, for those who score it.

Invariants: nothing of the agent runs any more when something is read; what is not there is None; what the provider
fails at is raised, because a failed grader is no wrong answer.
"""

from __future__ import annotations

from typing import Any

from sandlot.engine import State
from sandlot.envs.sandboxed import AsyncSandboxClient, SandboxFileNotFoundError
from sandlot.envs.sandboxed.requests import author_class
from sandlot.errors import SandboxError


def place_of(state: State) -> tuple[AsyncSandboxClient, str]:
    """The client and the id of the rollout's sandbox. `SandboxError` where there is none any more."""
    client, sandbox_id = state.get("sandbox_client"), state.get("sandbox_id")
    if client is None or not sandbox_id:
        raise SandboxError(
            "there is no sandbox to score in: a saved rollout has none, and no more has one without set-up"
        )
    return client, str(sandbox_id)


async def file_left(state: State, path: str) -> str | None:
    """The text of a file; None where there is none."""
    client, sandbox_id = place_of(state)
    await client.stop_jobs(sandbox_id)
    try:
        read: Any = await client.read_file(sandbox_id, path)
    except author_class(SandboxFileNotFoundError):
        return None
    return str(read.content)
