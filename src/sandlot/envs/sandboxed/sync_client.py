"""The client without `await`, for authors who look into a sandbox while they load their environment.

Invariants: one loop in a thread of its own, started by the first call; everything else is the other client's.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from sandlot.envs.sandboxed.client import AsyncSandboxClient


class APIClient:
    """What the original's clients reach their provider by; here there is nothing to reach."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass


class SandboxClient:
    """`AsyncSandboxClient` with calls that block: `create`, `execute_command`, `upload_file`, `delete` and the rest."""

    def __init__(self, *_: Any, network: bool | None = None, **__: Any) -> None:
        self._client = AsyncSandboxClient(network=network)
        self._loop: asyncio.AbstractEventLoop | None = None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if not asyncio.iscoroutinefunction(method):
            return method

        def blocking(*args: Any, **kwargs: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(method(*args, **kwargs), self._running()).result()

        return blocking

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="sandlot-sandboxes", daemon=True).start()
        return self._loop
