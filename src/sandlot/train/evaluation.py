"""Held-out evaluations during training.

Invariants: an evaluation sees one version of the weights, because none is applied while it runs; every evaluation plays
the same tasks with the same seeds, so that two of them differ by the policy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

import msgspec

from sandlot.engine import OnAttempt, Playable, PlayPolicy, Request, play_all, seed_of
from sandlot.errors import Invalid
from sandlot.models import Model
from sandlot.records import Rollout, Sampling, Task
from sandlot.train.config import TrainConfig


class Evaluator:
    """Plays the held-out tasks of every environment. `Invalid` if one has none."""

    def __init__(self, config: TrainConfig, playables: Mapping[str, Playable]) -> None:
        self.config = config.eval
        self.seed = config.seed
        self.policy = PlayPolicy(
            max_concurrent=config.limits.max_concurrent, retries=config.limits.rollout_retries, split="eval"
        )
        self.sampling = Sampling(
            temperature=config.eval.temperature,
            max_tokens=config.eval.max_tokens or config.sampling.max_tokens,
            logprobs=True,
        )
        self.playables = dict(playables)
        self.tasks: dict[str, list[Task]] = {}
        for name, playable in self.playables.items() if self.config.num_tasks else ():
            self.tasks[name] = list(islice(playable.tasks("eval"), self.config.num_tasks))
            if not self.tasks[name]:
                raise Invalid(
                    f"{name} has no held-out tasks", hint="set eval.num_tasks = 0 to train without evaluation"
                )

    @property
    def total(self) -> int:
        """How many rollouts an evaluation has."""
        return self.config.rollouts_per_task * sum(map(len, self.tasks.values()))

    def due(self, step: int, *, last: bool) -> bool:
        """Whether the policy is evaluated after `step`."""
        if not self.tasks:
            return False
        if step == 0:
            return self.config.at_start
        return (last and self.config.at_end) or (self.config.interval > 0 and step % self.config.interval == 0)

    async def play(
        self, step: int, *, model: Model, keep: Callable[[Rollout], None], on_attempt: OnAttempt | None = None
    ) -> list[Rollout]:
        """The rollouts of one evaluation; `keep` is handed each as it is scored."""
        rollouts: list[Rollout] = []

        def take(rollout: Rollout) -> None:
            rollouts.append(rollout)
            keep(rollout)

        for name, tasks in self.tasks.items():
            await play_all(
                self.playables[name],
                [self._requests(task) for task in tasks],
                model=model,
                sampling=self.sampling,
                policy=msgspec.structs.replace(self.policy, step=step),
                on_rollout=take,
                on_attempt=on_attempt,
            )
        return rollouts

    def _requests(self, task: Task) -> list[Request]:
        indices = range(self.config.rollouts_per_task)
        return [Request(task=task, index=i, seed=seed_of(self.seed, task.id, i)) for i in indices]
