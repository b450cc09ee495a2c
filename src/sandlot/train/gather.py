"""Gathers the groups that one step learns from, and says why when there are none.

Invariants: a group without signal, without a verdict or without a token that is fresh enough is replaced, a bounded
number of times; nothing that was played is lost from the count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from sandlot.errors import Failed
from sandlot.records import Rollout
from sandlot.train.batch import informative
from sandlot.train.config import TrainConfig
from sandlot.train.groups import GroupStream, PlayedGroup, stamped

_FATES = ("learned", "zero_signal", "unscored", "stale", "overlong")


@dataclass(eq=False)
class Gathered:
    """What was played for one step."""

    step: int
    groups: list[PlayedGroup] = field(default_factory=list)
    """Those to learn from, in the order in which their tasks were drawn."""
    members: dict[str, list[Rollout]] = field(default_factory=dict)
    """By environment, all rollouts, also those of groups that were replaced."""
    fates: dict[str, Counter[str]] = field(default_factory=dict)
    """By environment, how many groups were learned, zero_signal, unscored (fewer than two verdicts), stale or overlong
    (not even the prompt fitted)."""

    @property
    def rollouts(self) -> list[Rollout]:
        """Those of all environments."""
        return [rollout for members in self.members.values() for rollout in members]

    def count(self, fate: str) -> int:
        """How many groups came to `fate`."""
        return sum(counter[fate] for counter in self.fates.values())

    @property
    def played(self) -> int:
        """How many groups there were."""
        return sum(sum(counter.values()) for counter in self.fates.values())


async def gather(stream: GroupStream, config: TrainConfig, *, step: int, keep: Callable[[Rollout], None]) -> Gathered:
    """`tasks_per_step` groups to learn from, or as many as `limits.oversample` gives, which may be none.

    `keep` is handed every rollout.
    """
    gathered = Gathered(step)
    ahead = config.limits.max_staleness * config.tasks_per_step
    most = max(config.tasks_per_step, round(config.limits.oversample * config.tasks_per_step))
    while len(gathered.groups) < config.tasks_per_step and gathered.played < most:
        wanted = min(config.tasks_per_step - len(gathered.groups), most - gathered.played)
        stream.fill(wanted + ahead)
        group = stamped(await stream.next(), step)
        fate = _fate(group, config, oldest=step - 1 - config.limits.max_staleness)
        gathered.fates.setdefault(group.draw.environment, Counter())[fate] += 1
        gathered.members.setdefault(group.draw.environment, []).extend(group.rollouts)
        for rollout in group.rollouts:
            keep(rollout)
        if fate == "learned":
            gathered.groups.append(group)
    gathered.groups.sort(key=lambda group: group.draw.number)
    return gathered


def nothing_to_learn(gathered: Gathered) -> Failed:
    """The error of a step that has no group to learn from: a table of what became of its groups, and what to do."""
    return Failed(_table(gathered), hint=_advice(gathered))


def solved(gathered: Gathered, best: float) -> bool:
    """Whether there is nothing to learn because every rollout reached `best`, the highest reward of the run."""
    rewards = [rollout.reward for rollout in gathered.rollouts]
    return not gathered.groups and all(reward is not None and reward >= best - 1e-9 for reward in rewards)


def _fate(group: PlayedGroup, config: TrainConfig, *, oldest: int) -> str:
    needed = 1 if config.algorithm.advantage == "reward" else min(2, len(group.rollouts))
    if sum(rollout.reward is not None for rollout in group.rollouts) < needed:
        return "unscored"
    if not any(rollout.turns for rollout in group.rollouts):
        return "overlong"
    if not informative(group.rollouts, config.algorithm):
        return "zero_signal"
    versions = [v for r in group.rollouts for turn in r.turns if turn.tokens for v in turn.tokens.versions]
    return "stale" if versions and max(versions) < oldest else "learned"


def _table(gathered: Gathered) -> str:
    lines = [f"step {gathered.step} found nothing to learn from in {gathered.played} groups:"]
    width = max(len("environment"), *(len(name) for name in gathered.fates))
    lines.append(f"{'environment':<{width}}  groups  zero signal  no verdict  too stale  too long  mean reward")
    for name, counter in gathered.fates.items():
        played = gathered.members[name]
        rewards = [r.reward for r in played if r.reward is not None]
        mean = f"{sum(rewards) / len(rewards):.3f}" if rewards else "none"
        lines.append(
            f"{name:<{width}}  {sum(counter.values()):>6}  {counter['zero_signal']:>11}  {counter['unscored']:>10}  "
            f"{counter['stale']:>9}  {counter['overlong']:>8}  {mean:>11}"
        )
    failure = _first_failure(gathered)
    return "\n".join(lines) + (f"\nthe first failure: {failure}" if failure else "")


def _first_failure(gathered: Gathered) -> str | None:
    for rollout in gathered.rollouts:
        failure = rollout.failure or (rollout.verdict.failure if rollout.verdict else None)
        if failure is not None:
            return f"{failure.boundary}: {failure.type}: {failure.message}"
    return None


def _advice(gathered: Gathered) -> str:
    worst = max(_FATES[1:], key=gathered.count)
    return {
        "zero_signal": "all rollouts of a task got the same reward: choose tasks that are neither too hard nor too "
        "easy for this model, a graded reward, or a larger group_size",
        "unscored": "mend the environment: its rollouts break or are not scored",
        "overlong": "the prompts leave no room for an answer: raise limits.sample_tokens, as far as the model goes",
        "stale": "raise limits.max_staleness, or make rollouts shorter",
    }[worst]
