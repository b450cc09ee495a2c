"""What there is to do, apart from the agent that does it, under the names of the original API.

Invariants: a set of tasks is lazy and is not changed by a filter; its tasks know which sandbox they need, and what is
laid there; nothing of the agent is known here.
"""

from __future__ import annotations

import copy
import importlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Self

from sandlot.engine import State
from sandlot.envs.rubric import Rubric
from sandlot.errors import Invalid
from sandlot.records import Messages, UserMessage

Folder = Path | Traversable
"""A folder of this machine, or of an installed package."""

_FILTER_WORDS: dict[str, Any] = {
    "__builtins__": {},
    "re": re,
    **{function.__name__: function for function in (len, all, any, sum, min, max, sorted, set, frozenset)},
}


@dataclass
class SandboxSpec:
    """What the sandbox of a task is to be like."""

    image: str = "python:3.11-slim"
    cpu_cores: int = 4
    memory_gb: int = 4
    disk_size_gb: int = 10
    gpu_count: int = 0
    gpu_type: str | None = None
    timeout_minutes: int | None = None
    """How long it lives; None is as long as the rollout may take."""


class Task:
    """One task of a set: `taskset[0]`."""

    def __init__(self, taskset: TaskSet, prompt: Messages, info: dict[str, Any], answer: Any = "") -> None:
        self.taskset, self.prompt, self.info, self.answer = taskset, prompt, info, answer

    @property
    def sandbox_spec(self) -> SandboxSpec | None:
        """The sandbox that it needs; None where it needs none."""
        return self.taskset.get_sandbox_spec(self.info)

    @property
    def image(self) -> str | None:
        """The image of its sandbox."""
        spec = self.sandbox_spec
        return spec.image if spec else None

    @property
    def workdir(self) -> str:
        """The folder in which the agent works."""
        return self.taskset.get_workdir(self.info)

    def __repr__(self) -> str:
        return f"Task(taskset={self.taskset.name!r}, image={self.image!r})"


class TaskSet:
    """Tasks that need no sandbox of their own. Subclass it and say `get_instruction` and `get_rubric`.

    `dataset` are rows with `info` and `answer` (a `datasets.Dataset`, a list of dicts, or a function that gives one,
    which is called when the rows are first read). `filter_fn` is the text of a Python function of a row, such as
    `"lambda row: len(row['info']['tests']) > 3"`: only the rows that it is true of are tasks. It is run as code of
    whoever writes it.
    """

    default_workdir: str = "/app"

    def __init__(self, dataset: Any, name: str = "", filter_fn: str | None = None) -> None:
        self.name = name
        self._filter = None if filter_fn is None else _predicate(filter_fn)
        self.dataset_source: Callable[[], Any] = dataset if callable(dataset) else lambda: dataset
        self._rows: Any = None

    @property
    def dataset(self) -> Any:
        """The rows."""
        if self._rows is None:
            rows = self.dataset_source()
            self._rows = rows if self._filter is None else _filtered(rows, self._filter)
        return self._rows

    @dataset.setter
    def dataset(self, rows: Any) -> None:
        self._rows = rows

    def get_instruction(self, info: dict[str, Any]) -> str:
        """What the agent is asked to do."""
        raise Invalid(
            f"{type(self).__name__} does not say what is to be done", hint="write get_instruction(self, info)"
        )

    def get_rubric(self) -> Rubric:
        """What it is worth. It may read what the agent left in the sandbox, by `state["sandbox_client"]`."""
        raise Invalid(f"{type(self).__name__} does not say what is rewarded", hint="write get_rubric(self)")

    def get_sandbox_spec(self, info: dict[str, Any]) -> SandboxSpec | None:
        """The sandbox that a task needs; None leaves it to the harness."""
        return None

    def get_workdir(self, info: dict[str, Any]) -> str:
        """The folder in which the agent works."""
        return self.default_workdir

    def get_env_vars(self) -> dict[str, str]:
        """Variables that every command in the sandbox sees."""
        return {}

    def get_skills_dir(self) -> Folder | None:
        """The skills that are laid in the sandbox: by default the folder `skills` beside the set's own module."""
        return discover_sibling_dir(type(self), "skills")

    def get_upload_dirs(self) -> dict[str, Folder]:
        """Folders that are laid in the sandbox where the harness has a place for their names."""
        skills = self.get_skills_dir()
        return {} if skills is None else {"skills": skills}

    async def setup(self, state: State) -> None:
        """Makes the sandbox ready: `state["sandbox_client"]`, `state["sandbox_id"]`."""

    async def validate_instance(self, state: State) -> bool:
        """Whether the task can be solved, in a sandbox that was set up."""
        return True

    def get_dataset(self) -> Any:
        """The rows, each with a `prompt`."""
        rows = self.dataset
        names = getattr(rows, "column_names", None)
        if names is not None:
            return rows if "prompt" in names else rows.map(lambda row: {"prompt": self._prompt(row)})
        return [row if "prompt" in row else {**row, "prompt": self._prompt(row)} for row in rows]

    def filter(self, predicate: Callable[[Any], bool]) -> Self:
        """The set of the tasks whose row `predicate` is true of."""
        return self._with(_filtered(self.dataset, predicate))

    def take(self, n: int) -> Self:
        """The set of the first `n` tasks."""
        rows = self.dataset
        return self._with(rows.select(range(min(n, len(rows)))) if hasattr(rows, "select") else list(rows)[:n])

    def __len__(self) -> int:
        return len(self.dataset)

    def __iter__(self) -> Iterator[Task]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> Task:
        row = self.dataset[number]
        info = info_of(row)
        prompt: Messages = [UserMessage(content=self.get_instruction(info))]
        return Task(self, prompt, info, row.get("answer", ""))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"

    def _prompt(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [{"role": "user", "content": self.get_instruction(info_of(row))}]

    def _with(self, rows: Any) -> Self:
        other = copy.copy(self)
        other.dataset = rows
        return other


class SandboxTaskSet(TaskSet):
    """Tasks that need a sandbox. Say `get_sandbox_spec` too, and `setup` where something is to be laid there."""

    def get_sandbox_spec(self, info: dict[str, Any]) -> SandboxSpec | None:
        """The sandbox that a task needs."""
        raise Invalid(f"{type(self).__name__} does not say its sandbox", hint="write get_sandbox_spec(self, info)")


def discover_sibling_dir(taskset_cls: type, dirname: str) -> Folder | None:
    """The folder `dirname` beside the module of a class, where there is one that is not empty."""
    module = importlib.import_module(taskset_cls.__module__)
    package = module.__name__ if hasattr(module, "__path__") else module.__package__
    beside: list[Folder] = [resources.files(package) / dirname] if package else []
    if getattr(module, "__file__", None):
        beside.append(Path(str(module.__file__)).resolve().parent / dirname)
    return next((folder for folder in beside if folder.is_dir() and any(folder.iterdir())), None)


def info_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The `info` of a row, which may be text."""
    info = row.get("info") or {}
    return dict(json.loads(info) if isinstance(info, str) else info)


def _filtered(rows: Any, predicate: Callable[[Any], bool]) -> Any:
    return rows.filter(predicate) if hasattr(rows, "filter") else [row for row in rows if predicate(row)]


def _predicate(text: str) -> Callable[[Any], bool]:
    try:
        predicate: Callable[[Any], bool] = eval(text, dict(_FILTER_WORDS))
    except Exception as error:  # boundary: the author's expression
        raise Invalid(f"filter_fn is no Python expression: {type(error).__name__}: {error}") from error
    if not callable(predicate):
        raise Invalid(f"filter_fn is a {type(predicate).__name__}", hint="\"lambda row: row['info']['level'] > 2\"")
    return predicate
