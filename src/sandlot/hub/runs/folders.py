"""Runs from the run folders on this machine, for `sandlot view`.

Invariants: a folder is read once, then only what it has gained; at most `OPEN` folders are held open; a folder that
cannot be read is left out of the list and named in `problems`, and hides no other.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from pathlib import Path

import msgspec

from sandlot.errors import Failed, Invalid, NotFound
from sandlot.hub.runs.rows import select
from sandlot.hub.runs.source import Page, RolloutRow, RowQuery, RunRow, RunSource, RunSummary
from sandlot.hub.runs.summary import summarise_rows
from sandlot.records import MetricsEvent, Rollout, Run
from sandlot.store import IndexRow, RunEntry, RunFolder, list_runs

OPEN = 16
"""How many folders are held open, with their indexes in memory."""

LISTING_SECONDS = 1.0
"""For how long a listing of the root counts as fresh."""

QUICK_BYTES = 64_000_000
"""How much of runs not yet read one page of the list reads, for their means; about half a second."""


class _Opened:
    """One folder with its rows, kept up to date."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._seen: list[IndexRow] = []
        self._rows: list[RolloutRow] = []
        self._summary: tuple[tuple[int, str], RunSummary] | None = None
        self._changes = 0

    def rows(self) -> list[RolloutRow]:
        seen = self.folder.index()
        if len(seen) < len(self._seen):
            self._seen, self._rows = [], []
        changed = len(seen) != len(self._seen)
        for index, row in enumerate(seen):
            if index >= len(self._rows):
                self._rows.append(_row(row))
            elif self._seen[index] is not row:
                self._rows[index] = _row(row)
                changed = True
        self._seen = seen
        self._changes += changed
        return self._rows

    def summary(self) -> RunSummary:
        rows, run = self.rows(), self.folder.run
        state = (self._changes, run.status)
        if self._summary is None or self._summary[0] != state:
            self._summary = (state, summarise_rows(rows, run))
        return self._summary[1]


class FolderRuns(RunSource):
    """The runs at and under `root`. `NotFound` when asked while there is no such folder. Safe to use from threads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.RLock()
        self._opened: OrderedDict[Path, _Opened] = OrderedDict()
        self._listed: tuple[float, list[RunEntry]] = (-LISTING_SECONDS, [])
        self._means: dict[tuple[Path, int, float], RunRow] = {}

    def runs(
        self, *, kind: str | None = None, package: str | None = None, cursor: str | None = None, limit: int = 50
    ) -> Page[RunRow]:
        """Newest first."""
        if cursor and not cursor.isdecimal():
            raise Invalid("the cursor is not one that a list of runs gave", hint="leave it out to start at the newest")
        start = int(cursor or 0)
        name = (package or "").rpartition("/")[2]
        with self._lock:
            found = [
                (entry, run)
                for entry in self._entries()
                if (run := entry.run) is not None
                and (kind is None or run.kind == kind)
                and (not name or any(name in (e.name, e.id) for e in run.environments))
            ]
            budget = QUICK_BYTES
            items = []
            for entry, run in found[start : start + limit]:
                row, read = self._run_row(entry, run, budget)
                budget -= read
                items.append(row)
        end = start + limit
        return Page(items=items, next=str(end) if end < len(found) else None, total=len(found))

    def problems(self) -> list[tuple[Path, str]]:
        """Folders that look like runs and cannot be read, with the reason."""
        with self._lock:
            return [(entry.path, entry.problem) for entry in self._entries() if entry.problem]

    def run(self, id: str) -> Run:
        """The run as it stands now; one that says it is running while nobody writes to it was interrupted."""
        with self._lock:
            entry = self._entry(id)
            run = self._open(entry.path).folder.run
            return _standing(run, live=entry.live)

    def rows(self, run_id: str, query: RowQuery) -> Page[RolloutRow]:
        """The rows that match."""
        with self._lock:
            return select(self._open(self._entry(run_id).path).rows(), query)

    def rollout(self, run_id: str, rollout_id: str) -> Rollout:
        """One rollout, read from its place in the file. `Failed` if the file was changed under the reader."""
        with self._lock:
            folder = self._open(self._entry(run_id).path).folder
            row = folder.row(rollout_id)
            try:
                return folder.rollout_at(row)
            except Invalid as error:
                raise Failed(f"{folder.path}: {error.message}", hint="restore the run's file from a copy") from error

    def siblings(self, run_id: str, rollout_id: str) -> list[RolloutRow]:
        """The group of a rollout."""
        with self._lock:
            opened = self._open(self._entry(run_id).path)
            it = opened.folder.row(rollout_id)
            group = [row for row in opened.rows() if (row.task_id, row.environment) == (it.task_id, it.environment)]
        return sorted((row for row in group if (row.step, row.split) == (it.step, it.split)), key=lambda row: row.index)

    def metrics(self, run_id: str) -> list[MetricsEvent]:
        """One for each step, in order."""
        with self._lock:
            return self._open(self._entry(run_id).path).folder.metrics()

    def summary(self, run_id: str) -> RunSummary:
        """The run in figures; computed again only when there is something new."""
        with self._lock:
            return self._open(self._entry(run_id).path).summary()

    def close(self) -> None:
        """Gives back the open files."""
        with self._lock:
            while self._opened:
                self._opened.popitem()[1].folder.close()

    def _entries(self) -> list[RunEntry]:
        at, entries = self._listed
        now = time.monotonic()
        if now - at >= LISTING_SECONDS:
            entries = list_runs(self.root)
            self._listed = (now, entries)
        return entries

    def _entry(self, run_id: str) -> RunEntry:
        for entry in self._entries():
            if entry.run is not None and entry.run.id == run_id:
                return entry
        raise NotFound(f"there is no run {run_id} under {self.root}", hint="sandlot run list")

    def _open(self, path: Path) -> _Opened:
        opened = self._opened.get(path)
        if opened is None:
            opened = self._opened[path] = _Opened(RunFolder.open(path))
            if len(self._opened) > OPEN:
                self._opened.popitem(last=False)[1].folder.close()
        self._opened.move_to_end(path)
        return opened

    def _run_row(self, entry: RunEntry, run: Run, budget: int) -> tuple[RunRow, int]:
        """The row of a run in a list, and how many bytes were read for it; without figures beyond the budget."""
        run = _standing(run, live=entry.live)
        key = (entry.path, entry.size, entry.modified)
        known = self._means.get(key)
        if known is not None and known.status == run.status:
            return known, 0
        row = RunRow(
            id=run.id,
            kind=run.kind,
            name=run.name,
            status=run.status,
            environments=run.environments,
            model=run.model,
            started=run.started,
            ended=run.ended,
            expected=run.expected,
            where=str(entry.path),
        )
        if entry.size > budget and entry.path not in self._opened:
            return row, 0
        summary = self._open(entry.path).summary()
        row = msgspec.structs.replace(
            row, rollouts=summary.rollouts, reward=summary.reward, half_width=summary.half_width
        )
        if len(self._means) > 5000:
            self._means.clear()
        self._means[key] = row
        return row, entry.size


def _standing(run: Run, *, live: bool) -> Run:
    return msgspec.structs.replace(run, status="interrupted") if run.status == "running" and not live else run


def _row(row: IndexRow) -> RolloutRow:
    return RolloutRow(
        id=row.id,
        task_id=row.task_id,
        index=row.index,
        status=row.status,
        reward=row.reward,
        turns=row.turns,
        tokens=row.completion_tokens,
        seconds=row.seconds,
        stop=row.stop,
        first_words=row.first_words,
        step=row.step,
        split=row.split,
        environment=row.environment,
        scores=row.scores,
        model_seconds=row.model_seconds,
        environment_seconds=row.environment_seconds,
        scoring_seconds=row.scoring_seconds,
        cost=row.cost,
    )
