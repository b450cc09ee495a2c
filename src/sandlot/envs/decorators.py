"""Marks on an environment's methods: what ends a rollout, what cleans up, what scores.

Invariants: a mark is a plain attribute on the function, so a decorated method can still be called and overridden;
marked methods are ordered by descending priority, then by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_MARK = "__sandlot_mark__"


class Mark:
    """What a method was marked as."""

    def __init__(self, kind: str, *, priority: int = 0, weight: float = 1.0) -> None:
        self.kind = kind
        self.priority = priority
        self.weight = weight


def _marking(kind: str, function: FunctionT | None, *, priority: int = 0, weight: float = 1.0) -> Any:
    def mark(target: FunctionT) -> FunctionT:
        setattr(target, _MARK, Mark(kind, priority=priority, weight=weight))
        return target

    return mark if function is None else mark(function)


@overload
def stop(function: FunctionT) -> FunctionT: ...
@overload
def stop(function: None = None, *, priority: int = 0) -> Callable[[FunctionT], FunctionT]: ...
def stop(function: FunctionT | None = None, *, priority: int = 0) -> Any:
    """Marks `(self, state) -> bool` as a stop condition: the first that is true ends the rollout under its name."""
    return _marking("stop", function, priority=priority)


@overload
def cleanup(function: FunctionT) -> FunctionT: ...
@overload
def cleanup(function: None = None, *, priority: int = 0) -> Callable[[FunctionT], FunctionT]: ...
def cleanup(function: FunctionT | None = None, *, priority: int = 0) -> Any:
    """Marks `(self, state)` to run once after every rollout, also a broken or cancelled one: an environment's before
    it is scored, a rubric's after that."""
    return _marking("cleanup", function, priority=priority)


@overload
def teardown(function: FunctionT) -> FunctionT: ...
@overload
def teardown(function: None = None, *, priority: int = 0) -> Callable[[FunctionT], FunctionT]: ...
def teardown(function: FunctionT | None = None, *, priority: int = 0) -> Any:
    """Marks `(self)` to run once when the environment is closed."""
    return _marking("teardown", function, priority=priority)


@overload
def reward(function: FunctionT) -> FunctionT: ...
@overload
def reward(function: None = None, *, weight: float = 1.0, priority: int = 0) -> Callable[[FunctionT], FunctionT]: ...
def reward(function: FunctionT | None = None, *, weight: float = 1.0, priority: int = 0) -> Any:
    """Marks a method as a reward of that weight; it receives by name whatever a reward function may receive."""
    return _marking("reward", function, priority=priority, weight=weight)


@overload
def metric(function: FunctionT) -> FunctionT: ...
@overload
def metric(function: None = None, *, priority: int = 0) -> Callable[[FunctionT], FunctionT]: ...
def metric(function: FunctionT | None = None, *, priority: int = 0) -> Any:
    """Marks a method as a metric: a reward of weight 0."""
    return _marking("metric", function, priority=priority, weight=0.0)


def setup(function: FunctionT | None = None, *, priority: int = 0) -> Any:
    """Marks `(self, state)` to run when a rollout is set up, after `setup_state`."""
    return _marking("setup", function, priority=priority)


def update(function: FunctionT | None = None, *, priority: int = 0) -> Any:
    """Marks `(self, state)` to run after each thing the model says."""
    return _marking("update", function, priority=priority)


def marked(owner: object, kind: str) -> list[tuple[Mark, Callable[..., Any]]]:
    """The bound methods of `owner` that are marked as `kind`, in their order."""
    found: list[tuple[Mark, Callable[..., Any]]] = []
    for name in dir(type(owner)):
        mark = getattr(getattr(type(owner), name, None), _MARK, None)
        if isinstance(mark, Mark) and mark.kind == kind:
            found.append((mark, getattr(owner, name)))
    return sorted(found, key=lambda entry: (-entry[0].priority, entry[1].__name__))
