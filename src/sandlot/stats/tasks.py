"""Two measurements of the same tasks, side by side, and what may be said of them.

Invariants: only tasks that both have are compared, and how many were left out is said; a difference is always second
minus first; "better" is said only where a test of the paired differences says so, and never of fewer tasks than could
show it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist
from typing import Literal

from sandlot.stats.paired import paired
from sandlot.stats.student import t_quantile

EXACT = 12
"""Up to so many tasks the p of every assignment of signs is given; above, that of Student's paired test."""

ALPHA = 0.05
"""A p below this is taken for a difference."""

POWER = 0.8
"""With this chance a difference of the size `detectable` would have been found."""

TaskKey = tuple[str, str]
"""An environment and the id of one of its tasks."""

Said = Literal["second", "first", "undecided", "equal", "too few tasks", "no task in common"]


@dataclass(frozen=True, slots=True)
class TaskPair:
    """One task in both measurements."""

    key: TaskKey
    first: float
    second: float

    @property
    def difference(self) -> float:
        """Second minus first."""
        return self.second - self.first


@dataclass(frozen=True, slots=True)
class Compared:
    """What the second did differently. What the tasks cannot tell is None."""

    tasks: list[TaskPair]
    """Where the second lost most, first; of equal ones in the order of their keys."""
    left_out: int
    """Tasks that only one of the two has."""
    difference: float | None = None
    low: float | None = None
    """The lower end of its 95 % interval over tasks."""
    high: float | None = None
    p: float | None = None
    """Two-sided: of the sign-flip permutation test up to `EXACT` tasks, of Student's paired test above."""
    test: Literal["sign-flip", "t"] = "sign-flip"
    wins: int = 0
    """Tasks on which the second is better."""
    losses: int = 0
    detectable: float | None = None
    """The true difference that so many tasks, as noisy as these, would have shown with a chance of 80 %."""

    @property
    def n(self) -> int:
        """How many tasks both have."""
        return len(self.tasks)

    def better(self, p: float | None = None) -> Said:
        """Which of the two is better, if that can be said at all; `p` is the one corrected for several comparisons."""
        p = self.p if p is None else p
        if not self.tasks:
            return "no task in common"
        if not self.wins and not self.losses:
            return "equal"
        if p is None or (self.test == "sign-flip" and 2.0 ** (1 - self.n) >= ALPHA):
            return "too few tasks"
        if p >= ALPHA or self.difference is None:
            return "undecided"
        return "second" if self.difference > 0 else "first"


def compare_tasks(first: Mapping[TaskKey, float], second: Mapping[TaskKey, float]) -> Compared:
    """Compares the means of the tasks that both have, by their keys."""
    shared = [key for key in first if key in second]
    pairs = [TaskPair(key, first[key], second[key]) for key in shared]
    tasks = sorted(pairs, key=lambda one: (one.difference, one.key))
    left_out = len(first.keys() ^ second.keys())
    found = paired([one.first for one in pairs], [one.second for one in pairs], rng=Random(0), permutations=0)
    if found is None:
        return Compared(tasks, left_out)
    exact = found.n <= EXACT
    return Compared(
        tasks,
        left_out,
        difference=found.difference,
        low=found.low,
        high=found.high,
        p=found.permutation_p if exact else found.t_p,
        test="sign-flip" if exact else "t",
        wins=found.wins,
        losses=found.losses,
        detectable=_detectable(found.stderr, found.n),
    )


def holm(values: Sequence[float | None]) -> list[float | None]:
    """p values corrected for their number, in the same order (Holm, 1979); None stays None and does not count."""
    known = sorted((p, index) for index, p in enumerate(values) if p is not None)
    corrected: list[float | None] = [None] * len(values)
    highest = 0.0
    for rank, (p, index) in enumerate(known):
        highest = max(highest, min(1.0, p * (len(known) - rank)))
        corrected[index] = highest
    return corrected


def _detectable(stderr: float | None, n: int) -> float | None:
    """(t_{1-α/2} + z_{power}) · stderr: Miller, "Adding Error Bars to Evals" (arXiv 2411.00640), equation 9."""
    if stderr is None or not math.isfinite(stderr):
        return None
    return (t_quantile(1 - ALPHA / 2, n - 1) + NormalDist().inv_cdf(POWER)) * stderr
