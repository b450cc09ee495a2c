"""OpenAI's chat completions as an agent program sends and reads them: whole or as a stream.

Invariants: what is no conversation is refused in a sentence; what a request says about how to draw is ignored, because
that is the run's affair; an answer says nothing of where it came from.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sandlot.errors import Invalid
from sandlot.ids import new_id
from sandlot.models import Completion
from sandlot.records import JsonObject, Messages, Tool, as_message

_SENT = ("role", "content", "reasoning_content", "refusal", "tool_calls")


@dataclass(frozen=True, slots=True)
class Asked:
    """What an agent asks for."""

    messages: Messages
    tools: list[Tool]
    stream: bool
    counts: bool
    """Whether the stream ends with how many tokens there were."""


def asked(body: bytes) -> Asked:
    """The request in `body`. `Invalid` says what is wrong with it."""
    try:
        read = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise Invalid(f"the body is not JSON: {error}") from None
    if not isinstance(read, dict):
        raise Invalid("the body is no JSON object")
    if read.get("n") not in (None, 1):
        raise Invalid(f"n is {read['n']!r}; a turn has one answer")
    options = read.get("stream_options")
    return Asked(
        messages=_messages(read.get("messages")),
        tools=_tools(read.get("tools")) if read.get("tool_choice") != "none" else [],
        stream=read.get("stream") is True,
        counts=isinstance(options, dict) and options.get("include_usage") is True,
    )


def answered(completion: Completion, model: str) -> JsonObject:
    """`completion` as the whole answer."""
    choice = {"index": 0, "message": _said(completion), "finish_reason": completion.finish, "logprobs": None}
    return {**_envelope(model, "chat.completion"), "choices": [choice], "usage": _usage(completion)}


def streamed(completion: Completion, model: str, *, counts: bool) -> Iterator[JsonObject]:
    """`completion` as the chunks of a stream."""
    envelope = _envelope(model, "chat.completion.chunk")
    said = _said(completion)
    calls = [{"index": index, **call} for index, call in enumerate(said.get("tool_calls") or [])]
    deltas: list[JsonObject] = [{"role": "assistant", "content": ""}]
    deltas += [{name: said[name]} for name in ("reasoning_content", "content", "refusal") if said.get(name)]
    deltas += [{"tool_calls": [call]} for call in calls]
    for delta in deltas:
        yield {**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**envelope, "choices": [{"index": 0, "delta": {}, "finish_reason": completion.finish}]}
    if counts:
        yield {**envelope, "choices": [], "usage": _usage(completion)}


def problem(message: str, *, kind: str) -> JsonObject:
    """An error in OpenAI's form."""
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _messages(given: Any) -> Messages:
    if not isinstance(given, list) or not given:
        raise Invalid("messages must be a list with at least one message")
    for index, message in enumerate(given):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Invalid(f"messages[{index}] has no role")
        if not isinstance(message.get("content"), str | list | None):
            raise Invalid(f"messages[{index}].content must be text or a list of parts")
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list) or not all(_is_call(call) for call in calls):
            raise Invalid(f"messages[{index}].tool_calls must be a list of function calls")
    return [as_message(message) for message in given]


def _is_call(call: Any) -> bool:
    return isinstance(call, dict) and isinstance(call.get("function"), dict)


def _tools(given: Any) -> list[Tool]:
    if given is not None and not isinstance(given, list):
        raise Invalid("tools must be a list of functions")
    return [_tool(entry, index) for index, entry in enumerate(given or [])]


def _tool(entry: Any, index: int) -> Tool:
    function = entry.get("function") if isinstance(entry, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise Invalid(f"tools[{index}] is no function with a name")
    parameters = function.get("parameters")
    if not isinstance(parameters, dict | None):
        raise Invalid(f"tools[{index}].function.parameters must be a JSON schema")
    return Tool(
        name=function["name"],
        description=str(function.get("description") or ""),
        parameters=parameters or {"type": "object", "properties": {}},
    )


def _said(completion: Completion) -> JsonObject:
    said = {name: completion.message[name] for name in _SENT if completion.message.get(name) is not None}
    return {"role": "assistant", "content": None, **said}


def _usage(completion: Completion) -> JsonObject:
    prompt, drawn = completion.usage.prompt_tokens or 0, completion.usage.completion_tokens or 0
    return {"prompt_tokens": prompt, "completion_tokens": drawn, "total_tokens": prompt + drawn}


def _envelope(model: str, kind: str) -> JsonObject:
    return {"id": f"chatcmpl-{new_id()}", "object": kind, "created": int(time.time()), "model": model}


def lines_of(events: Iterator[JsonObject] | Sequence[JsonObject]) -> Iterator[bytes]:
    """Events as they are sent, the end of the stream included."""
    for event in events:
        yield b"data: " + msgspec.json.encode(event) + b"\n\n"
    yield b"data: [DONE]\n\n"
