"""Tools made of functions: what the model sees of them, and how its calls are answered.

Invariants: one message for every call, in the order of the calls, whatever fails; an unknown tool, arguments that are
not a JSON object and a tool that raises are answered with a message, identically in evaluation and in training;
optional parameters stay optional; a blocking tool runs in a thread.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from pydantic import ConfigDict, Field, create_model

from sandlot.engine import authors_code, text_of_error
from sandlot.envs.calls import maybe_await, name_of
from sandlot.errors import InfraError, Invalid, ToolCallError, ToolParseError
from sandlot.records import JsonObject, Message, Tool, ToolCall, ToolMessage, as_message, storable_text

ErrorFormatter = Callable[[Exception], str]

_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
_PARAMETER = re.compile(
    r"^\s*(?::param\s+(?:[^:]*\s)?(?P<sphinx>\w+)\s*:\s*(?P<sphinx_text>.*)"
    r"|(?P<google>\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s+(?P<google_text>.*)"
    r"|(?P<numpy>\w+)\s+:\s+\S.*)$"
)
_SECTION = re.compile(r"^\s*(Args|Arguments|Parameters|Returns|Return|Raises|Yields|Examples?|Notes?)\s*:?\s*$")


def tool_of(function: Callable[..., Any], *, hidden: Sequence[str] = ()) -> Tool:
    """The tool that `function` is: its name, the first paragraph of its docstring, and a JSON schema of its
    parameters. `hidden` ones are left out: they are filled in at call time. The function itself is not changed.

    `Invalid` if its name is none that chat endpoints take, or a parameter cannot be passed by name.
    """
    name = name_of(function)
    if not _NAME.match(name):
        raise Invalid(f"{name!r} is not a tool name", hint="use letters, digits, '_' and '-', at most 64")
    unknown = [each for each in hidden if each not in inspect.signature(function).parameters]
    if unknown:
        raise Invalid(f"tool {name!r} has no parameter {unknown[0]!r} that could be hidden")
    summary, descriptions = _docstring(function)
    hints = _hints(function)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in hidden or parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        if parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL):
            raise Invalid(f"tool {name!r}: parameter {parameter.name!r} cannot be passed by name")
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (
            hints.get(parameter.name, Any),
            Field(default, description=descriptions.get(parameter.name)),
        )
    try:
        model = create_model(name, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=True), **fields)
        schema = _plain(model.model_json_schema())
    except Exception as error:  # boundary: pydantic, over whatever types the author annotated with
        raise Invalid(f"tool {name!r}: no JSON schema can be made of its parameters: {error}") from error
    return Tool(name=name, description=summary, parameters=schema)


def as_tool(definition: Tool | Mapping[str, Any]) -> Tool:
    """A tool from a `Tool` or from the form that chat endpoints take."""
    if isinstance(definition, Tool):
        return definition
    body = definition.get("function", definition)
    known = {name: body[name] for name in Tool.__struct_fields__ if name in body}
    return msgspec.convert(known, Tool)


def message_of(result: Any, call_id: str) -> Message:
    """The message that tells the model what a tool returned: content parts as they are, everything else as text."""
    is_parts = isinstance(result, list) and all(isinstance(part, dict) and "type" in part for part in result)
    return ToolMessage(tool_call_id=call_id, content=result if result and is_parts else _text(result))


class Toolbox:
    """The tools of an environment, by name."""

    def __init__(
        self,
        functions: Sequence[Callable[..., Any]] = (),
        *,
        error_formatter: ErrorFormatter = str,
        stop_errors: Sequence[type[Exception]] = (),
    ) -> None:
        self.error_formatter = error_formatter
        self.stop_errors = tuple(stop_errors)
        self.functions: dict[str, Callable[..., Any]] = {}
        self.tools: dict[str, Tool] = {}
        for function in functions:
            self.add(function)

    def add(self, function: Callable[..., Any], *, hidden: Sequence[str] = ()) -> None:
        """Adds a tool. `Invalid` if there is one of that name."""
        tool = tool_of(function, hidden=hidden)
        if tool.name in self.tools:
            raise Invalid(f"there are two tools named {tool.name!r}")
        self.tools[tool.name] = tool
        self.functions[tool.name] = function

    def remove(self, function: Callable[..., Any] | str) -> None:
        """Takes a tool out again."""
        name = function if isinstance(function, str) else name_of(function)
        del self.tools[name], self.functions[name]

    async def answer(
        self,
        message: Mapping[str, Any],
        *,
        fill: Callable[..., Any] | None = None,
        by: Callable[..., Any] | None = None,
    ) -> list[Message]:
        """One tool message for each call of `message`, in order; the calls run at once.

        `fill(name, arguments)` may change the arguments before the call, and `by(name, arguments, id)` gives the
        message in place of the tool itself. An error of one of `stop_errors` is raised as `ToolParseError` or
        `ToolCallError` and ends the rollout; every other one is told to the model.
        """
        calls = [ToolCall(call) for call in message.get("tool_calls") or []]
        return list(await asyncio.gather(*(self._answer(call, fill, by) for call in calls)))

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """What the tool returns. `Invalid` if there is none of that name."""
        if name not in self.functions:
            raise Invalid(f"unknown tool {name!r}; there {_are(list(self.functions))}")
        return await maybe_await(self.functions[name], **arguments)

    async def _answer(self, call: ToolCall, fill: Callable[..., Any] | None, by: Callable[..., Any] | None) -> Message:
        try:
            arguments = self._arguments(call)
        except Invalid as error:
            return self._told(call, error, ToolParseError)
        try:
            if fill is not None:
                arguments = await maybe_await(fill, call.name, arguments)
            if by is not None:
                return as_message(await maybe_await(by, call.name, arguments, call.id))
            return message_of(await self.call(call.name, arguments), call.id)
        except Exception as error:  # boundary: the author's tool
            return self._told(call, error, ToolCallError)

    def _arguments(self, call: ToolCall) -> JsonObject:
        if call.name not in self.functions:
            raise Invalid(f"unknown tool {call.name!r}; there {_are(list(self.functions))}")
        text = call.arguments
        try:
            arguments = json.loads(text) if isinstance(text, str) else text
        except ValueError as error:
            raise Invalid(f"the arguments of {call.name} are not valid JSON: {error}") from None
        if not isinstance(arguments, dict):
            raise Invalid(f"the arguments of {call.name} must be a JSON object, not {type(arguments).__name__}")
        return arguments

    def _told(self, call: ToolCall, error: Exception, kind: type[Exception]) -> Message:
        if isinstance(error, self.stop_errors):
            if isinstance(error, InfraError):
                raise error  # A failure of what the tool stands on stays one, so that the rollout is played again.
            raise kind(text_of_error(error)) from error
        said = text_of_error(error) if self.error_formatter is str else self.error_formatter(error)
        text = storable_text(said) or type(error).__name__
        return ToolMessage(tool_call_id=call.id, content=text)


def _text(result: Any) -> str:
    with authors_code:
        return storable_text(result if isinstance(result, str) else str(result))


def _are(names: Sequence[str]) -> str:
    return f"are: {', '.join(names)}" if names else "are none"


def _plain(schema: JsonObject) -> JsonObject:
    """A schema without the titles that pydantic adds and no model needs."""
    if isinstance(schema, dict):
        return {
            key: _plain(value) if key != "properties" else {name: _plain(each) for name, each in value.items()}
            for key, value in schema.items()
            if key != "title"
        }
    return schema


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The parameters' types; where a name in them cannot be found, as `sandbox_client: Client` under a
    `TYPE_CHECKING` import, those that can be told one by one."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError:
        known: dict[str, Any] = {}
        for name, hint in function.__annotations__.items():
            try:
                known[name] = eval(hint, function.__globals__) if isinstance(hint, str) else hint
            except NameError:  # A type that is imported for the type checker alone says nothing here.
                known[name] = Any
        return known


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The first paragraph, and the description of each parameter in Google, NumPy or Sphinx form."""
    lines = (inspect.getdoc(function) or "").splitlines()
    summary: list[str] = []
    for line in lines:
        if not line.strip() or _SECTION.match(line) or line.lstrip().startswith(":param"):
            break
        summary.append(line.strip())
    descriptions: dict[str, str] = {}
    section, current = "", ""
    for line in lines[len(summary) :]:
        heading = _SECTION.match(line)
        if heading:
            section, current = heading.group(1), ""
            continue
        match = _PARAMETER.match(line)
        if match and (match.group("sphinx") or section in ("Args", "Arguments", "Parameters")):
            current = match.group("sphinx") or (match.group("google") or "").lstrip("*") or match.group("numpy")
            descriptions[current] = (match.group("sphinx_text") or match.group("google_text") or "").strip()
        elif current and line.strip() and not set(line.strip()) <= {"-"}:
            descriptions[current] = f"{descriptions[current]} {line.strip()}".strip()
    return " ".join(summary), descriptions
