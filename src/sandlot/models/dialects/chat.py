"""OpenAI's chat completions, as the many servers that speak them really do.

Invariants: what an answer leaves out or adds does no harm; a number that is missing is None and never 0; the text that
was sampled is not altered; token ids and log-probabilities are taken from the answer or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from sandlot.models.dialects.chat_stream import ChatAssembly
from sandlot.models.dialects.counts import cost_of, count, count_in
from sandlot.models.dialects.dialect import Assembly, Dialect
from sandlot.models.dialects.native import NATIVE, unsendable
from sandlot.models.dialects.parts import arguments_text
from sandlot.models.endpoint import Endpoint
from sandlot.models.model import Completion
from sandlot.records import AssistantMessage, JsonObject, Message, Sampling, Tokens, Tool, Usage, text_of

_FINISH = {
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_length": "length",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
}
"""Other servers' words for the four reasons."""
_BROKEN = frozenset({"error", "abort"})
_KEPT = ("refusal", "reasoning_details", "thinking_blocks", "audio")
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "seed", "logprobs")
_TOKEN_ID = "token_id:"
_UNSENT = frozenset({"content", NATIVE})


class _Chat(Dialect):
    path = "/chat/completions"

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder().encode

    def request(
        self, endpoint: Endpoint, messages: Sequence[Message], *, tools: Sequence[Tool], sampling: Sampling
    ) -> bytes:
        body: JsonObject = {"model": endpoint.model, "messages": [_sent(message) for message in messages]}
        if tools:
            body["tools"] = [{"type": "function", "function": tool} for tool in tools]
        body.update(sampling_fields(endpoint, sampling))
        if endpoint.stream:
            body.update(stream=True, stream_options={"include_usage": True, **body.get("stream_options", {})})
        try:
            return self._encode(body)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise unsendable(messages, error) from error

    def completion(self, endpoint: Endpoint, body: JsonObject) -> Completion | None:
        choices = body.get("choices")
        if not isinstance(choices, list) or not choices:
            return None
        choice = choices[0]
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            raise ValueError("a choice without a message")
        finish = choice.get("finish_reason")
        finish = finish if isinstance(finish, str) else ""
        if finish in _BROKEN or choice.get("error"):
            raise ValueError(f"the model was cut off, finish_reason {finish!r}")
        said = said_message(message, call_prefix=str(body.get("id") or "call"))
        if not finish:
            finish = "tool_calls" if said.get("tool_calls") else "stop"
        counts = body.get("usage")
        usage = usage_of(counts)
        details = counts.get("prompt_tokens_details") if isinstance(counts, dict) else None
        return Completion(
            message=said,
            finish=_FINISH.get(finish.lower(), finish.lower()),
            usage=usage,
            tokens=_tokens(body, choice),
            cost=cost_of(endpoint, usage, written=count_in(details, "cache_write_tokens")),
            raw=body,
        )

    def assembly(self) -> Assembly:
        return ChatAssembly()


CHAT: Dialect = _Chat()


def sampling_fields(endpoint: Endpoint, sampling: Sampling) -> JsonObject:
    """The body's fields that say how to draw, the endpoint's and the sampling's `extra` merged last.

    An `extra_body` inside `extra` is merged too, as OpenAI's own client does with it.
    """
    fields: JsonObject = {}
    for name in _SAMPLING:
        value = getattr(sampling, name)
        if value is not None:
            fields[name] = value
    if sampling.max_tokens is not None:
        fields[_max_tokens_name(endpoint)] = sampling.max_tokens
    if sampling.stop:
        fields["stop"] = sampling.stop
    for extra in (endpoint.extra, sampling.extra):
        for name, value in extra.items():
            if name == "extra_body":
                fields.update(value or {})
            else:
                fields[name] = value
    return fields


def said_message(message: Mapping[str, Any], *, call_prefix: str) -> AssistantMessage:
    """What the model said. The content is always text, empty where the endpoint sends null."""
    content = message.get("content")
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(content, list):
        reasoning = reasoning or _thinking(content)
        content = text_of([part for part in content if isinstance(part, dict) and part.get("type") != "thinking"])
    elif content is not None and not isinstance(content, str):
        raise ValueError(f"a content that is neither text nor parts but {type(content).__name__}")
    said = AssistantMessage(content=content or "")
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        said = AssistantMessage(content=content or "", tool_calls=_calls(calls, call_prefix))
    if isinstance(reasoning, str) and reasoning:
        said["reasoning_content"] = reasoning
    for name in _KEPT:
        if message.get(name):
            said[name] = message[name]
    return said


def usage_of(usage: Any) -> Usage:
    """The counts in an answer's `usage`; what it does not say is None."""
    if not isinstance(usage, dict):
        return Usage()
    return Usage(
        prompt_tokens=count(usage.get("prompt_tokens")),
        completion_tokens=count(usage.get("completion_tokens")),
        reasoning_tokens=count_in(usage.get("completion_tokens_details"), "reasoning_tokens"),
        cached_tokens=count_in(usage.get("prompt_tokens_details"), "cached_tokens"),
    )


def _sent(message: Message) -> Mapping[str, Any]:
    if message.get("tool_calls") and message.get("content") == "":
        # Strict providers refuse an empty text beside calls; leaving it out means the same everywhere.
        return {name: value for name, value in message.items() if value is not None and name not in _UNSENT}
    if None in message.values() or NATIVE in message:
        return {name: value for name, value in message.items() if value is not None and name != NATIVE}
    return message


def _max_tokens_name(endpoint: Endpoint) -> str:
    if endpoint.max_tokens_name is not None:
        return endpoint.max_tokens_name
    # OpenAI's reasoning models refuse the old name; many other servers ignore the new one.
    return "max_completion_tokens" if endpoint.host == "api.openai.com" else "max_tokens"


def _calls(calls: Sequence[Any], prefix: str) -> list[JsonObject]:
    """The calls, each with an id of its own: results are matched by it, and some servers send none or one twice."""
    read: list[JsonObject] = []
    seen: set[str] = set()
    for index, call in enumerate(calls):
        one = _call(call, f"{prefix}-{index}")
        if one["id"] in seen:
            one["id"] = f"{one['id']}-{index}"
        seen.add(one["id"])
        read.append(one)
    return read


def _call(call: Any, fallback_id: str) -> JsonObject:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise ValueError("a tool call without a function")
    name, arguments = function.get("name"), arguments_text(function.get("arguments"))
    return {
        "id": str(call.get("id") or fallback_id),
        "type": "function",
        "function": {"name": name if isinstance(name, str) else "", "arguments": arguments},
    }


def _thinking(parts: Iterable[Any]) -> str:
    thoughts = (part.get("thinking") for part in parts if isinstance(part, dict) and part.get("type") == "thinking")
    return "".join(text_of(thought) for thought in thoughts)


def _tokens(body: JsonObject, choice: JsonObject) -> Tokens | None:
    content = _logprob_content(choice)
    prompt = _ids(body.get("prompt_token_ids")) or _ids(choice.get("prompt_token_ids"))
    sampled = _ids(choice.get("token_ids"))
    if sampled is None and content:  # vLLM with return_tokens_as_token_ids
        sampled = _ids([_id_in_text(entry.get("token")) for entry in content])
    if prompt is None or sampled is None:
        return None
    logprobs: list[float | None] = [_logprob(entry.get("logprob")) for entry in content]
    if len(logprobs) != len(sampled):  # Numbers that do not line up with the tokens are worse than none.
        logprobs = [None] * len(sampled)
    return Tokens(prompt=prompt, sampled=sampled, logprobs=logprobs)


def _logprob_content(choice: JsonObject) -> list[JsonObject]:
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list):
        return []
    return [entry if isinstance(entry, dict) else {} for entry in content]


def _ids(value: Any) -> list[int] | None:
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        return None
    return value


def _id_in_text(token: Any) -> int | None:
    text = token.removeprefix(_TOKEN_ID) if isinstance(token, str) and token.startswith(_TOKEN_ID) else ""
    return int(text) if text.isdecimal() else None


def _logprob(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
