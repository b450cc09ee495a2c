"""The order in which tasks are drawn from the environments of a run.

Invariants: draw number n is the same task on every machine and after every resume, for it depends on the seed, the
weights and n alone; a finite set is gone through whole, in a new order each time, before a task comes again; an endless
one is read in its own order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from random import Random

import msgspec

from sandlot.engine import Playable
from sandlot.errors import Invalid
from sandlot.records import Task

MOST_TASKS = 100_000
"""A set with more tasks is taken for endless: it is not held in memory and not shuffled."""


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    """One task that was drawn."""

    number: int
    """From 0, over the whole run."""
    environment: str
    """The environment's id in the config."""
    position: int
    """How many of that environment's tasks were drawn before."""


class TaskOrder:
    """Draws tasks. `state` and `load_state` carry it across a resume."""

    def __init__(self, playables: Mapping[str, Playable], *, weights: Mapping[str, float], seed: int) -> None:
        self.seed = seed
        self.weights = dict(weights)
        self.sets = {name: _TaskSet(playable, name, seed=seed) for name, playable in playables.items()}
        self.drawn = 0
        self.positions = dict.fromkeys(self.sets, 0)

    def draw(self) -> Draw:
        """The next draw."""
        names = list(self.sets)
        choice = Random(f"{self.seed}:{self.drawn}").choices(names, [self.weights[name] for name in names])[0]
        drawn = Draw(number=self.drawn, environment=choice, position=self.positions[choice])
        self.drawn += 1
        self.positions[choice] += 1
        return drawn

    def task(self, draw: Draw) -> tuple[Task, int]:
        """The task of a draw, and how often it was drawn before."""
        return self.sets[draw.environment].at(draw.position)

    def state(self) -> dict[str, object]:
        """What `load_state` takes; JSON."""
        return {"drawn": self.drawn, "positions": dict(self.positions)}

    def load_state(self, state: Mapping[str, object]) -> None:
        """Goes on where `state` was taken. `Invalid` if it is of other environments."""
        positions = state["positions"]
        if not isinstance(positions, dict) or set(positions) != set(self.sets):
            raise Invalid(f"the checkpoint is of the environments {positions}, the run of {list(self.sets)}")
        self.positions = positions
        self.drawn = int(str(state["drawn"]))


class _TaskSet:
    """The training tasks of one environment by position."""

    def __init__(self, playable: Playable, name: str, *, seed: int) -> None:
        self._playable = playable
        self._seed = f"{seed}:{name}"
        first = list(islice(playable.tasks("train"), MOST_TASKS + 1))
        if not first:
            raise Invalid(f"{name} has no training tasks", hint="give the environment tasks, or choose another one")
        self._tasks = first if len(first) <= MOST_TASKS else None
        self._stream: Iterator[Task] = iter(())
        self._next = -1

    def at(self, position: int) -> tuple[Task, int]:
        if self._tasks is None:
            return self._streamed(position), 0
        epoch, place = divmod(position, len(self._tasks))
        return self._tasks[_permutation(self._seed, epoch, len(self._tasks))[place]], epoch

    def _streamed(self, position: int) -> Task:
        if not 0 <= self._next <= position:
            self._stream, self._next = iter(self._playable.tasks("train")), 0
        task = next(islice(self._stream, position - self._next, None), None)
        if task is None:
            raise Invalid(f"{self._playable.name} ended after fewer than {position + 1} tasks")
        self._next = position + 1
        return task


@lru_cache(maxsize=16)
def _permutation(seed: str, epoch: int, size: int) -> list[int]:
    order = list(range(size))
    Random(f"{seed}:{epoch}").shuffle(order)
    return order
