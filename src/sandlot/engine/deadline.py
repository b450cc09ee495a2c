"""A deadline of play that does not run while the rollout waits for an endpoint's limit."""

from __future__ import annotations

import asyncio
from contextvars import Token
from types import TracebackType

from sandlot.models import Clock, rollout_clock


class Deadline:
    """Ends the block after `seconds` of play, as `TimeoutError`; None is no deadline. Keeps `models.Clock`."""

    def __init__(self, seconds: float | None) -> None:
        self._timeout = asyncio.timeout(seconds)
        self._stops = 0
        self._left = 0.0
        self._token: Token[Clock | None] | None = None

    def expired(self) -> bool:
        """Whether it was the deadline that ended the block."""
        return self._timeout.expired()

    async def __aenter__(self) -> Deadline:
        await self._timeout.__aenter__()
        if self._timeout.when() is not None:
            self._token = rollout_clock.set(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            rollout_clock.reset(self._token)
        await self._timeout.__aexit__(kind, error, trace)

    def stop(self) -> None:
        """The clock stands still until `go_on` was called as often."""
        self._stops += 1
        when = self._timeout.when()
        if self._stops == 1 and when is not None and not self._timeout.expired():
            self._left = when - asyncio.get_running_loop().time()
            self._timeout.reschedule(None)

    def go_on(self) -> None:
        """The clock goes on with what was left."""
        self._stops -= 1
        if self._stops == 0 and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._left)
