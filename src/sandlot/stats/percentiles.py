"""Percentiles, exact: by linear interpolation between the two nearest values of the sorted list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def percentile(ordered: Sequence[float], p: float) -> float | None:
    """The `p`-th percentile, 0 to 100, of values that are sorted already; None of nothing. `ValueError` for other `p`.

    Hyndman and Fan's type 7, which is numpy's default.
    """
    if not 0 <= p <= 100:
        raise ValueError(f"the {p}th percentile")
    if not ordered:
        return None
    position = (len(ordered) - 1) * p / 100
    below = int(position)
    if below + 1 >= len(ordered):
        return ordered[-1]
    low, high = ordered[below], ordered[below + 1]
    return min(high, low + (high - low) * (position - below))


def percentiles(values: Iterable[float], ps: Sequence[float] = (50, 95, 99)) -> dict[str, float]:
    """Some percentiles by name, such as `p95`; empty of nothing."""
    ordered = sorted(values)
    found = {f"p{p:g}": percentile(ordered, p) for p in ps}
    return {name: value for name, value in found.items() if value is not None}
