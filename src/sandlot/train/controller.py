"""The loop: tasks → groups → samples → batch → update → new weights for the sampler, and what is written on the way.

Synchronous and asynchronous training are one path: `limits.max_staleness` says how many steps' worth of groups may be
played ahead. Invariants: step n is learned by the policy of version n - 1 and makes version n; the version moves only
after the sampler confirmed the new weights; whatever fails here ends the run; after any step the run can be taken up
with the same tasks in the same order.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sandlot.engine import Playable
from sandlot.errors import Failed
from sandlot.inference import Sampler
from sandlot.models import Model
from sandlot.records import AttemptEvent, MetricsEvent, Rollout, RolloutEvent
from sandlot.store import RunFolder
from sandlot.train.batch import Batch, BatchLimits, build_batch
from sandlot.train.checkpoints import Checkpoint, save_checkpoint
from sandlot.train.config import TrainConfig
from sandlot.train.evaluation import Evaluator
from sandlot.train.gather import Gathered, gather, nothing_to_learn, solved
from sandlot.train.groups import GroupStream
from sandlot.train.learner import Learner
from sandlot.train.metrics import eval_figures, step_figures
from sandlot.train.progress import Progress
from sandlot.train.tasks import Draw, TaskOrder

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Roles:
    """Who does the work."""

    learner: Learner
    sampler: Sampler
    policy: Model
    """The sampler as a model that environments can talk to."""
    shared: bool = True
    """Whether the sampler serves the very module that the learner moves."""


class Controller:
    """One training run over `playables`, by their ids in the config, written to `folder`."""

    def __init__(
        self,
        config: TrainConfig,
        roles: Roles,
        *,
        playables: Mapping[str, Playable],
        folder: RunFolder,
        progress: Progress,
    ) -> None:
        self.config = config
        self.roles = roles
        self.folder = folder
        self.progress = progress
        weights = {env.id: env.weight for env in config.env}
        self.order = TaskOrder(playables, weights=weights, seed=config.seed)
        self.stream = GroupStream(
            config, self.order, playables=playables, model=roles.policy, on_attempt=self._attempted
        )
        self.evaluator = Evaluator(config, playables)
        self.limits = BatchLimits(
            sample_tokens=config.limits.sample_tokens,
            completion_tokens=config.sampling.max_tokens,
            staleness=config.limits.max_staleness,
        )
        self.step = 0
        """The last step that was learned."""
        self.saved = 0
        """The step of the last checkpoint."""
        self.early: str | None = None
        """Why the run ended before its last step."""
        self._resumable = self._state()
        self.tell_every = 15.0
        """Seconds after which a long evaluation says how far it is."""
        self._seconds: dict[str, float] = {}
        """How long the last step and the last evaluation took: the expectation of the next."""

    def take_up(self, checkpoint: Checkpoint) -> None:
        """Goes on where `checkpoint` was written."""
        state = checkpoint.controller()
        checkpoint.restore(self.roles.learner)
        self.order.load_state(state["order"])
        self.stream.again([Draw(**draw) for draw in state["outstanding"]])
        self.step = self.saved = checkpoint.step
        self._resumable = self._state()

    async def run(self) -> None:
        """Trains to the last step. `Failed` says why it could not; cancelling stops between two changes of state."""
        try:
            await self._push(self.step)
            if not self._evaluated():
                await self._evaluate(last=self.step == self.config.steps)
            while self.step < self.config.steps:
                if not await self._one_step():
                    break
                last = self.step == self.config.steps
                await self._evaluate(last=last)
                interval = self.config.checkpoint.interval
                if interval and self.step % interval == 0 and not last:
                    await _to_its_end(self.save)
            if not self._evaluated():
                await self._evaluate(last=True)
        finally:
            await self.stream.close()

    def save(self) -> Path:
        """Writes a checkpoint of the last step that was learned."""
        checkpoint = save_checkpoint(
            self.folder.path,
            self.roles.learner,
            controller=self._resumable,
            keep_last=self.config.checkpoint.keep_last,
        )
        self.saved = checkpoint.step
        return checkpoint.path

    async def _one_step(self) -> bool:
        """Whether there was something to learn. Nothing is an error unless it is because all is learned."""
        number, started = self.step + 1, time.perf_counter()
        self._announce(f"step {number} of {self.config.steps}", "step")
        gathered = await gather(self.stream, self.config, step=number, keep=self._keep)
        if not gathered.groups:
            self._end_early(gathered)
            return False
        played = time.perf_counter()
        batch = self._batch(gathered)
        figures: dict[str, float] = {}
        learned = played

        def learn() -> None:
            nonlocal learned
            figures.update(self.roles.learner.update(batch.samples))
            learned = time.perf_counter()

        def record() -> None:
            ended = time.perf_counter()
            self._seconds["step"] = ended - started
            times = {"sample": played - started, "apply": ended - learned, "step": ended - started}
            self._record(
                {
                    **step_figures(gathered, batch),
                    **figures,
                    "tokens_per_second": batch.counts["sampled"] / max(1e-9, ended - started),
                    **{f"time/{name}": seconds for name, seconds in times.items()},
                }
            )

        try:
            try:
                await _to_its_end(learn)
            finally:
                if self.roles.learner.updates == number:  # Also when the run was cancelled while the update was made.
                    self.step = number
                    self._resumable = self._state()
            await self._push(number)
        except asyncio.CancelledError:
            if self.step == number:  # The checkpoint that is written now has this step, so the record has it too.
                record()
            raise
        record()
        return True

    def _end_early(self, gathered: Gathered) -> None:
        best = max((row.reward for row in self.folder.index() if row.reward is not None), default=0.0)
        if self.step == 0 or not solved(gathered, best):
            raise nothing_to_learn(gathered)
        self.early = (
            f"ended after step {self.step} of {self.config.steps}: all {len(gathered.rollouts)} rollouts of the next "
            f"step reached the highest reward, {best:g}, so nothing is left to learn on these tasks"
        )

    def _batch(self, gathered: Gathered) -> Batch:
        cut = {rollout.id for rollout in gathered.rollouts if rollout.truncated}
        batch = build_batch(
            [group.rollouts for group in gathered.groups],
            algorithm=self.config.algorithm,
            limits=self.limits,
            version=gathered.step - 1,
            withheld=set() if self.config.train_on_truncated else cut,
        )
        if not batch.samples:
            reasons = {name: n for name, n in batch.counts.items() if n and name not in ("sampled", "samples")}
            raise Failed(
                f"step {gathered.step} has groups with signal but no token to train on: {reasons}",
                hint="raise limits.sample_tokens if samples are overlong; set train_on_truncated if they are withheld",
            )
        return batch

    async def _push(self, version: int) -> None:
        """Gives the sampler the learner's weights, and believes it only when it says the new version."""
        sampler, limit = self.roles.sampler, self.config.limits.apply_timeout
        weights: Mapping[str, Any] | None = None if self.roles.shared else self.roles.learner.model.state_dict()
        try:
            async with asyncio.timeout(limit):
                await sampler.apply(version, weights)
        except TimeoutError as error:
            raise Failed(
                f"the sampler did not confirm the weights of version {version} within {limit:g} s",
                hint="raise limits.apply_timeout if the weights are large",
            ) from error
        except Exception as error:  # boundary: the sampler. A policy that was not updated must not be trained on.
            raise Failed(
                f"the weights of version {version} could not be given to the sampler: {type(error).__name__}: {error}"
            ) from error
        if sampler.version != version:
            raise Failed(f"the sampler confirmed version {sampler.version} instead of {version}")

    async def _evaluate(self, *, last: bool) -> None:
        if not self.evaluator.due(self.step, last=last):
            return
        self._announce(f"evaluation after step {self.step}", "eval")
        started = told = time.perf_counter()
        played, total = 0, self.evaluator.total

        def keep(rollout: Rollout) -> None:
            nonlocal played, told
            self._keep(rollout)
            played += 1
            now = time.perf_counter()
            if now - told >= self.tell_every and played < total:
                told = now
                name = f"evaluation after step {self.step}, {played} of {total} rollouts"
                self.progress.phase(name, (now - started) / played * (total - played))

        rollouts = await self.evaluator.play(self.step, model=self.roles.policy, keep=keep, on_attempt=self._attempted)
        self._seconds["eval"] = time.perf_counter() - started
        self._record({**eval_figures(rollouts), "time/eval": self._seconds["eval"]})

    def _evaluated(self) -> bool:
        """Whether an earlier life evaluated the policy as it stands."""
        found = [event for event in self.folder.metrics() if event.step == self.step]
        return any(name.startswith("eval/") for event in found for name in event.values)

    def _state(self) -> dict[str, Any]:
        outstanding = [
            {"number": draw.number, "environment": draw.environment, "position": draw.position}
            for draw in self.stream.outstanding
        ]
        return {"step": self.step, "order": self.order.state(), "outstanding": outstanding}

    def _announce(self, phase: str, kind: str) -> None:
        self.progress.phase(phase, self._seconds.get(kind))

    def _record(self, figures: Mapping[str, float]) -> None:
        self.folder.append(MetricsEvent(step=self.step, values=dict(figures), at=time.time()))
        self.progress.step({"step": float(self.step), **figures})

    def _keep(self, rollout: Rollout) -> None:
        self.folder.append(RolloutEvent(rollout=_storable(rollout)))

    def _attempted(self, event: AttemptEvent) -> None:
        self.folder.append(event)


async def _to_its_end(work: Callable[[], T]) -> T:
    """`work` in a thread. A caller that is cancelled still waits for it, so nothing is left half made."""
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise


def _storable(rollout: Rollout) -> Rollout:
    """The rollout with None for each log-probability that is no number, for a record holds numbers only."""
    finite = all(
        value is None or math.isfinite(value) for turn in rollout.turns if turn.tokens for value in turn.tokens.logprobs
    )
    if finite:
        return rollout
    replace = msgspec.structs.replace
    turns = []
    for turn in rollout.turns:
        if turn.tokens is not None:
            numbers = [value if value is not None and math.isfinite(value) else None for value in turn.tokens.logprobs]
            turn = replace(turn, tokens=replace(turn.tokens, logprobs=numbers))
        turns.append(turn)
    return replace(rollout, turns=turns)
