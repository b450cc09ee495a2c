"""Several rubrics as one.

Invariants: every rubric scores with its own parser and its own class objects, in list order; the reward is the sum of
theirs, and none where one of them gives none; what two of them report under one name is told apart by a number, never
merged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from sandlot.engine import State
from sandlot.envs.calls import call_all
from sandlot.envs.reward_functions import RewardFunction
from sandlot.envs.rubric import Rubric, note_scores
from sandlot.errors import Invalid
from sandlot.records import Reward, Verdict


class RubricGroup(Rubric):
    """Rubrics that score one after the other. What is added to the group itself is added to its first rubric."""

    def __init__(self, rubrics: Sequence[Rubric]) -> None:
        if not rubrics:
            raise Invalid("a RubricGroup needs at least one rubric")
        self.rubrics = list(rubrics)
        self.parser = self.rubrics[0].parser
        self.logger = self.rubrics[0].logger

    @property
    def functions(self) -> list[RewardFunction]:  # type: ignore[override]
        """The functions of all rubrics, in the order in which they run."""
        return [function for rubric in self.rubrics for function in rubric.functions]

    @property
    def class_objects(self) -> dict[str, Any]:  # type: ignore[override]
        """The objects of all rubrics; where two share a name, the first one's."""
        merged: dict[str, Any] = {}
        for rubric in reversed(self.rubrics):
            merged |= rubric.class_objects
        return merged

    @property
    def rewards_anything(self) -> bool:
        """Whether one of the rubrics does."""
        return any(rubric.rewards_anything for rubric in self.rubrics)

    @property
    def parts(self) -> list[Rubric]:
        """The rubrics, those of groups within the group too."""
        return [part for rubric in self.rubrics for part in rubric.parts]

    def add_reward_func(self, func: Callable[..., Any], weight: float = 1.0) -> None:
        """Adds a reward to the first rubric."""
        self.rubrics[0].add_reward_func(func, weight)

    def add_class_object(self, name: str, obj: Any) -> None:
        """Makes `obj` available to the functions of every rubric."""
        for rubric in self.rubrics:
            rubric.add_class_object(name, obj)

    def check(self, columns: Iterable[str]) -> None:
        """`Invalid` if a function requires what neither its rubric nor the tasks have."""
        known = list(columns)
        for rubric in self.rubrics:
            rubric.check(known)

    async def score_states(self, states: Sequence[State]) -> list[Verdict]:
        """One verdict for each state: the rubrics' verdicts put together."""
        by_rubric = [await rubric.score(states) for rubric in self.rubrics]
        verdicts = [_together(parts) for parts in zip(*by_rubric, strict=True)]
        note_scores(states, verdicts)
        return verdicts

    @property
    def cleans_up(self) -> bool:
        """Whether it, or a rubric of it, does anything in `cleanup`."""
        return super().cleans_up or any(rubric.cleans_up for rubric in self.rubrics)

    async def cleanup(self, state: State) -> None:
        """Its own clean-up and that of every rubric, also where one of them fails."""
        await call_all([super().cleanup, *(rubric.cleanup for rubric in self.rubrics)], state)

    async def teardown(self) -> None:
        """Its own tear-down and that of every rubric, also where one of them fails."""
        await call_all([super().teardown, *(rubric.teardown for rubric in self.rubrics)])


def _together(parts: Sequence[Verdict]) -> Verdict:
    taken: set[str] = set()
    rewards: list[Reward] = []
    metrics: dict[str, float] = {}
    for part in parts:
        names = {name: _told_apart(name, taken) for name in dict.fromkeys((*_names(part.rewards), *part.metrics))}
        taken.update(names.values())
        rewards += [msgspec.structs.replace(reward, name=names[reward.name]) for reward in part.rewards]
        metrics |= {names[name]: value for name, value in part.metrics.items()}
    values = [part.reward for part in parts if part.reward is not None]
    return Verdict(
        reward=math.fsum(values) if len(values) == len(parts) else None,
        rewards=rewards,
        metrics=metrics,
        failure=next((part.failure for part in parts if part.failure is not None), None),
        seconds=math.fsum(part.seconds for part in parts),
    )


def _names(rewards: Iterable[Reward]) -> list[str]:
    return [reward.name for reward in rewards]


def _told_apart(name: str, taken: set[str]) -> str:
    number, told = 1, name
    while told in taken:
        number += 1
        told = f"{name}_{number}"
    return told
