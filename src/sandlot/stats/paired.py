"""Whether one run is better than another on the tasks that both played."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from random import Random

from sandlot.stats.intervals import mean_interval
from sandlot.stats.student import t_cdf

_EXACT = 12
"""Pairs up to which every assignment of signs is tried: 4,096 of them."""


@dataclass(frozen=True, slots=True)
class Paired:
    """The mean of `b - a`, task by task. What one pair cannot tell is None."""

    n: int
    """How many tasks both have."""
    difference: float
    stderr: float | None
    low: float | None
    high: float | None
    t_p: float | None
    """Two-sided p of Student's paired test."""
    permutation_p: float | None
    """Two-sided p of the sign-flip permutation test, which assumes no distribution."""
    wins: int
    """Tasks on which `b` is better."""
    losses: int


def paired(
    a: Sequence[float], b: Sequence[float], *, rng: Random, permutations: int = 10_000, confidence: float = 0.95
) -> Paired | None:
    """Compares `b` with `a`, whose i-th values are the means of the same task; None where there is no task.

    Up to 12 pairs all sign flips are tried, above that `permutations` that `rng` draws. `ValueError` for lists of
    different lengths.
    """
    differences = [after - before for before, after in zip(a, b, strict=True)]
    interval = mean_interval([[difference] for difference in differences], confidence)
    if interval is None:
        return None
    several = len(differences) > 1
    return Paired(
        n=len(differences),
        difference=interval.mean,
        stderr=interval.stderr,
        low=interval.low,
        high=interval.high,
        t_p=_t_p(interval.mean, interval.stderr, len(differences)),
        permutation_p=_permutation_p(differences, rng, permutations) if several else None,
        wins=sum(difference > 0 for difference in differences),
        losses=sum(difference < 0 for difference in differences),
    )


def _t_p(difference: float, stderr: float | None, n: int) -> float | None:
    if stderr is None:
        return None
    if stderr == 0:
        return 1.0 if difference == 0 else 0.0
    return 2 * t_cdf(-abs(difference) / stderr, n - 1)


def _permutation_p(differences: Sequence[float], rng: Random, permutations: int) -> float:
    """Phipson and Smyth (2010): the observed assignment counts as one of those that were drawn, so p is never 0."""
    # A tolerance, because equal sums in another order differ in the last bits.
    seen = abs(math.fsum(differences)) * (1 - 1e-12)
    if len(differences) <= _EXACT:
        flips = product((1, -1), repeat=len(differences))
        sums = [abs(math.fsum(d * s for d, s in zip(differences, signs, strict=True))) for signs in flips]
        return sum(total >= seen for total in sums) / len(sums)
    extreme = 0
    for _ in range(permutations):
        bits = rng.getrandbits(len(differences))
        total = sum(d if bits >> i & 1 else -d for i, d in enumerate(differences))
        extreme += abs(total) >= seen
    return (1 + extreme) / (1 + permutations)
