"""The OpenAI-compatible HTTP forms that the server takes, checked, and the forms it answers with.

Invariants: a field that would change the answer and is not served is refused by name, never ignored; unknown fields
without effect pass, because clients send many.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from sandlot.errors import Invalid
from sandlot.ids import new_id
from sandlot.inference.sampler import Sampled
from sandlot.records import JsonObject, Message, Sampling, Tool, as_message

RequestT = TypeVar("RequestT", bound="Request")
_MOST_CHOICES = 128


class StreamOptions(msgspec.Struct, frozen=True):
    """What a stream carries besides the text."""

    include_usage: bool = False


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that chat and text completions share."""

    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    n: int = 1
    stream: bool = False
    stream_options: StreamOptions | None = None
    return_token_ids: bool = False
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    top_logprobs: int | None = None

    def check(self) -> None:
        """`Invalid` names the first field that asks for what is not served."""
        neutral = (
            ("frequency_penalty", self.frequency_penalty in (None, 0)),
            ("presence_penalty", self.presence_penalty in (None, 0)),
            ("repetition_penalty", self.repetition_penalty in (None, 1)),
            ("logit_bias", not self.logit_bias),
            ("top_logprobs", not self.top_logprobs),
        )
        for name, fine in neutral:
            if not fine:
                raise Invalid(f"{name} is not served by this server", hint="leave it out")
        if not 1 <= self.n <= _MOST_CHOICES:
            raise Invalid(f"n must be between 1 and {_MOST_CHOICES}, found {self.n}")

    def stops(self) -> list[str]:
        """The stop strings."""
        return [self.stop] if isinstance(self.stop, str) else [text for text in self.stop or [] if text]

    def sampling(self, index: int) -> Sampling:
        """How to draw the choice `index`: each has its own seed where a seed is given."""
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            max_tokens=self.max_tokens,
            stop=self.stops(),
            seed=None if self.seed is None else self.seed + index,
        )


class _Function(msgspec.Struct, frozen=True):
    name: str
    description: str | None = None
    parameters: JsonObject | None = None


class _Tool(msgspec.Struct, frozen=True):
    function: _Function
    type: str = "function"


class ChatRequest(Request, frozen=True, kw_only=True):
    """The body of `POST /v1/chat/completions`."""

    messages: list[JsonObject]
    tools: list[_Tool] = []
    tool_choice: Any = None
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    response_format: Any = None

    def check(self) -> None:
        """`Invalid` names the first field that is wrong, or asks for what is not served."""
        super().check()
        if not self.messages:
            raise Invalid("messages must have at least one message")
        for index, message in enumerate(self.messages):
            if not isinstance(message.get("role"), str):
                raise Invalid(f"messages[{index}] has no role")
            if not isinstance(message.get("content"), str | list | None):
                raise Invalid(f"messages[{index}].content must be text or a list of parts")
            calls = message.get("tool_calls") or []
            if not isinstance(calls, list) or not all(_is_call(call) for call in calls):
                raise Invalid(f"messages[{index}].tool_calls must be a list of function calls")
        if self.tool_choice not in (None, "auto", "none"):
            raise Invalid("tool_choice is served as 'auto' or 'none' only")
        if self.response_format not in (None, {"type": "text"}):
            raise Invalid("response_format is served as text only")

    def conversation(self) -> list[Message]:
        """The messages."""
        return [as_message(message) for message in self.messages]

    def offered(self) -> list[Tool]:
        """The tools that the model may call."""
        if self.tool_choice == "none":
            return []
        return [
            Tool(
                name=tool.function.name,
                description=tool.function.description or "",
                parameters=tool.function.parameters or {"type": "object", "properties": {}},
            )
            for tool in self.tools
        ]

    def sampling(self, index: int) -> Sampling:
        """How to draw the choice `index`."""
        own = super().sampling(index)
        return (
            own
            if self.max_completion_tokens is None
            else msgspec.structs.replace(own, max_tokens=self.max_completion_tokens)
        )


class TextRequest(Request, frozen=True, kw_only=True):
    """The body of `POST /v1/completions`. A prompt is text, or the ids of tokens."""

    prompt: str | list[int]
    logprobs: int | bool | None = None
    echo: bool = False
    suffix: str | None = None

    def check(self) -> None:
        """`Invalid` names the first field that is wrong, or asks for what is not served."""
        super().check()
        if self.echo or self.suffix:
            raise Invalid("echo and suffix are not served by this server", hint="leave them out")


def decoded(body: bytes, kind: type[RequestT]) -> RequestT:
    """`body` as a checked request. `Invalid` says where it is wrong."""
    try:
        request = msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise Invalid(str(error)) from None
    except msgspec.DecodeError as error:
        raise Invalid(f"the body is not JSON: {error}") from None
    request.check()
    return request


def _is_call(call: Any) -> bool:
    return isinstance(call, dict) and isinstance(call.get("function"), dict)


class Envelope:
    """The fields that every part of one answer repeats."""

    def __init__(self, kind: str, model: str) -> None:
        prefix, self.object = ("chatcmpl", "chat.completion") if kind == "chat" else ("cmpl", "text_completion")
        self.fields: JsonObject = {"id": f"{prefix}-{new_id()}", "created": int(time.time()), "model": model}

    def whole(self, choices: Sequence[JsonObject], usage: JsonObject) -> JsonObject:
        """An answer that is not streamed."""
        return {**self.fields, "object": self.object, "choices": list(choices), "usage": usage}

    def part(self, choices: Sequence[JsonObject], usage: JsonObject | None = None) -> JsonObject:
        """One event of a stream."""
        kind = "chat.completion.chunk" if self.object == "chat.completion" else self.object
        return {**self.fields, "object": kind, "choices": list(choices)} | ({} if usage is None else {"usage": usage})


def usage_fields(prompt: int, drawn: int) -> JsonObject:
    """The counts of tokens of one answer."""
    return {"prompt_tokens": prompt, "completion_tokens": drawn, "total_tokens": prompt + drawn}


def chat_logprobs(sampled: Sampled, pieces: Sequence[str]) -> JsonObject:
    """The log-probabilities of a chat choice."""
    return {
        "content": [
            {"token": piece, "logprob": logprob, "bytes": list(piece.encode()), "top_logprobs": []}
            for piece, logprob in zip(pieces, sampled.logprobs, strict=True)
        ]
    }


def text_logprobs(sampled: Sampled, pieces: Sequence[str]) -> JsonObject:
    """The log-probabilities of a text choice."""
    offsets = [sum(map(len, pieces[:index])) for index in range(len(pieces))]
    return {
        "tokens": list(pieces),
        "token_logprobs": sampled.logprobs,
        "top_logprobs": None,
        "text_offset": offsets,
    }


def problem(message: str, *, kind: str = "invalid_request_error", code: str | None = None) -> JsonObject:
    """An error in OpenAI's form."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
