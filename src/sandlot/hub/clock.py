"""Time as the hub writes it: ISO 8601 in UTC with microseconds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

Clock: TypeAlias = Callable[[], float]
"""Seconds since the epoch. Passed in, so that tests can say what time it is."""


def stamp(seconds: float) -> str:
    """A moment as text: `2026-01-01T00:00:00.000000Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def later(seconds: float, **span: float) -> str:
    """`stamp` of `seconds` and a `timedelta` after it: `later(now, days=30)`."""
    return stamp(seconds + timedelta(**span).total_seconds())
