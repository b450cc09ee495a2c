"""The set of tasks that an environment plays, made of whatever rows the author has.

Invariants: ordered and lazy; equal rows have equal ids on every machine and in every order; a row is never changed.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sandlot.engine import authors_code, place_of, raised_by, text_of_error
from sandlot.errors import Invalid, MissingDependency, NotFound, SandlotError
from sandlot.records import JsonObject, Messages, SystemMessage, Task, UserMessage, as_messages, as_stored

Rows = Iterable[Mapping[str, Any]]
Source = Any
"""A list of dicts, a `datasets.Dataset`, a JSONL or Parquet path, or a callable that gives one of them or rows."""

_OWN = frozenset({"prompt", "answer", "info", "env_id"})


class Tasks:
    """The tasks of one split: `source` read as rows, each formatted as a task."""

    def __init__(
        self,
        source: Source,
        *,
        system_prompt: str | None = None,
        few_shot: Messages | None = None,
        on_columns: Callable[[Iterable[str]], None] | None = None,
    ) -> None:
        self._source = _Replayed(source) if isinstance(source, Iterator) else source
        self._system_prompt = system_prompt
        self._few_shot = list(few_shot or [])
        self._on_columns = on_columns
        self._made_by: Callable[[list[dict[str, Any]]], Any] | None = None
        self.check_columns()

    def check_columns(self) -> None:
        """Tells the columns to whoever checks them, where looking at them reads nothing."""
        known = _columns(self._source) if self._on_columns is not None else None
        if self._on_columns is not None and known is not None:
            self._on_columns(known)

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """The rows as they come, read anew. What the author's code raises is `Invalid`, with its file and line."""
        try:
            with authors_code:
                given = _given(self._source)
                self._made_by = getattr(given, "from_list", None) if hasattr(given, "column_names") else None
                yield from rows_of(given)
        except SandlotError:
            raise
        except Exception as error:  # boundary: the author's dataset
            raised = raised_by(error)
            place = f" at {place_of(raised)}" if place_of(raised) else ""
            raise Invalid(f"the dataset raised {type(raised).__name__}{place}: {text_of_error(raised)}") from error

    def __iter__(self) -> Iterator[Task]:
        seen: dict[str, int] = {}
        authors: set[str] = set()
        for number, row in enumerate(self.rows()):
            if not isinstance(row, Mapping):
                raise Invalid(f"row {number} of the dataset is a {type(row).__name__}; a dict was expected")
            if number == 0 and self._on_columns is not None:
                self._on_columns(row)
            yield self._task(row, number, seen=seen, authors=authors)

    def as_given(self, rows: list[dict[str, Any]]) -> Any:
        """`rows` as a `datasets.Dataset`, where the tasks were made of one; else as they are."""
        return rows if self._made_by is None else self._made_by(rows)

    def size(self) -> int | None:
        """How many tasks there are, or None where that is not known without counting."""
        return len(self._source) if hasattr(self._source, "__len__") and not _is_path(self._source) else None

    def _task(self, row: Mapping[str, Any], number: int, *, seen: dict[str, int], authors: set[str]) -> Task:
        task_id = _id_of(row, seen, authors)
        for key, value in row.items():
            as_stored(value, f"column {key!r} of row {number} of the dataset")
        return Task(
            id=task_id,
            prompt=[dict(message) for message in self._prompt(row, number)],
            answer=row.get("answer", ""),
            info=_info(row.get("info"), number),
            fields={key: value for key, value in row.items() if key not in _OWN},
            environment=str(row.get("env_id", "")),
        )

    def _prompt(self, row: Mapping[str, Any], number: int) -> Messages:
        head: Messages = [SystemMessage(content=self._system_prompt)] if self._system_prompt else []
        given = row.get("prompt")
        if given is not None:
            messages = _conversation(given, number)
            return messages if messages and messages[0].get("role") == "system" else head + messages
        question = row.get("question")
        if question is None:
            raise Invalid(
                f"row {number} of the dataset has neither 'prompt' nor 'question'; it has {', '.join(map(repr, row))}",
                hint="add a 'question' column (text) or a 'prompt' column (messages)",
            )
        return [*head, *self._few_shot, UserMessage(content=question)]


def _id_of(row: Mapping[str, Any], seen: dict[str, int], authors: set[str]) -> str:
    """The author's id of the row. Where there is none, or an earlier row has it, so that it tells nothing apart: the
    hash of the row's content, with the number of its occurrence, behind the author's id if there is one."""
    given = row.get("id", row.get("task_id"))
    own = str(given) if isinstance(given, str | int) and not isinstance(given, bool) else ""
    if own and own not in authors:
        authors.add(own)
        return own
    digest = row_hash(row)
    occurrence = seen[digest] = seen.get(digest, -1) + 1
    task_id = digest if occurrence == 0 else f"{digest}-{occurrence}"
    if own:
        task_id = f"{own}-{task_id}"
        authors.add(task_id)
    return task_id


class _Replayed(Iterable[Any]):
    """The rows of an iterator, which can be read only once, kept as they are read, so that they can be read again."""

    def __init__(self, rows: Iterator[Any]) -> None:
        self._rows = rows
        self._read: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        number = 0
        while True:
            if number == len(self._read):
                try:
                    self._read.append(next(self._rows))
                except StopIteration:
                    return
            yield self._read[number]
            number += 1


def _conversation(given: Any, number: int) -> Messages:
    try:
        return as_messages(given)
    except Invalid as error:
        raise Invalid(f"'prompt' of row {number} of the dataset: {error.message}") from None


def rows_of(source: Source) -> Rows:
    """The rows of whatever a dataset may be. `Invalid` says what was found instead."""
    source = _given(source)
    if _is_path(source):
        return _file_rows(Path(source))
    if isinstance(source, Iterable) and not isinstance(source, Mapping | str):
        return source
    raise Invalid(
        f"a dataset cannot be a {type(source).__name__}",
        hint="give a list of dicts, a datasets.Dataset, a .jsonl or .parquet path, or a function that returns one",
    )


def _given(source: Source) -> Source:
    """What a source that is a function gives, and any other source itself."""
    while callable(source) and not hasattr(source, "column_names"):
        source = source()
    return source


def row_hash(row: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits over the row's content; the order of its columns is no matter."""
    text = json.dumps(msgspec.to_builtins(dict(row), enc_hook=str, str_keys=True), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def shuffled(tasks: Iterable[Task], seed: int) -> list[Task]:
    """A finite set of tasks in an order that depends on the seed and the tasks' ids alone."""
    return sorted(tasks, key=lambda task: hashlib.sha256(f"{seed}\0{task.id}".encode()).digest())


def first(tasks: Iterable[Task], count: int) -> list[Task]:
    """The first `count` tasks; -1 is all of them."""
    return list(tasks) if count < 0 else list(itertools.islice(tasks, count))


def _is_path(source: Source) -> bool:
    return isinstance(source, Path) or (isinstance(source, str) and source.endswith((".jsonl", ".parquet")))


def _columns(source: Source) -> Sequence[str] | None:
    """The columns of a source, where looking at them reads nothing."""
    names = getattr(source, "column_names", None)
    if isinstance(names, list):
        return names
    if isinstance(source, list) and source and all(isinstance(row, Mapping) for row in source):
        return sorted({str(key) for row in source for key in row})
    return None


def _file_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    if not path.is_file():
        raise NotFound(f"there is no dataset file {path}")
    if path.suffix == ".parquet":
        try:
            from pyarrow import parquet  # heavy: only where a Parquet file is read
        except ImportError:
            raise MissingDependency("reading Parquet needs pyarrow", hint="pip install 'sandlot[parquet]'") from None
        for batch in parquet.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
        return
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise Invalid(f"{path}, line {number}, is not JSON: {error}") from None
            yield row


def _info(value: Any, number: int) -> JsonObject:
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise Invalid(f"'info' of row {number} is text that is not JSON") from None
    if not isinstance(value, Mapping):
        raise Invalid(f"'info' of row {number} is a {type(value).__name__}; a dict was expected")
    return dict(value)
