"""How many requests an endpoint gets at once: additive increase, multiplicative decrease.

Invariants: never more than `limit` are in flight; waiting is first come, first served; a slot is given back exactly
once, also when its holder is cancelled; one burst of 429s counts as one signal, not as many.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable


class AdaptiveLimit:
    """A limit on requests in flight that halves when the endpoint says it is too much, and grows again while it copes.

    It starts at `most`, so an endpoint that never complains costs nothing.
    """

    def __init__(self, most: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(most)
        self._limit = float(most)
        self._busy = 0
        self._cuts = 0
        self._resume_at = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._clock = clock

    @property
    def limit(self) -> int:
        """How many may be in flight now."""
        return int(self._limit)

    @property
    def in_flight(self) -> int:
        """How many are."""
        return self._busy

    async def acquire(self) -> int:
        """Waits for a slot and gives the ticket that `release` and `throttled` take."""
        if self._resume_at:
            await self._pause()
        if self._busy < int(self._limit) and not self._waiting:
            self._busy += 1
            return self._cuts
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back()  # The slot was handed over in the very moment of the cancellation.
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise
        return self._cuts

    def release(self) -> None:
        """Gives a slot back."""
        self._give_back()

    def succeeded(self) -> None:
        """The endpoint coped: a whole round of answers at the limit raises the limit by one."""
        if self._limit < self._most:
            self._limit = min(self._most, self._limit + 1.0 / self._limit)

    def throttled(self, ticket: int, *, pause: float | None = None) -> None:
        """The endpoint said that it is too much. `pause`: seconds in which it wants no request at all.

        Only a request that was admitted since the last cut says something about the present limit.
        """
        if ticket == self._cuts:
            self._limit = max(1.0, min(self._limit, float(self._busy)) / 2)
            self._cuts += 1
        if pause:
            self._resume_at = max(self._resume_at, self._clock() + pause)

    async def _pause(self) -> None:
        # A pause may be made longer while it is waited for, so one sleep is not enough.
        while (seconds := self._resume_at - self._clock()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(seconds)
        self._resume_at = 0.0

    def _give_back(self) -> None:
        self._busy -= 1
        while self._waiting and self._busy < int(self._limit):
            turn = self._waiting.popleft()
            if not turn.done():
                self._busy += 1
                turn.set_result(None)
