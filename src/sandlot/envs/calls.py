"""Calls what authors wrote: by name, sync or async, never on the event loop when it may block."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any

from sandlot.engine import authors_code, in_thread


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling `function` gives something to await, seen through partials and callable objects."""
    if isinstance(function, FunctionType | MethodType):
        # `inspect` takes ten times as long to say the same, and this is asked several times in every turn.
        code = getattr(function, "__code__", None)
        if code is not None and code.co_flags & inspect.CO_COROUTINE:
            return True
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.iscoroutinefunction(function):
        return True
    return not inspect.isroutine(function) and inspect.iscoroutinefunction(type(function).__call__)


async def maybe_await(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of `function`: awaited if it is async, else computed in a thread."""
    with authors_code:
        if is_async(function):
            return await function(*args, **kwargs)
        result = await in_thread(function, *args, **kwargs)
        return await result if inspect.isawaitable(result) else result


async def call_all(functions: Sequence[Callable[..., Any]], *args: Any) -> None:
    """Calls all of them, also where one fails; the first failure is raised last."""
    failure: Exception | None = None
    for function in functions:
        try:
            await maybe_await(function, *args)
        except Exception as error:  # boundary: the author's clean-up and tear-down; the others must still run
            failure = failure or error
    if failure is not None:
        raise failure


def name_of(function: Callable[..., Any]) -> str:
    """A stable name: the function's own, that of what a partial wraps, or the class of a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None) or type(function).__name__
    return "reward" if name == "<lambda>" else str(name)


def own(environment: object, name: str) -> Any:
    """What Sandlot's classes have under `name`, whatever an author's class or attribute of that name is: many an
    environment has a `self.split = "test"` of its own, which is none of ours."""
    cls = next(
        base for base in type(environment).__mro__ if base.__module__.startswith("sandlot.") and name in vars(base)
    )
    return vars(cls)[name].__get__(environment, type(environment))


class Signature:
    """Which parameters a function takes by name."""

    def __init__(self, function: Callable[..., Any]) -> None:
        parameters = inspect.signature(function).parameters.values()
        self.takes_all = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
        named = [
            parameter
            for parameter in parameters
            if parameter.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        ]
        self.names = [parameter.name for parameter in named]
        self.required = [parameter.name for parameter in named if parameter.default is inspect.Parameter.empty]
        self.positional_only = [
            parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.POSITIONAL_ONLY
        ]

    def pick(self, available: Mapping[str, Any]) -> dict[str, Any]:
        """Of `available`, what the function takes."""
        if self.takes_all:
            return dict(available)
        return {name: available[name] for name in self.names if name in available}
