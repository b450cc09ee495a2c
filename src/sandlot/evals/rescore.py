"""Today's rubric over the rollouts of a run that was played before.

Invariants: no rollout is played or rewritten: a changed verdict is one more event, and the last one wins; nothing is
written before every rollout was judged, and nothing at all where a function needs what was not saved, unless the rest
was asked for; rollouts that are judged together are judged together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime

import msgspec

from sandlot.engine import Judged, Playable, PlayPolicy, judge_again
from sandlot.evals.summary import Summary, summarise
from sandlot.records import EnvironmentRef, Rollout, Run, RunEvent, Verdict, VerdictEvent
from sandlot.store import IndexRow, RunFolder


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout whose verdict is another one now."""

    rollout: str
    environment: str
    task_id: str
    index: int
    before: float | None
    after: float | None
    verdict: Verdict


class Lacking(msgspec.Struct, frozen=True, kw_only=True):
    """A function that needs keys of the state that were not saved."""

    function: str
    keys: list[str]
    rollouts: int


class Rescored(msgspec.Struct, frozen=True, kw_only=True):
    """What scoring again came to."""

    judged: int
    changes: list[Change]
    lacking: list[Lacking]
    unjudged: int
    """Rollouts that lack something and keep the verdict that they have."""
    before: Summary
    after: Summary


async def rescore(
    folder: RunFolder,
    playable: Playable,
    *,
    policy: PlayPolicy,
    forget: Collection[str] = (),
    on_judged: Callable[[int, int], None] | None = None,
) -> Rescored:
    """Judges every rollout of `folder` again. Nothing is written: that is `write_rescored`.

    `forget` names keys of the saved state that are left out, such as a judge's replies, which it would take up again.
    `on_judged` is told how many are done, and of how many.
    """
    groups = iter(_groups(folder.index(), together=playable.grouped))
    total, found = len(folder.index()), _Found()

    async def work() -> None:
        for rows in groups:
            rollouts = [folder.rollout_at(row) for row in rows]
            again = await judge_again(playable, [_without(each, forget) for each in rollouts], policy=policy)
            for rollout, judged in zip(rollouts, again, strict=True):
                found.enter(rollout, judged)
            if on_judged is not None:
                on_judged(found.judged, total)

    async with asyncio.TaskGroup() as workers:
        for _ in range(min(policy.max_concurrent, total)):
            workers.create_task(work())
    changed = {change.rollout: change.verdict for change in found.changes}
    threshold = _threshold(folder.run, playable)
    expected = folder.run.expected

    def after() -> Iterator[Rollout]:
        for rollout in folder.rollouts():
            verdict = changed.get(rollout.id)
            yield rollout if verdict is None else msgspec.structs.replace(rollout, verdict=verdict)

    return Rescored(
        judged=found.judged,
        changes=sorted(found.changes, key=lambda change: (change.environment, change.task_id, change.index)),
        lacking=found.lacking(),
        unjudged=found.unjudged,
        before=summarise(folder.rollouts(), expected=expected, threshold=threshold),
        after=summarise(after(), expected=expected, threshold=threshold),
    )


def write_rescored(folder: RunFolder, rescored: Rescored, *, ref: EnvironmentRef) -> Run:
    """Writes the changed verdicts and the run's new figures, with the environment `ref` whose rubric gave them."""
    for change in rescored.changes:
        folder.append(VerdictEvent(rollout=change.rollout, verdict=change.verdict))
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    figures = {
        **msgspec.to_builtins(rescored.after),
        "rescored": {
            "at": now,
            "changed": len(rescored.changes),
            "kept": rescored.unjudged,
            "environment": msgspec.to_builtins(ref),
        },
    }
    run = msgspec.structs.replace(folder.run, summary=figures)
    folder.append(RunEvent(run=run))
    return run


class _Found:
    """What was judged so far."""

    def __init__(self) -> None:
        self.judged = 0
        self.unjudged = 0
        self.changes: list[Change] = []
        self._lacking: dict[str, tuple[set[str], int]] = {}

    def enter(self, rollout: Rollout, judged: Judged) -> None:
        self.judged += 1
        if judged.lacking:
            self.unjudged += 1
            for name in _functions(rollout.verdict, judged.verdict):
                keys, count = self._lacking.get(name, (set(), 0))
                self._lacking[name] = (keys | set(judged.lacking), count + 1)
        elif judged.verdict is not None and not _same(rollout.verdict, judged.verdict):
            self.changes.append(
                Change(
                    rollout=rollout.id,
                    environment=rollout.task.environment or rollout.environment,
                    task_id=rollout.task.id,
                    index=rollout.index,
                    before=rollout.reward,
                    after=judged.verdict.reward,
                    verdict=judged.verdict,
                )
            )

    def lacking(self) -> list[Lacking]:
        return [
            Lacking(function=name, keys=sorted(keys), rollouts=count)
            for name, (keys, count) in sorted(self._lacking.items())
        ]


def _without(rollout: Rollout, forget: Collection[str]) -> Rollout:
    if not forget:
        return rollout
    kept = {name: value for name, value in rollout.state.items() if name not in forget}
    return msgspec.structs.replace(rollout, state=kept)


def _functions(before: Verdict | None, after: Verdict | None) -> list[str]:
    """The functions that gave no score for want of something: the one that failed first, and those that gave one once
    and no longer do."""
    failure = after.failure if after is not None else None
    names = [] if failure is None else [failure.message.partition(": ")[0]]
    lost = [name for name in _names(before) if name not in _names(after)]
    return list(dict.fromkeys([*names, *lost])) or ["a function of the rubric"]


def _names(verdict: Verdict | None) -> list[str]:
    return [] if verdict is None else [*(reward.name for reward in verdict.rewards), *verdict.metrics]


def _same(before: Verdict | None, after: Verdict) -> bool:
    """Whether two verdicts say the same; how long it took and where in the code it failed is not what they say."""
    return before is not None and _said(before) == _said(after)


def _said(verdict: Verdict) -> Verdict:
    failure = verdict.failure and msgspec.structs.replace(verdict.failure, traceback="")
    return msgspec.structs.replace(verdict, seconds=0.0, failure=failure)


def _groups(rows: list[IndexRow], *, together: bool) -> list[list[IndexRow]]:
    if not together:
        return [[row] for row in rows]
    groups: dict[tuple[str, str, str, int | None], list[IndexRow]] = {}
    for row in sorted(rows, key=lambda row: row.index):
        groups.setdefault((row.environment, row.task_id, row.split, row.step), []).append(row)
    return list(groups.values())


def _threshold(run: Run, playable: Playable) -> float:
    given = run.config.get("pass_threshold")
    return float(given) if isinstance(given, int | float) else playable.pass_threshold
