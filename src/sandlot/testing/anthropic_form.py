"""Anthropic's Messages, from the endpoint's side."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from sandlot.records import JsonObject, text_of
from sandlot.testing.form import Event, Form, Saying, words

_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_KINDS |= {413: "request_too_large", 529: "overloaded_error"}

_HOLLOW: dict[str, JsonObject] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}
"""What a block of each kind begins with in a stream."""


class AnthropicForm(Form):
    """`/messages`."""

    path = "/messages"
    overlong = "prompt is too long: 210000 tokens > 200000 maximum"

    def key_in(self, headers: Mapping[str, str]) -> str | None:
        """See `Form`."""
        return headers.get("x-api-key")

    def wrong(self, body: JsonObject, headers: Mapping[str, str]) -> str | None:
        """See `Form`."""
        if "anthropic-version" not in headers:
            return "anthropic-version: header is required"
        if not isinstance(body.get("max_tokens"), int):
            return "max_tokens: Field required"
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            return "messages: at least one message is required"
        for name in ("stop", "seed", "max_completion_tokens"):
            if name in body:
                return f"{name}: Extra inputs are not permitted"
        return next((words for index in range(len(messages)) if (words := _wrong_turn(messages, index))), None)

    def messages(self, body: JsonObject) -> list[JsonObject]:
        """See `Form`."""
        said: list[JsonObject] = []
        if body.get("system"):
            said.append({"role": "system", "content": _content(body["system"])})
        for message in body["messages"]:
            said += _turn(message)
        return said

    def answer(self, body: JsonObject, saying: Saying) -> JsonObject:
        """See `Form`."""
        usage = saying.usage
        cached = usage.cached_tokens or 0
        counts: JsonObject = {
            "input_tokens": (usage.prompt_tokens or 0) - cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached,
            "output_tokens": usage.completion_tokens or 0,
        }
        if usage.reasoning_tokens is not None:
            counts["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
        return {
            "id": "msg_mock",
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": _blocks(saying),
            "stop_reason": _STOPS.get(saying.finish, saying.finish),
            "stop_sequence": None,
            "usage": counts,
        }

    def events(self, body: JsonObject, answer: JsonObject) -> Iterator[Event]:
        """See `Form`."""
        begun = {**answer, "content": [], "stop_reason": None, "usage": {**answer["usage"], "output_tokens": 1}}
        yield "message_start", {"type": "message_start", "message": begun}
        yield "ping", {"type": "ping"}
        for index, block in enumerate(answer["content"]):
            yield from _block_events(index, block)
        delta = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
        usage = {"output_tokens": answer["usage"]["output_tokens"]}
        yield "message_delta", {"type": "message_delta", "delta": delta, "usage": usage}
        yield "message_stop", {"type": "message_stop"}

    def error(self, status: int, message: str, code: str | None = None) -> JsonObject:
        """See `Form`."""
        kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_mock"}

    def empty(self) -> JsonObject:
        """See `Form`."""
        return {"id": "msg_mock", "type": "message", "role": "assistant", "stop_reason": "end_turn"}


def _wrong_turn(messages: list[Any], index: int) -> str | None:
    """What is wrong with a message where it stands: an empty text, or a call and its result apart."""
    blocks = _list(messages[index]["content"])
    if any(block.get("type") == "text" and not block.get("text", "").strip() for block in blocks):
        return f"messages.{index}: text content blocks must contain non-whitespace text"
    if not blocks and not (index == len(messages) - 1 and messages[index]["role"] == "assistant"):
        return f"messages.{index}: all messages must have non-empty content"
    asked = [block["id"] for block in _before(messages, index) if block.get("type") == "tool_use"]
    called = set(asked)
    if len(called) < len(asked):
        return f"messages.{index - 1}: `tool_use` ids must be unique: {asked}"
    results = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
    for id_ in results:
        if id_ not in called:
            return f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {id_}"
    missing = sorted(called - set(results))
    if missing:
        return f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {missing}"
    if results and any(block.get("type") != "tool_result" for block in blocks[: len(results)]):
        return f"messages.{index}: `tool_result` blocks must stand first"
    return None


def _before(messages: list[Any], index: int) -> list[JsonObject]:
    return _list(messages[index - 1]["content"]) if index and messages[index - 1]["role"] == "assistant" else []


def _list(content: Any) -> list[JsonObject]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _turn(message: JsonObject) -> list[JsonObject]:
    """A message as chat's messages: one for each result, and one for the rest."""
    blocks = _list(message["content"])
    said = [
        {"role": "tool", "content": _content(block["content"]), "tool_call_id": block["tool_use_id"]}
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    rest = [block for block in blocks if block.get("type") in ("text", "image")]
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": msgspec.json.encode(block["input"]).decode()},
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    if rest or calls or not said:
        made = {"role": message["role"], "content": _content(rest)}
        said.append({**made, "tool_calls": calls} if calls else made)
    return said


def _content(content: Any) -> Any:
    blocks = _list(content)
    if all(block.get("type") == "text" for block in blocks):
        return "".join(block["text"] for block in blocks)
    return [block if block.get("type") == "text" else _image(block) for block in blocks]


def _image(block: JsonObject) -> JsonObject:
    source = block["source"]
    url = source.get("url") or f"data:{source['media_type']};base64,{source['data']}"
    return {"type": "image_url", "image_url": {"url": url}}


def _blocks(saying: Saying) -> list[JsonObject]:
    message = saying.message
    blocks: list[JsonObject] = []
    thought = message.get("reasoning_content")
    if thought:
        signature = base64.b64encode(f"signed {thought}".encode()).decode()
        blocks.append({"type": "thinking", "thinking": thought, "signature": signature})
    text = text_of(message.get("content"))
    if text:
        blocks.append({"type": "text", "text": text, "citations": None})
    for call in message.get("tool_calls") or ():
        arguments = msgspec.json.decode(call["function"]["arguments"] or "{}")
        blocks.append({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": arguments})
    return blocks


def _block_events(index: int, block: JsonObject) -> Iterator[Event]:
    opened = {**block, **_HOLLOW[block["type"]]}
    yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": opened}
    deltas: list[JsonObject] = []
    match block["type"]:
        case "text":
            deltas = [{"type": "text_delta", "text": word} for word in words(block["text"])]
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": word} for word in words(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "tool_use":
            pieces = words(msgspec.json.encode(block["input"]).decode())
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces]]
    for delta in deltas:
        yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": index}
