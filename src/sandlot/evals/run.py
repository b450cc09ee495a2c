"""Plays a plan: exactly what is missing of it, each rollout saved as soon as it is scored.

Invariants: everything that is asked for is accounted for exactly once, however often the run was killed, cancelled and
resumed; what was saved is never written again; a run that ends, ends with a run event that says how.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from sandlot.engine import OnAttempt, OnRollout, Request, play_all
from sandlot.errors import SandlotError
from sandlot.evals.crew import Crew, play_in_workers
from sandlot.evals.dead_endpoint import DeadEndpoint
from sandlot.evals.limits import Gate
from sandlot.evals.plan import EvalPlan, resumed
from sandlot.evals.summary import Summary, summarise
from sandlot.records import AttemptEvent, Failure, Rollout, RolloutEvent, Run, RunEvent, RunStatus, Status
from sandlot.store import Key, RunFolder

_ALL: tuple[Status, ...] = ("scored", "truncated", "unscored", "errored", "cancelled")
_JUDGED: tuple[Status, ...] = ("scored", "truncated")


class Progress(Protocol):
    """Who watches a run. What these raise ends it."""

    def started(self, total: int, done_already: int) -> None:
        """`total` rollouts are asked for, of which `done_already` need no play."""

    def rollout(self, rollout: Rollout) -> None:
        """One more is scored and saved."""

    def finished(self, summary: Summary) -> None:
        """All are."""


async def run_eval(
    plan: EvalPlan, *, folder: RunFolder | None = None, progress: Progress | None = None, crew: Crew | None = None
) -> Run:
    """Plays what is missing of `plan` in `folder`, open for writing, and gives the run as it ended.

    A folder that `folder_of_eval` just made begins the run; one that `RunFolder.resume` opened goes on with it, and is
    a `Conflict` if it was started with other settings. Without a folder nothing is saved, and `progress` is the only
    one who sees the rollouts. Cancelling saves what is finished, marks the run as interrupted and propagates. A run
    that reaches one of its limits ends as interrupted, too, and its message says which. One whose endpoint can never
    answer (a wrong key, an unknown model, an address where nothing is) ends after a few tries as failed, with `Failed`
    or `Unreachable`. With a `crew` rollouts are played in its processes instead of this one.
    """
    ledger = _Ledger(plan, folder)
    done = ledger.begin()
    gate = Gate(plan.config.limits, plan.config.rollout_limits)
    gate.before(folder.index() if folder is not None else ())
    if progress is not None:
        progress.started(plan.run.expected or 0, len(done))
    missing = plan.missing(done)
    endpoint = DeadEndpoint(sum(map(len, missing)))

    def keep(rollout: Rollout) -> None:
        endpoint.goes_on(rollout.failure)
        kept = ledger.keep(rollout)
        if progress is not None:
            progress.rollout(kept)
        gate.spent(kept)
        endpoint.ended(kept)

    def tried(event: AttemptEvent) -> None:
        endpoint.goes_on(event.failure)
        ledger.attempted(event)
        endpoint.failed(event.failure)

    try:
        async with gate.in_time():
            groups = gate.admit(missing, together=plan.playable.grouped)
            await _play(plan, groups, crew=crew, callbacks=(keep, tried))
    except BaseException as error:  # boundary: the run. Everything that ends it is put on record and goes on its way.
        stopped = isinstance(error, asyncio.CancelledError | KeyboardInterrupt)
        # A disk that is full refuses this too; the error that is on its way already says so.
        with contextlib.suppress(SandlotError):
            ledger.end("interrupted" if stopped else "failed", None if stopped else f"{type(error).__name__}: {error}")
        raise
    run, summary = ledger.end(*_ending(gate))
    if progress is not None:
        progress.finished(summary)
    return run


async def _play(
    plan: EvalPlan,
    groups: Iterable[Sequence[Request]],
    *,
    crew: Crew | None,
    callbacks: tuple[OnRollout, OnAttempt],
) -> None:
    on_rollout, on_attempt = callbacks
    if crew is not None:
        together = plan.playable.grouped
        await play_in_workers(groups, crew=crew, together=together, on_rollout=on_rollout, on_attempt=on_attempt)
        return
    await play_all(
        plan.playable,
        groups,
        model=plan.model,
        sampling=plan.config.sampling.record(),
        policy=plan.config.policy(),
        on_rollout=on_rollout,
        on_attempt=on_attempt,
    )


def _ending(gate: Gate) -> tuple[RunStatus, str | None]:
    return ("done", None) if gate.reached is None else ("interrupted", f"stopped at {gate.reached}")


class _Ledger:
    """Where a run's events go, and what is known of its earlier lives."""

    def __init__(self, plan: EvalPlan, folder: RunFolder | None) -> None:
        self.plan = plan
        self.folder = folder
        self.run = plan.run
        self.rollouts: list[Rollout] = []
        """What is kept in memory where there is no folder."""
        self.tries: dict[tuple[str, int], int] = {}
        """By task id and index, how many tries were made in earlier lives."""

    def begin(self) -> set[Key]:
        """Puts the beginning on record; the keys that need no play."""
        if self.folder is None:
            return set()
        before = self.folder.run
        if before != self.plan.run:
            self.run = resumed(self.plan, before)
            self.folder.append(RunEvent(run=self.run))
        done = self.folder.done(_JUDGED if self.plan.config.retry_failed else _ALL)
        asked = {
            self.plan.key(task, index)
            for task in self.plan.tasks
            for index in range(self.plan.config.rollouts_per_task)
        }
        self._remember(self.folder, done)
        if self.plan.playable.grouped:
            done -= {
                self.plan.key(request.task, request.index) for group in self.plan.missing(done) for request in group
            }
        return done & asked

    def keep(self, rollout: Rollout) -> Rollout:
        """Saves a rollout; as it was saved."""
        earlier = self.tries.get((rollout.task.id, rollout.index), 0)
        if earlier:
            rollout = msgspec.structs.replace(rollout, attempt=rollout.attempt + earlier)
        if self.folder is None:
            self.rollouts.append(rollout)
        else:
            self.folder.append(RolloutEvent(rollout=rollout))
        return rollout

    def attempted(self, event: AttemptEvent) -> None:
        """Saves a try that did not count."""
        earlier = self.tries.get((event.task, event.index), 0)
        if self.folder is not None:
            self.folder.append(msgspec.structs.replace(event, attempt=event.attempt + earlier))

    def end(self, status: RunStatus, message: str | None = None) -> tuple[Run, Summary]:
        """Puts the end on record, with the figures as they then stand."""
        rollouts: Iterable[Rollout] = self.rollouts if self.folder is None else self.folder.rollouts()
        threshold = self.plan.config.pass_threshold
        summary = summarise(
            rollouts,
            expected=self.run.expected,
            threshold=self.plan.playable.pass_threshold if threshold is None else threshold,
        )
        ended = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        figures = msgspec.to_builtins(summary)
        run = msgspec.structs.replace(self.run, status=status, ended=ended, summary=figures, message=message)
        if self.folder is not None:
            self.folder.append(RunEvent(run=run))
        return run, summary

    def _remember(self, folder: RunFolder, done: set[Key]) -> None:
        """Counts earlier tries, and makes an attempt of every rollout that is about to be played again."""
        told = {(event.task, event.index, event.attempt) for event in folder.attempts()}
        for task, index, attempt in told:
            self.tries[task, index] = max(attempt, self.tries.get((task, index), 0))
        for row in folder.index():
            key = Key(environment=row.environment, task_id=row.task_id, index=row.index, split=row.split, step=row.step)
            if key in done:
                continue
            self.tries[row.task_id, row.index] = max(row.attempt, self.tries.get((row.task_id, row.index), 0))
            if (row.task_id, row.index, row.attempt) not in told:
                failure = _why(folder.rollout_at(row))
                folder.append(AttemptEvent(task=row.task_id, index=row.index, attempt=row.attempt, failure=failure))


def _why(rollout: Rollout) -> Failure:
    """What kept a rollout from a verdict."""
    scoring = None if rollout.verdict is None else rollout.verdict.failure
    return rollout.failure or scoring or Failure(boundary="scoring", type="unscored", message="no verdict was given")
