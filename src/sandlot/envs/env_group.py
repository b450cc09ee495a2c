"""Several environments played as one.

Invariants: every task is played and scored by the environment that it came from, with that one's tools, stop
conditions, limits, sampling and rubric; equal ids of two members stay two tasks; a metric that a member does not report
is absent for its tasks, not 0.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sandlot.engine import Ask, Limits, Playable, State
from sandlot.envs.calls import own
from sandlot.envs.conversation import Conversation
from sandlot.envs.environment import Environment
from sandlot.envs.rubric import Rubric
from sandlot.envs.rubric_group import RubricGroup
from sandlot.envs.tasks import Tasks
from sandlot.errors import Invalid
from sandlot.models import Completion
from sandlot.records import Messages, Sampling, Task, Tool, Verdict

ROUTE = "env_id"
"""The column, and the key of the state and of `info`, that says which member plays a task."""


class EnvGroup(Environment):
    """The tasks of `envs` one environment after the other, each played by its own.

    `env_names` names them (default: `env_0`, `env_1`, …). A task's id is `name:id`, and its `info["env_id"]` is the
    name. Groups within a group are dissolved into it, as `outer/inner`.
    """

    def __init__(self, envs: Sequence[Environment], env_names: Sequence[str] | None = None, **kwargs: Any) -> None:
        if not envs:
            raise Invalid("an EnvGroup needs at least one environment")
        names = list(env_names) if env_names is not None else [f"env_{number}" for number in range(len(envs))]
        if len(names) != len(envs):
            raise Invalid(f"{len(envs)} environments but {len(names)} names")
        if len(set(names)) != len(names) or not all(names):
            raise Invalid(f"the environments of a group need different names, found {names!r}")
        self.members = dict(_dissolved(zip(names, envs, strict=True)))
        super().__init__(rubric=RubricGroup([member.rubric for member in self.members.values()]), **kwargs)

    @property
    def envs(self) -> list[Environment]:
        """The environments, in order."""
        return list(self.members.values())

    @property
    def env_names(self) -> list[str]:
        """Their names, in order."""
        return list(self.members)

    @functools.cached_property
    def playable(self) -> Conversation:
        """The group as the engine plays it."""
        return _Switchboard(self)

    def get_env_for_task(self, name: str) -> Environment:
        """The member called `name`."""
        if name not in self.members:
            raise Invalid(f"there is no environment {name!r} in the group; there are {', '.join(self.members)}")
        return self.members[name]

    def get_env_for_name(self, name: str) -> Environment:
        """The same, as later releases of the original call it."""
        return self.get_env_for_task(name)

    def with_tasks(self, rows: Any, eval_rows: Any = None) -> Environment:
        """`Invalid`: the members have the tasks."""
        raise Invalid("a group has no tasks of its own", hint="give them to its members: member.with_tasks(rows)")

    def split(self, split: str = "train") -> Iterable[Task]:
        """The members' tasks of `train` or `eval`, one member after the other."""
        return _Joined({name: own(member, "split")(split) for name, member in self.members.items()})

    def tasks_of(self, rows: Any) -> list[Task]:
        """Rows as tasks of the members that their `info["env_id"]` or `env_id` names."""
        tasks: list[Task] = []
        for row in rows:
            name = (row.get("info") or {}).get(ROUTE) or row.get(ROUTE) or ""
            tasks += _labelled(name, own(self.get_env_for_task(name), "tasks_of")([row]))
        return tasks

    def add_rubric(self, rubric: Rubric) -> None:
        """Adds a rubric to every member."""
        for member in self.envs:
            member.add_rubric(rubric)
        self.rubric = RubricGroup([member.rubric for member in self.envs])
        self.__dict__.pop("playable", None)


class _Joined(Iterable[Task]):
    """Tasks of several sources, labelled. Each label belongs to its own source however late the tasks are read."""

    def __init__(self, sources: Mapping[str, Iterable[Task]]) -> None:
        self._sources = sources

    def __iter__(self) -> Iterator[Task]:
        return itertools.chain.from_iterable(_labelled(name, tasks) for name, tasks in self._sources.items())

    def size(self) -> int | None:
        """How many tasks there are, or None where a member does not know."""
        total = 0
        for tasks in self._sources.values():
            size = tasks.size() if isinstance(tasks, Tasks | _Joined) else None
            if size is None:
                return None
            total += size
        return total


class _Switchboard(Conversation):
    """Passes every question of the engine on to the member that the task came from."""

    def __init__(self, environment: EnvGroup) -> None:
        super().__init__(environment)
        self._playables: dict[str, Playable] = {name: env.playable for name, env in environment.members.items()}

    def _of(self, state: State) -> Playable:
        return self._playables[state[ROUTE]]

    @property
    def grouped(self) -> bool:  # type: ignore[override]
        """Whether one of the members judges the rollouts of a task together."""
        return any(playable.grouped for playable in self._playables.values())

    def cautions(self, split: str) -> list[str]:
        """The members', each of them named."""
        return [words for playable in self._playables.values() for words in playable.cautions(split)]

    def limits_of(self, state: State) -> Limits:
        """The member's."""
        return self._of(state).limits_of(state)

    def sampling_of(self, task: Task) -> Sampling:
        """The member's."""
        return self._playables[task.environment].sampling_of(task)

    async def setup(self, state: State) -> State:
        """The member's set-up. A state that an author returns instead still knows where it belongs."""
        name = state[ROUTE]
        state = await self._of(state).setup(state)
        state[ROUTE] = name
        return state

    async def stop(self, state: State) -> str | None:
        """The member's stop condition."""
        return await self._of(state).stop(state)

    async def prompt(self, state: State) -> Messages | None:
        """The member's next prompt."""
        return await self._of(state).prompt(state)

    def tools(self, state: State) -> Sequence[Tool]:
        """The member's tools."""
        return self._of(state).tools(state)

    async def generate(self, state: State, messages: Messages, ask: Ask) -> Completion:
        """The member's own way of asking."""
        return await self._of(state).generate(state, messages, ask)

    async def observe(self, state: State, messages: Messages, completion: Completion) -> None:
        """Told to the member."""
        await self._of(state).observe(state, messages, completion)

    async def cleanup(self, state: State) -> None:
        """The member's clean-up."""
        await self._of(state).cleanup(state)

    async def score(self, states: Sequence[State]) -> list[Verdict]:
        """The verdicts of the member: the states are of one task."""
        return await self._of(states[0]).score(states) if states else []

    async def close(self) -> None:
        """Closes every member, also where one of them fails; the first failure is raised last."""
        failure: Exception | None = None
        for playable in self._playables.values():
            try:
                await playable.close()
            except Exception as error:  # boundary: the author's tear-down; the other members must still be closed
                failure = failure or error
        if failure is not None:
            raise failure


def _dissolved(named: Iterable[tuple[str, Environment]]) -> Iterator[tuple[str, Environment]]:
    for name, env in named:
        if isinstance(env, EnvGroup):
            yield from ((f"{name}/{inner}", member) for inner, member in env.members.items())
        else:
            yield name, env


def _labelled(name: str, tasks: Iterable[Task]) -> Iterator[Task]:
    for task in tasks:
        yield msgspec.structs.replace(
            task,
            id=f"{name}:{task.id}",
            info={**task.info, ROUTE: name},
            fields={**task.fields, ROUTE: name},
            environment=name,
        )
