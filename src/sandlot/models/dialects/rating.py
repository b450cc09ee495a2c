"""Reward models as vLLM serves them: a conversation goes in, one number comes out, as the text of a message.

Invariants: an answer that is not exactly one finite number is no completion, and never 0; nothing is sampled, so what a
sampling asks for beside further fields of the body is an error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from sandlot.errors import Error, Invalid
from sandlot.models.dialects.chat import usage_of
from sandlot.models.dialects.counts import cost_of
from sandlot.models.dialects.dialect import Assembly, Dialect
from sandlot.models.dialects.native import encoded, without_native
from sandlot.models.endpoint import Endpoint
from sandlot.models.model import Completion
from sandlot.records import AssistantMessage, JsonObject, Message, Sampling, Tool, text_of

_DRAWING = ("temperature", "top_p", "top_k", "min_p", "max_tokens", "stop", "logprobs")
"""What a sampling may ask for and only a model that draws can give. A rollout's seed is left out, as elsewhere."""


class _Rating(Dialect):
    """`field` is where an entry of the answer's `data` holds what the model gave."""

    def __init__(self, path: str, field: str) -> None:
        self.path = path
        self.field = field

    def check(self, endpoint: Endpoint, sampling: Sampling) -> None:
        asked = next((name for name in _DRAWING if getattr(sampling, name) not in (None, [])), None)
        if asked is not None:
            raise Invalid(f"{endpoint} gives a number and draws nothing: {asked} has no meaning there")

    def request(
        self, endpoint: Endpoint, messages: Sequence[Message], *, tools: Sequence[Tool], sampling: Sampling
    ) -> bytes:
        self.check(endpoint, sampling)
        return encoded({"model": endpoint.model, **self.shown(messages), **endpoint.extra, **sampling.extra}, messages)

    def shown(self, messages: Sequence[Message]) -> JsonObject:
        """The fields in which the conversation stands."""
        return {"messages": without_native(messages)}

    def completion(self, endpoint: Endpoint, body: JsonObject) -> Completion | None:
        entries = body.get("data")
        if not isinstance(entries, list) or not entries:
            return None
        if len(entries) != 1 or not isinstance(entries[0], dict):
            raise ValueError(f"{len(entries)} entries for one conversation")
        number = _only(entries[0].get(self.field), self.field)
        usage = usage_of(body.get("usage"))
        usage = msgspec.structs.replace(usage, completion_tokens=usage.completion_tokens or 0)
        message = AssistantMessage(content=repr(number))
        return Completion(message=message, usage=usage, cost=cost_of(endpoint, usage), raw=body)

    def assembly(self) -> Assembly:
        return _NoEvents()


class _Pair(_Rating):
    """The last answer of the conversation beside everything before it, as two texts."""

    def shown(self, messages: Sequence[Message]) -> JsonObject:
        if not messages or messages[-1].get("role") != "assistant":
            raise Error("a pair is scored, and the conversation does not end in an assistant's message")
        *before, answer = [text_of(message.get("content")) for message in messages]
        return {"text_1": "\n\n".join(text for text in before if text), "text_2": answer}


class _NoEvents(Assembly):
    def add(self, piece: JsonObject) -> None:
        raise ValueError("events, where one number was expected")

    def body(self) -> JsonObject | None:
        return None


CLASSIFY: Dialect = _Rating("/classify", "probs")
POOLING: Dialect = _Rating("/pooling", "data")
SCORE: Dialect = _Pair("/score", "score")


def _only(value: Any, field: str) -> float:
    """The number in `value`: itself, the only one of a list, or that of the last token where each token has one."""
    if isinstance(value, list) and value and isinstance(value[-1], list):
        value = value[-1]
    if isinstance(value, list):
        if len(value) != 1:
            raise ValueError(f"{len(value)} numbers in {field!r}; a reward model gives one")
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"no finite number in {field!r}")
    return float(value)
