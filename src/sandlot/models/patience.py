"""Waiting that is nobody's doing: for admission to an endpoint, or for its rate limit to pass.

Invariants: whoever plays a rollout against a deadline is told when such a wait begins and ends, in the task that
waits, and stops its clock meanwhile; where nobody plays against one, nothing happens.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Protocol


class Clock(Protocol):
    """A clock that can be stopped. Stops may overlap: it goes on when the last one ends."""

    def stop(self) -> None:
        """A wait begins."""

    def go_on(self) -> None:
        """A wait has ended."""


rollout_clock: ContextVar[Clock | None] = ContextVar("rollout_clock", default=None)
"""The clock of the rollout that is played in this task."""


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """While the block runs, the clock of the rollout stands still."""
    clock = rollout_clock.get()
    if clock is None:
        yield
        return
    clock.stop()
    try:
        yield
    finally:
        clock.go_on()
