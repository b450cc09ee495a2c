"""Progress of long work on stderr: a live bar on a terminal, elsewhere a line now and then, nothing with --json."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sandlot.cli.output import Output

_LINE_SECONDS = 10.0
"""Plain lines come no more often than this."""


class Bar:
    """Counts work of known size. A context manager; `advance` moves it, with a note that is shown beside it."""

    def __init__(
        self, out: Output, label: str, total: int, *, unit: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._out, self._label, self._unit, self._clock = out, label, unit, clock
        self.total, self.done = total, 0
        self._note = ""
        self._last_line = clock()
        self._first: tuple[float, int] | None = None
        """When `advance` was first called, and how many were done then."""
        self._live: Progress | None = None
        if not out.json and sys.stderr.isatty():
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
            )
            self._live = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._live.add_task(label, total=total, note="")

    def __enter__(self) -> Bar:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, words: str) -> None:
        """A line of words, which a live bar lets pass above itself."""
        if self._live is not None:
            self._live.console.print(words, markup=False, highlight=False, soft_wrap=True)
        else:
            self._out.say(words)

    def advance(self, done: int, note: str = "") -> None:
        """`done` of the total are done now."""
        self.done, self._note = done, note
        if self._first is None:
            self._first = (self._clock(), done)
        if self._live is not None:
            self._live.update(self._task, completed=done, total=self.total, note=note)
        elif not self._out.json and self._clock() - self._last_line >= _LINE_SECONDS:
            self._last_line = self._clock()
            words = [f"{self._label}: {done:,}/{self.total:,}{self._unit}", note, self._remaining()]
            self._out.say(", ".join(filter(None, words)))

    def _remaining(self) -> str:
        """How long it will go on, judged by what was done since the first call of `advance`."""
        if self._first is None or self.done <= self._first[1] or self.done >= self.total:
            return ""
        start, done = self._first
        seconds = (self._clock() - start) / (self.done - done) * (self.total - self.done)
        return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"
