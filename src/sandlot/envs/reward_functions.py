"""One function of a rubric: what it is called, what it may name, and whether it judges a task's rollouts together.

Invariants: what a function requires and nothing will fill is refused before anything is played.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from sandlot.config import nearest
from sandlot.envs.calls import Signature, is_async
from sandlot.errors import Invalid

RewardFunc = Callable[..., float | Awaitable[float]]
GroupRewardFunc = Callable[..., list[float] | Awaitable[list[float]]]

STANDARD = ("prompt", "completion", "answer", "info", "state", "task", "rollout", "parser", "example_id")
"""What a reward function may name besides columns, the rubric's class objects and what the judge adds."""
PLURAL = {
    "prompts": "prompt",
    "completions": "completion",
    "answers": "answer",
    "infos": "info",
    "states": "state",
    "tasks": "task",
    "rollouts": "rollout",
}


class RewardFunction:
    """One function of a rubric, with what is known of it."""

    def __init__(self, function: Callable[..., Any], *, weight: float, name: str) -> None:
        self.function = function
        self.weight = weight
        self.name = name
        self.signature = Signature(function)
        self.is_async = is_async(function)
        self.is_group = any(name in PLURAL for name in self.signature.required) or _returns_list(function)
        self.description = (inspect.getdoc(function) or "").partition("\n")[0]

    def check(self, available: Iterable[str]) -> None:
        """`Invalid` if the function requires a parameter that nothing will fill."""
        if self.signature.positional_only:
            raise Invalid(
                f"reward function {self.name!r} has positional-only parameters; they are passed by name",
                hint="remove the '/' from its signature",
            )
        known = {*available, *STANDARD, *(PLURAL if self.is_group else ())}
        missing = [name for name in self.signature.required if name not in known]
        if missing:
            near = nearest(missing[0], sorted(known))
            meant = f" (did you mean {near!r}?)" if near else ""
            raise Invalid(
                f"reward function {self.name!r} requires {', '.join(map(repr, missing))}, "
                f"and there is no such value{meant}",
                hint=f"it can name {', '.join(sorted(known))}",
            )


def _returns_list(function: Callable[..., Any]) -> bool:
    annotation = getattr(function, "__annotations__", {}).get("return")
    if isinstance(annotation, str):
        return annotation.startswith(("list", "List", "Sequence"))
    return annotation is list or typing.get_origin(annotation) is list
