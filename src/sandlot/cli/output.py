"""The one way to print.

Data goes to stdout and words to stderr. With `json` nothing but JSON is printed on either: the result on stdout,
warnings and errors as objects on stderr. Colour is used on a terminal only, and not where NO_COLOR is set.
"""

from __future__ import annotations

import json as json_module
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click


class Output:
    """What a command prints with."""

    def __init__(self, *, json: bool = False) -> None:
        self.json = json

    def result(self, record: Any, text: str | None = None) -> None:
        """A command's result: `record` as JSON, or else `text` (default: nothing) on stdout."""
        if self.json:
            self._line(json_text(record, indent=2 if sys.stdout.isatty() else None), sys.stdout)
        elif text is not None:
            self._line(text, sys.stdout)

    def table(self, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], *, record: Any = None) -> None:
        """`rows` as aligned columns, `columns` naming the keys and their headings; as JSON `record` (default: rows)."""
        if self.json:
            self.result(rows if record is None else record)
            return
        cells = [[_cell(row.get(key)) for key in columns] for row in rows]
        if not cells:
            return
        widths = [max(len(line[i]) for line in [list(columns.values()), *cells]) for i in range(len(columns))]
        heading = _aligned(columns.values(), widths)
        self._line(click.style(heading, bold=True) if coloured(sys.stdout) else heading, sys.stdout)
        for line in cells:
            self._line(_aligned(line, widths), sys.stdout)

    def say(self, words: str) -> None:
        """Words for a person, on stderr. Nothing with `json`."""
        if not self.json:
            self._line(words, sys.stderr)

    def warn(self, words: str) -> None:
        """Something that went on but should be known."""
        if self.json:
            self._line(json_text({"warning": words}), sys.stderr)
        else:
            self._line(styled("warning: ", "yellow") + words, sys.stderr)

    def next(self, *commands: str) -> None:
        """What one would do now, after a success."""
        for index, line in enumerate(commands):
            self.say(styled("next: " if index == 0 else "      ", "cyan") + line)

    def error(self, problem: Mapping[str, Any]) -> None:
        """An error: `code`, `detail` and perhaps `hint` and `traceback`."""
        if self.json:
            self._line(json_text(problem), sys.stderr)
            return
        if problem.get("traceback"):
            self._line(str(problem["traceback"]).rstrip(), sys.stderr)
        self._line(styled("error: ", "red") + str(problem["detail"]), sys.stderr)
        if problem.get("hint"):
            self._line(styled("try:   ", "cyan") + str(problem["hint"]), sys.stderr)

    def _line(self, text: str, stream: Any) -> None:
        click.echo(text, file=stream)


def coloured(stream: Any) -> bool:
    """Whether colour may be written to `stream`."""
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, colour: str) -> str:
    """`text` in `colour` where stderr takes colour."""
    return click.style(text, fg=colour, bold=True) if coloured(sys.stderr) else text


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Strict JSON of plain values, records and configs: no NaN, which not every parser takes."""
    return json_module.dumps(value, default=_plain, indent=indent, allow_nan=False, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "__struct_fields__"):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Iterable):
        return list(value)
    return str(value)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    return " ".join(str(value).split())


def _aligned(cells: Iterable[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
