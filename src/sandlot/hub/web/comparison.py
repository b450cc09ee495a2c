"""Two runs of the same tasks, side by side. Pure functions over their records and summaries.

Invariants: only tasks that both runs scored are compared, and how many were left out is said; a difference is always
second minus first, with its 95 % interval over tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec

from sandlot.hub.runs import RunSummary
from sandlot.records import Run
from sandlot.stats import Paired, paired

EXACT = 12
"""Up to so many tasks the p of every assignment of signs is given; above, that of Student's paired test."""


class TaskPair(msgspec.Struct, frozen=True, kw_only=True):
    """One task in both runs."""

    task_id: str
    first: float
    second: float

    @property
    def difference(self) -> float:
        """Second minus first."""
        return self.second - self.first


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What the second run did differently."""

    tasks: list[TaskPair]
    """Where the second lost most, first."""
    left_out: int
    """Tasks that only one of the two scored."""
    difference: float | None = None
    half_width: float | None = None
    p: float | None = None
    wins: int = 0
    """Tasks on which the second is better."""
    losses: int = 0
    settings: list[tuple[str, str, str]] = []
    """What the configurations do not share: name, first, second."""
    cautions: list[str] = []
    """Why the two may not have measured the same thing."""


def compare(first: tuple[Run, RunSummary], second: tuple[Run, RunSummary]) -> Comparison:
    """Compares by the means of the tasks that both runs have."""
    (run, summary), (other_run, other) = first, second
    means = {(one.environment, one.task_id): one.mean for one in summary.task_scores}
    others = {(one.environment, one.task_id): one.mean for one in other.task_scores}
    shared = [key for key in means if key in others]
    pairs = [TaskPair(task_id=key[1], first=means[key], second=others[key]) for key in shared]
    found = paired([one.first for one in pairs], [one.second for one in pairs], rng=Random(0), permutations=0)
    tasks = sorted(pairs, key=lambda one: (one.difference, one.task_id))
    return Comparison(
        tasks=tasks,
        left_out=len(means.keys() ^ others.keys()),
        settings=differing(run, other_run),
        cautions=cautions(run, other_run),
        **({} if found is None else _figures(found)),
    )


def _figures(found: Paired) -> dict[str, Any]:
    return {
        "difference": found.difference,
        "half_width": None if found.high is None else found.high - found.difference,
        "p": found.permutation_p if found.n <= EXACT else found.t_p,
        "wins": found.wins,
        "losses": found.losses,
    }


def differing(first: Run, second: Run) -> list[tuple[str, str, str]]:
    """What of model and configuration the two runs do not share."""
    one, other = _flat({"model": first.model, **first.config}), _flat({"model": second.model, **second.config})
    names = [*one, *(name for name in other if name not in one)]
    return [(name, one.get(name, ""), other.get(name, "")) for name in names if one.get(name) != other.get(name)]


def cautions(first: Run, second: Run) -> list[str]:
    """Why the two may not have measured the same thing: other code, other tasks, unfinished."""
    found = []
    mine, others = ({one.name or one.id: one for one in run.environments} for run in (first, second))
    if mine.keys() != others.keys():
        found.append(f"They played different environments: {', '.join(mine)} and {', '.join(others)}.")
    for name in mine.keys() & others.keys():
        a, b = mine[name], others[name]
        if a.version != b.version:
            found.append(f"They played different versions of {name}: {a.version or 'none'} and {b.version or 'none'}.")
        elif a.digest and b.digest and a.digest != b.digest:
            found.append(f"The code of {name} was changed between them.")
        if a.tasks and b.tasks and a.tasks != b.tasks:
            found.append(f"Their lists of tasks of {name} differ; only what both have is compared.")
        if a.args != b.args:
            found.append(f"{name} was loaded with different arguments.")
    found += [f"{run.name or run.id} is {run.status}." for run in (first, second) if run.status != "done"]
    return found


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        elif value is not None:
            flat[prefix + name] = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return flat
