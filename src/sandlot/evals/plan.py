"""What one evaluation run will play, fixed before it starts.

Invariants: the same config, environment and seed give the same tasks in the same order on every machine; a task's id
never depends on its place; a run is resumed only by a plan that asks for the same, of as many tasks or more.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from random import Random
from typing import Any

import msgspec

from sandlot.engine import Playable, Request, seed_of
from sandlot.errors import Conflict, Invalid
from sandlot.evals.config import EvalConfig, settings_of
from sandlot.ids import new_id
from sandlot.models import Model
from sandlot.records import EnvironmentRef, JsonObject, Run, Task
from sandlot.store import Key, RunFolder, folder_for

MOST_TASKS = 1_000_000
"""From here on a set of tasks is taken for one without end, of which a number must be asked for."""

_MATTERS = ("split", "shuffle", "seed", "rollouts_per_task", "sampling", "rollout_limits", "on_scoring_error")
"""The settings that decide what is measured. A run cannot go on with other ones."""


@dataclass(frozen=True, slots=True)
class EvalPlan:
    """One environment, one model, and the tasks that are played."""

    config: EvalConfig
    playable: Playable
    model: Model
    tasks: Sequence[Task]
    run: Run
    """The run as it begins."""

    def key(self, task: Task, index: int) -> Key:
        """What the rollout `index` of `task` accounts for."""
        environment = task.environment or self.playable.name
        return Key(environment=environment, task_id=task.id, index=index, split="eval", step=None)

    def missing(self, done: set[Key]) -> list[list[Request]]:
        """By task, the rollouts that are not done. Where rollouts are judged together, one that is missing is all."""
        groups = []
        for task in self.tasks:
            indices = range(self.config.rollouts_per_task)
            left = [index for index in indices if self.key(task, index) not in done]
            if left and self.playable.grouped:
                left = list(indices)
            if left:
                seed = self.config.seed
                groups.append([Request(task=task, index=i, seed=seed_of(seed, task.id, i)) for i in left])
        return groups


def plan_eval(config: EvalConfig, *, playable: Playable, model: Model, ref: EnvironmentRef) -> EvalPlan:
    """Chooses the tasks and describes the run.

    `Invalid` where the environment's tasks cannot be played as asked, or the model not be sampled so.
    """
    if config.pass_threshold is None:
        config = config.model_copy(update={"pass_threshold": playable.pass_threshold})
    model.check(config.sampling.record())
    tasks = choose_tasks(config, playable)
    run = Run(
        id=new_id(),
        kind="eval",
        name=ref.name or playable.name,
        environments=[msgspec.structs.replace(ref, tasks=tasks_digest(tasks))],
        model=model.name,
        config=config.recorded(),
        seed=config.seed,
        expected=len(tasks) * config.rollouts_per_task,
        started=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        sdk=_sdk_version(),
        warnings=list(_warnings(config, playable, tasks)),
        host={
            "python": platform.python_version(),
            "system": platform.system(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
        },
    )
    # As it will be read back, so that a plan and its own folder are equal; arguments that are not JSON stand as text.
    run = msgspec.json.decode(msgspec.json.encode(run, enc_hook=repr), type=Run)
    return EvalPlan(config, playable, model, tasks, run)


def folder_of_eval(plan: EvalPlan) -> RunFolder:
    """A new run folder for `plan`, under the config's output folder."""
    return RunFolder.create(folder_for(plan.config.output, plan.run), plan.run)


def choose_tasks(config: EvalConfig, playable: Playable) -> list[Task]:
    """The tasks that `config` asks for. `Invalid` if two have one id, or if all are asked for and there is no end."""
    if config.num_tasks == 0:
        return []
    every = config.shuffle or config.num_tasks < 0
    tasks = list(islice(playable.tasks(config.split), MOST_TASKS + 1 if every else config.num_tasks))
    if not tasks:
        raise Invalid(
            f"{playable.name} has no task in its split {config.split!r}, so there is nothing to play",
            hint="look at the rows of its dataset, or ask for another one with --split",
        )
    if len(tasks) > MOST_TASKS:
        what = "shuffling" if config.num_tasks > 0 else "all of them"
        raise Invalid(
            f"{playable.name} has more than {MOST_TASKS:,} tasks, too many for {what}",
            hint="ask for a number of tasks with --num-tasks, without --shuffle",
        )
    seen: set[tuple[str, str]] = set()
    for task in tasks:
        if (task.environment, task.id) in seen:
            raise Invalid(
                f"{playable.name} has two tasks with the id {task.id!r}",
                hint="give every task an id of its own, or none: it is then made from the task's content",
            )
        seen.add((task.environment, task.id))
    if config.shuffle:
        Random(config.seed).shuffle(tasks)
    return tasks if config.num_tasks < 0 else tasks[: config.num_tasks]


def _warnings(config: EvalConfig, playable: Playable, tasks: Sequence[Task]) -> Iterator[str]:
    if "num_tasks" in config.model_fields_set and len(tasks) < config.num_tasks:
        yield f"{config.num_tasks:,} tasks were asked for, and {playable.name} has {len(tasks):,}"
    if tasks:
        yield from playable.cautions(config.split)


def tasks_digest(tasks: Sequence[Task]) -> str:
    """A hash over the ids of `tasks`, in order."""
    total = hashlib.sha256()
    for task in tasks:
        total.update(f"{task.environment}\0{task.id}\0".encode())
    return f"sha256:{total.hexdigest()}"


def resumed(plan: EvalPlan, before: Run) -> Run:
    """The run `before` as it goes on under `plan`. `Conflict` names everything in which the two differ."""
    differences = list(_differences(plan, before))
    if differences:
        raise Conflict(
            "the run was started with other settings: " + "; ".join(differences),
            hint="resume it with the settings that it has, or start a new run",
        )
    warnings = before.warnings if plan.run.expected == before.expected else plan.run.warnings
    return msgspec.structs.replace(plan.run, id=before.id, started=before.started, warnings=warnings)


def _differences(plan: EvalPlan, before: Run) -> list[str]:
    run = plan.run
    if before.kind != run.kind:
        return [f"it is a run of kind {before.kind}, not {run.kind}"]
    then, now = _settings(before), _settings(run)
    found = [
        f"{name} is {_said(then.get(name))} there and {_said(now.get(name))} here"
        for name in dict.fromkeys([*then, *now])
        if then.get(name) != now.get(name)
    ]
    if found or not before.environments:
        return found
    count = (before.expected or 0) // plan.config.rollouts_per_task
    if count > len(plan.tasks):
        return [f"num_tasks gives {count} tasks there and {len(plan.tasks)} here, and may only grow"]
    if before.environments[0].tasks != tasks_digest(plan.tasks[:count]):
        return ["the tasks are others: the environment no longer gives the ones that the run began with"]
    return []


def _said(value: Any) -> str:
    return "not set" if value is None else repr(value)


def _settings(run: Run) -> dict[str, Any]:
    config = settings_of(run)
    settings: dict[str, Any] = {"model": run.model}
    for environment in run.environments:
        settings |= {
            "environment": environment.name or environment.id,
            "environment.owner": environment.owner,
            "environment.version": environment.version,
            "environment.digest": environment.digest,
        }
        settings |= _flat({"args": environment.args})
    return settings | _flat({name: config.get(name) for name in _MATTERS})


def _flat(table: Mapping[str, Any], prefix: str = "") -> JsonObject:
    flat: JsonObject = {}
    for name, value in table.items():
        inner = value if isinstance(value, Mapping) and value else None
        flat |= {f"{prefix}{name}": value} if inner is None else _flat(inner, f"{prefix}{name}.")
    return flat


def _sdk_version() -> str:
    try:
        return importlib.metadata.version("sandlot")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"  # Imported from a source tree that was never installed.
