"""Plays groups ahead of the learner, at most so many rollouts at once.

Invariants: groups start in the order in which their tasks were drawn; each draw that was started is handed out exactly
once, or stands in `outstanding`; no wait is without a limit, and the one that runs out names what it waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from sandlot.engine import OnAttempt, Playable, PlayPolicy, Request, play_group, seed_of
from sandlot.errors import Failed
from sandlot.models import Model
from sandlot.records import Rollout, Sampling
from sandlot.train.config import TrainConfig
from sandlot.train.tasks import Draw, TaskOrder


@dataclass(frozen=True, slots=True)
class PlayedGroup:
    """The rollouts of one drawn task."""

    draw: Draw
    rollouts: tuple[Rollout, ...]


class GroupStream:
    """Groups as they finish. `model` is the policy that plays them."""

    def __init__(
        self,
        config: TrainConfig,
        order: TaskOrder,
        *,
        playables: Mapping[str, Playable],
        model: Model,
        on_attempt: OnAttempt | None = None,
    ) -> None:
        self.config = config
        self.order = order
        self.playables = playables
        self.model = model
        self.on_attempt = on_attempt
        self._again: list[Draw] = []
        self._flying: dict[asyncio.Task[PlayedGroup], Draw] = {}
        self._finished: list[PlayedGroup] = []

    @property
    def outstanding(self) -> list[Draw]:
        """Draws that were started, or are to be started again, and not handed out yet; in order."""
        waiting = [*self._again, *self._flying.values(), *(group.draw for group in self._finished)]
        return sorted(waiting, key=lambda draw: draw.number)

    def again(self, draws: Sequence[Draw]) -> None:
        """Puts draws before all others: those that a resumed run had started and not used."""
        self._again = sorted([*self._again, *draws], key=lambda draw: draw.number)

    def fill(self, count: int) -> None:
        """Starts groups until `count` are outstanding, as far as rollouts are admitted."""
        room = max(1, self.config.limits.max_concurrent // self.config.group_size)
        while len(self._flying) < room and (self._again or len(self.outstanding) < count):
            draw = self._again.pop(0) if self._again else self.order.draw()
            self._flying[asyncio.create_task(self._play(draw), name=f"group {draw.number}")] = draw

    async def next(self) -> PlayedGroup:
        """The next finished group, the earliest drawn first. `Failed` if none finishes within the limit."""
        if not self._finished:
            limit = self.config.limits.group_timeout
            done, _ = await asyncio.wait(self._flying, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                tasks = [f"{self.order.task(draw)[0].id} of {draw.environment}" for draw in self.outstanding[:3]]
                raise Failed(
                    f"no group finished within {limit:g} s; {len(self._flying)} are being played, among them "
                    + ", ".join(tasks),
                    hint="raise limits.group_timeout, or give the environment a shorter timeout",
                )
            self._finished += [task.result() for task in done]
            for task in done:
                del self._flying[task]
            self._finished.sort(key=lambda group: group.draw.number)
        return self._finished.pop(0)

    async def close(self) -> None:
        """Cancels what is being played and waits until it has cleaned up."""
        flying = list(self._flying)
        for task in flying:
            task.cancel()
        await asyncio.gather(*flying, return_exceptions=True)

    async def _play(self, draw: Draw) -> PlayedGroup:
        config = self.config
        task, epoch = self.order.task(draw)
        # A task that comes again has other indices, so that every rollout of a run has a key and a seed of its own.
        indices = range(epoch * config.group_size, (epoch + 1) * config.group_size)
        rollouts = await play_group(
            self.playables[draw.environment],
            [Request(task=task, index=i, seed=seed_of(config.seed, task.id, i)) for i in indices],
            model=self.model,
            sampling=training_sampling(config),
            policy=PlayPolicy(
                max_concurrent=config.group_size, retries=config.limits.rollout_retries, split="train", step=None
            ),
            on_attempt=self.on_attempt,
        )
        return PlayedGroup(draw, tuple(rollouts))


def training_sampling(config: TrainConfig) -> Sampling:
    """How training rollouts are drawn, as a record."""
    return Sampling(**config.sampling.model_dump(), logprobs=True)


def stamped(group: PlayedGroup, step: int) -> PlayedGroup:
    """The group as one that optimiser step `step` consumed."""
    rollouts = [msgspec.structs.replace(rollout, step=step, split="train") for rollout in group.rollouts]
    return PlayedGroup(group.draw, tuple(rollouts))
