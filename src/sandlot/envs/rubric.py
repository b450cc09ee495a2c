"""An environment's rewards together.

Invariants: functions run in list order, because a later one may read what an earlier one wrote into the state; a
function that raises, or returns no finite number, gives no verdict for that rollout and is on record, and is never a
silent 0; `CancelledError` and `KeyboardInterrupt` propagate; blocking functions run in a thread, one hop for every
stretch of them.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sandlot.engine import State, authors_code, failure_of, in_thread
from sandlot.envs.calls import call_all, name_of
from sandlot.envs.decorators import marked
from sandlot.envs.numbers import finite_number
from sandlot.envs.parsers import Parser
from sandlot.envs.reward_functions import PLURAL, RewardFunction
from sandlot.errors import Invalid
from sandlot.records import Failure, Reward, Verdict, storable_text

_FROM_STATE = ("prompt", "completion", "info", "task", "example_id")


@dataclass(frozen=True, slots=True)
class Score:
    """What a reward function may return instead of a number: the value, why, and further numbers to report."""

    value: float
    feedback: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


class _Sheet:
    """The scores of one rollout while they come in."""

    def __init__(self) -> None:
        self.rewards: list[Reward] = []
        self.metrics: dict[str, float] = {}
        self.failure: Failure | None = None
        self.unscored = False

    def enter(self, function: RewardFunction, returned: Any) -> None:
        """Takes what a function returned."""
        score = returned if isinstance(returned, Score) else Score(returned)
        value = finite_number(score.value, "it returned")
        numbers = {
            storable_text(name): finite_number(number, f"its metric {name!r} is")
            for name, number in score.metrics.items()
        }
        if not isinstance(score.feedback, str | None):
            raise Invalid(f"its feedback is a {type(score.feedback).__name__}; text was expected")
        feedback = None if score.feedback is None else storable_text(score.feedback)
        self.metrics.update(numbers)
        if function.weight == 0:
            self.metrics[function.name] = value
        self.rewards.append(Reward(name=function.name, value=value, weight=function.weight, feedback=feedback))

    def fail(self, function: RewardFunction, failure: Failure) -> None:
        """Takes that a function failed. One of weight 0 leaves the reward as it is."""
        self.failure = self.failure or failure
        self.unscored = self.unscored or function.weight != 0

    def _sum(self) -> float | None:
        try:
            return finite_number(math.fsum(each.weight * each.value for each in self.rewards), "the sum of rewards is")
        except (Invalid, OverflowError, ValueError) as error:
            self.failure = self.failure or failure_of(error, "scoring")
            return None

    def verdict(self, seconds: float) -> Verdict:
        """The scores so far as a verdict."""
        reward = None if self.unscored else self._sum()
        return Verdict(
            reward=reward,
            rewards=[reward for reward in self.rewards if reward.weight != 0 or reward.feedback],
            metrics=self.metrics,
            failure=self.failure,
            seconds=seconds,
        )


class Rubric:
    """Weighted reward functions: the reward is the sum of weight × value; weight 0 makes a metric."""

    def __init__(
        self,
        funcs: Sequence[Callable[..., Any]] | None = None,
        weights: Sequence[float] | None = None,
        parser: Parser | None = None,
        *,
        concurrent: bool = False,
    ) -> None:
        functions = list(funcs or [])
        given = list(weights) if weights else [1.0] * len(functions)
        if len(given) != len(functions):
            raise Invalid(f"{len(functions)} reward functions but {len(given)} weights")
        self.parser = parser or Parser()
        self.logger = logging.getLogger(f"sandlot.envs.{type(self).__name__}")
        self.concurrent = concurrent
        self.class_objects: dict[str, Any] = {"parser": self.parser}
        self.functions: list[RewardFunction] = []
        for function, weight in zip(functions, given, strict=True):
            self.add_reward_func(function, weight)

    @property
    def funcs(self) -> list[Callable[..., Any]]:
        """The functions, in order."""
        return [function.function for function in self.functions]

    @property
    def weights(self) -> list[float]:
        """The weights, in the order of `funcs`."""
        return [function.weight for function in self.functions]

    @property
    def grouped(self) -> bool:
        """Whether a function judges all rollouts of a task together."""
        return any(function.is_group for function in self.functions)

    def add_reward_func(self, func: Callable[..., Any], weight: float = 1.0) -> None:
        """Adds a reward. Two of the same name are told apart by a number."""
        base = name_of(func)
        taken = {function.name for function in self.functions}
        name, number = base, 1
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        self.functions.append(RewardFunction(func, weight=float(weight), name=name))

    def add_metric(self, func: Callable[..., Any], weight: float = 0.0) -> None:
        """Adds a number that is reported and does not count."""
        self.add_reward_func(func, weight)

    def add_class_object(self, name: str, obj: Any) -> None:
        """Makes `obj` available to reward functions under `name`."""
        self.class_objects[name] = obj

    def check(self, columns: Iterable[str]) -> None:
        """`Invalid` if a function requires what neither the rubric nor the tasks have."""
        available = [*columns, *self.class_objects]
        for function in self.functions:
            function.check(available)

    async def score(self, states: Sequence[State]) -> list[Verdict]:
        """One verdict for each state, by an author's own `score_rollout` or `score_group` where there is one. Each
        state gets `reward` and `metrics` as well."""
        if type(self).score_group is not Rubric.score_group and (self.grouped or not self._scores_rollouts):
            returned = await self.score_group(states)
            return [_verdict_of(state, given) for state, given in zip(states, returned or states, strict=True)]
        if self._scores_rollouts:
            return [_verdict_of(state, await self.score_rollout(state)) for state in states]
        return await self.score_states(states)

    async def score_rollout(self, state: State) -> Verdict:
        """Scores one state."""
        return (await self.score_states([state]))[0]

    async def score_group(self, states: Sequence[State]) -> list[Verdict]:
        """Scores the states of one task together."""
        return await self.score_states(states)

    async def score_states(self, states: Sequence[State]) -> list[Verdict]:
        """One verdict for each state, by the functions."""
        begin = time.perf_counter()
        sheets = [_Sheet() for _ in states]
        values = [_values(state, self.class_objects) for state in states]
        if self.concurrent and not self.grouped:
            await asyncio.gather(*(self._run([each], values, sheets) for each in self.functions))
        else:
            for batch in _batches(self.functions):
                await self._run(batch, values, sheets)
        seconds = time.perf_counter() - begin
        verdicts = [sheet.verdict(seconds) for sheet in sheets]
        note_scores(states, verdicts)
        return verdicts

    @property
    def cleans_up(self) -> bool:
        """Whether `cleanup` does anything: an author's own, or marked methods."""
        return not type(self).cleanup.__module__.startswith("sandlot.") or bool(marked(self, "cleanup"))

    async def cleanup(self, state: State) -> None:
        """Runs every method marked with `@cleanup`: once for each rollout, after its verdict."""
        await call_all([each for _, each in marked(self, "cleanup")], state)

    async def teardown(self) -> None:
        """Runs every method marked with `@teardown`: once, when the environment is closed."""
        await call_all([each for _, each in marked(self, "teardown")])

    @property
    def rewards_anything(self) -> bool:
        """Whether a function counts, or an author scores by other means."""
        own = self._scores_rollouts or type(self).score_group is not Rubric.score_group
        return own or any(function.weight for function in self.functions)

    @property
    def parts(self) -> list[Rubric]:
        """The rubrics that this one is made of: itself."""
        return [self]

    @property
    def _scores_rollouts(self) -> bool:
        return type(self).score_rollout is not Rubric.score_rollout

    async def _run(
        self, batch: Sequence[RewardFunction], values: Sequence[dict[str, Any]], sheets: Sequence[_Sheet]
    ) -> None:
        """A stretch of blocking functions in one thread, or one async function for all rollouts at once."""
        first = batch[0]
        if not first.is_async:
            await in_thread(_run_blocking, batch, values, sheets)
        elif first.is_group:
            await _await_group(first, values, sheets)
        else:
            await asyncio.gather(*(_await_one(first, *pair) for pair in zip(values, sheets, strict=True)))


def note_scores(states: Sequence[State], verdicts: Sequence[Verdict]) -> None:
    """Writes the verdicts into the states, where authors read them."""
    for state, verdict in zip(states, verdicts, strict=True):
        state["reward"] = verdict.reward
        state["metrics"] = {reward.name: reward.value for reward in verdict.rewards} | verdict.metrics
    scored = [verdict.reward for verdict in verdicts if verdict.reward is not None]
    if len(states) > 1 and scored:
        mean = math.fsum(scored) / len(scored)
        for state, verdict in zip(states, verdicts, strict=True):
            if verdict.reward is not None:
                _note_advantage(state, verdict.reward, mean)


def _note_advantage(state: State, reward: float, mean: float) -> None:
    state["advantage"] = reward - mean
    for step in state["trajectory"]:
        for name, value in (("reward", reward), ("advantage", reward - mean)):
            if step.get(name) is None:
                step[name] = value


def _verdict_of(state: State, returned: Any) -> Verdict:
    """What an author's own scoring says: the verdict that it returned, or what it wrote into the state."""
    if isinstance(returned, Verdict) and returned.reward == state["reward"]:
        return returned
    metrics = {str(name): finite_number(value, f"metric {name} is") for name, value in (state["metrics"] or {}).items()}
    return Verdict(reward=finite_number(state["reward"], "the rubric set the reward to"), metrics=metrics)


def _batches(functions: Sequence[RewardFunction]) -> Iterable[list[RewardFunction]]:
    """Stretches of consecutive blocking functions; each async function by itself."""
    stretch: list[RewardFunction] = []
    for function in functions:
        if function.is_async:
            if stretch:
                yield stretch
            stretch = []
            yield [function]
        else:
            stretch.append(function)
    if stretch:
        yield stretch


def _run_blocking(batch: Sequence[RewardFunction], values: Sequence[dict[str, Any]], sheets: Sequence[_Sheet]) -> None:
    for function in batch:
        if function.is_group:
            try:
                with authors_code:
                    _enter_group(function, function.function(**_plural(function, values)), sheets)
            except Exception as error:  # boundary: the author's group reward
                _fail_all(function, error, sheets)
            continue
        for value, sheet in zip(values, sheets, strict=True):
            try:
                with authors_code:
                    sheet.enter(function, function.function(**_singular(function, value)))
            except Exception as error:  # boundary: the author's reward
                sheet.fail(function, _failure(function, error))


async def _await_one(function: RewardFunction, value: dict[str, Any], sheet: _Sheet) -> None:
    try:
        with authors_code:
            sheet.enter(function, await function.function(**_singular(function, value)))
    except Exception as error:  # boundary: the author's reward
        sheet.fail(function, _failure(function, error))


async def _await_group(function: RewardFunction, values: Sequence[dict[str, Any]], sheets: Sequence[_Sheet]) -> None:
    try:
        with authors_code:
            _enter_group(function, await function.function(**_plural(function, values)), sheets)
    except Exception as error:  # boundary: the author's group reward
        _fail_all(function, error, sheets)


def _enter_group(function: RewardFunction, returned: Any, sheets: Sequence[_Sheet]) -> None:
    scores = list(returned)
    if len(scores) != len(sheets):
        raise Invalid(f"{function.name} returned {len(scores)} scores for {len(sheets)} rollouts")
    for score, sheet in zip(scores, sheets, strict=True):
        try:
            sheet.enter(function, score)
        except Exception as error:  # boundary: one score of the author's group reward
            sheet.fail(function, _failure(function, error))


def _fail_all(function: RewardFunction, error: Exception, sheets: Sequence[_Sheet]) -> None:
    for sheet in sheets:
        sheet.fail(function, _failure(function, error))


def _failure(function: RewardFunction, error: Exception) -> Failure:
    failure = failure_of(error, "scoring")
    return msgspec.structs.replace(failure, boundary="scoring", message=f"{function.name}: {failure.message}")


def _values(state: State, objects: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that a reward function may ask for of one rollout, but for the draft, which is made on demand."""
    task = state.get("task")
    columns = task if isinstance(task, dict) else {}
    values = {**columns, **objects, **{name: state.get(name) for name in _FROM_STATE}}
    values["answer"] = state.get("answer", "")
    values["state"] = state
    return values


def _singular(function: RewardFunction, values: dict[str, Any]) -> dict[str, Any]:
    if "rollout" in function.signature.names:
        values = {**values, "rollout": values["state"].draft()}
    return function.signature.pick(values)


def _plural(function: RewardFunction, values: Sequence[dict[str, Any]]) -> dict[str, Any]:
    available: dict[str, Any] = dict(values[0]) if values else {}
    for plural, singular in PLURAL.items():
        if singular == "rollout":
            if plural in function.signature.names:
                available[plural] = [value["state"].draft() for value in values]
        else:
            available[plural] = [value[singular] for value in values]
    return function.signature.pick(available)
