"""Anthropic's Messages, as Anthropic and the servers that follow it speak them.

Invariants: signed thinking goes back exactly as it came, before what was said after it; every call's result stands
first in the message that follows; arguments that are no JSON object stay what the model wrote, in the record and on the
wire; a seed is not sent, because the form has no place for one.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sandlot.models.dialects.anthropic_stream import AnthropicAssembly
from sandlot.models.dialects.counts import cost_of, count, count_in
from sandlot.models.dialects.dialect import Assembly, Dialect
from sandlot.models.dialects.native import encoded, inexpressible, is_unchanged, keep_native, native_items
from sandlot.models.dialects.parts import (
    calls_of,
    further_fields,
    image_url,
    inlined,
    object_in,
    parts_of,
    refuse_sampling,
)
from sandlot.models.endpoint import Endpoint
from sandlot.models.model import Completion
from sandlot.records import AssistantMessage, JsonObject, Message, Sampling, Tool, Usage

MAX_TOKENS = 8192
"""What a completion may have where nothing was asked for: the form demands a number."""

_NAME = "anthropic_messages"
_VERSION = "2023-06-01"
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_ORDER = ("thinking", "redacted_thinking", "text", "tool_use")
_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_CHOICES = {"auto": "auto", "required": "any", "none": "none"}


class _Anthropic(Dialect):
    path = "/messages"

    def headers(self, secret: str | None) -> dict[str, str]:
        return {"anthropic-version": _VERSION, **({"x-api-key": secret} if secret else {})}

    def check(self, endpoint: Endpoint, sampling: Sampling) -> None:
        _sampling_fields(endpoint, sampling)

    def request(
        self, endpoint: Endpoint, messages: Sequence[Message], *, tools: Sequence[Tool], sampling: Sampling
    ) -> bytes:
        system, said = _turns(messages)
        body: JsonObject = {"model": endpoint.model, "max_tokens": MAX_TOKENS, "messages": said}
        if system:
            body["system"] = system[0]["text"] if len(system) == 1 and len(system[0]) == 2 else system
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
        body.update(_sampling_fields(endpoint, sampling))
        if endpoint.stream:
            body["stream"] = True
        return encoded(body, messages)

    def completion(self, endpoint: Endpoint, body: JsonObject) -> Completion | None:
        content = body.get("content")
        if body.get("type") == "error" or not isinstance(content, list):
            return None
        reason = body.get("stop_reason")
        if not isinstance(reason, str):
            raise ValueError("a message without a stop_reason")
        counts = body.get("usage")
        usage = _usage(counts)
        return Completion(
            message=_said(content),
            finish=_FINISH.get(reason, reason),
            usage=usage,
            cost=cost_of(endpoint, usage, written=count_in(counts, "cache_creation_input_tokens")),
            raw=body,
        )

    def assembly(self) -> Assembly:
        return AnthropicAssembly()


ANTHROPIC: Dialect = _Anthropic()


def _turns(messages: Sequence[Message]) -> tuple[list[JsonObject], list[JsonObject]]:
    """The system prompt's blocks, and the messages by turns: what stands together is one message here."""
    system: list[JsonObject] = []
    turns: list[JsonObject] = []
    for index, message in enumerate(messages):
        role = message.get("role")
        if role in ("system", "developer"):
            blocks = [_block(index, message, part) for part in parts_of(message)]
            if not turns:
                system += blocks
            else:  # Later ones are messages by themselves, which newer models take and older ones refuse.
                turns.append({"role": "system", "content": blocks})
            continue
        match role:
            case "tool":
                speaker, blocks = "user", [_result(index, message)]
            case "user":
                speaker, blocks = "user", [_block(index, message, part) for part in parts_of(message)]
            case "assistant":
                speaker, blocks = "assistant", list(_assistant_blocks(index, message))
            case _:
                raise inexpressible(index, message, f"the role {role!r}", _NAME)
        if turns and turns[-1]["role"] == speaker:
            turns[-1]["content"] += blocks
        elif blocks or speaker == "user":  # A model that said nothing has no message: an empty one is refused.
            turns.append({"role": speaker, "content": blocks})
    return system, [_plain(turn) for turn in turns]


def _plain(turn: JsonObject) -> JsonObject:
    """A turn of one text as text; in others the results of calls come first, in their own order."""
    blocks = turn["content"]
    if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
        return {"role": turn["role"], "content": blocks[0]["text"]}
    if turn["role"] == "user":
        blocks = sorted(blocks, key=lambda block: block.get("type") != "tool_result")
    return {"role": turn["role"], "content": blocks}


def _assistant_blocks(index: int, message: Message) -> Iterator[JsonObject]:
    native = native_items(message, _NAME)
    if native is not None and is_unchanged(message, _said(native)):
        yield from native
        return
    for block in message.get("thinking_blocks") or ():
        if isinstance(block, Mapping) and (block.get("signature") or block.get("data")):
            yield dict(block)
    for part in parts_of(message):
        yield _block(index, message, part)
    for id_, name, arguments in calls_of(message):
        yield {"type": "tool_use", "id": _id(id_), "name": name, "input": object_in(arguments)}


def _result(index: int, message: Message) -> JsonObject:
    blocks = [_block(index, message, part) for part in parts_of(message)]
    only = blocks[0] if len(blocks) == 1 else {}
    content = only["text"] if only.keys() == {"type", "text"} else blocks
    return {"type": "tool_result", "tool_use_id": _id(str(message.get("tool_call_id") or "")), "content": content or ""}


def _block(index: int, message: Message, part: Mapping[str, Any]) -> JsonObject:
    kept = {"cache_control": part["cache_control"]} if part.get("cache_control") else {}
    match part.get("type"):
        case "text" | "input_text" | "output_text":
            return {"type": "text", "text": str(part.get("text") or ""), **kept}
        case "image_url":
            return {"type": "image", "source": _source(image_url(part)), **kept}
        case "file" if isinstance(part.get("file"), Mapping) and part["file"].get("file_data"):
            return {"type": "document", "source": _source(str(part["file"]["file_data"])), **kept}
        case "image" | "document":
            return dict(part)
        case other:
            raise inexpressible(index, message, f"a part of type {other!r}", _NAME)


def _source(address: str) -> JsonObject:
    data = inlined(address)
    if data is None:
        return {"type": "url", "url": address}
    return {"type": "base64", "media_type": data.media_type, "data": data.base64}


def _id(id_: str) -> str:
    """An id in the characters that are allowed here: another model's may have others. Two that differ stay two."""
    plain = _NOT_IN_ID.sub("_", id_)
    return plain if plain == id_ else f"{plain}-{zlib.crc32(id_.encode()):08x}"


def _tool(tool: Tool) -> JsonObject:
    fields: JsonObject = {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
    return fields if tool.strict is None else {**fields, "strict": tool.strict}


def _sampling_fields(endpoint: Endpoint, sampling: Sampling) -> JsonObject:
    asked = {"min_p": sampling.min_p, "logprobs": sampling.logprobs}
    refuse_sampling(endpoint, [name for name, value in asked.items() if value])
    fields = {name: getattr(sampling, name) for name in ("temperature", "top_p", "max_tokens")}
    fields = {name: value for name, value in fields.items() if value is not None}
    if sampling.top_k is not None and sampling.top_k > 0:  # -1, all of them, is what holds here anyway.
        fields["top_k"] = sampling.top_k
    if sampling.stop:
        fields["stop_sequences"] = sampling.stop
    for name, value in further_fields(endpoint, sampling).items():
        _put(fields, name, value)
    return fields


def _put(fields: JsonObject, name: str, value: Any) -> None:
    """A field of the caller's, under the name that it has here if the caller knows it by chat's."""
    match name:
        case "max_completion_tokens":
            fields["max_tokens"] = value
        case "stop":
            fields["stop_sequences"] = [value] if isinstance(value, str) else value
        case "reasoning_effort":
            fields["output_config"] = {**fields.get("output_config", {}), "effort": value}
        case "response_format" if isinstance(value, Mapping) and value.get("type") == "json_schema":
            schema = (value.get("json_schema") or {}).get("schema")
            made = {"type": "json_schema", "schema": schema}
            fields["output_config"] = {**fields.get("output_config", {}), "format": made}
        case "tool_choice" if isinstance(value, str):
            fields[name] = {**fields.get(name, {}), "type": _CHOICES.get(value, value)}
        case "tool_choice" if isinstance(value, Mapping) and isinstance(value.get("function"), Mapping):
            fields[name] = {**fields.get(name, {}), "type": "tool", "name": value["function"].get("name")}
        case "parallel_tool_calls":
            choice = fields.get("tool_choice") or {"type": "auto"}
            fields["tool_choice"] = {**choice, "disable_parallel_tool_use": not value}
        case _:
            fields[name] = value


def _said(content: Sequence[Any]) -> AssistantMessage:
    texts: list[str] = []
    thinking: list[JsonObject] = []
    calls: list[JsonObject] = []
    kinds: list[str] = []
    for block in content:
        if not isinstance(block, dict):
            raise ValueError("a content block that is no object")
        kinds.append(str(block.get("type")))
        match kinds[-1]:
            case "text":
                texts.append(str(block.get("text") or ""))
            case "thinking" | "redacted_thinking":
                thinking.append(block)
            case "tool_use":
                calls.append(_call(block, calls))
    said = AssistantMessage(content="".join(texts), **({"tool_calls": calls} if calls else {}))
    thoughts = [str(block["thinking"]) for block in thinking if block.get("thinking")]
    if thoughts:
        said["reasoning_content"] = "\n\n".join(thoughts)
    if thinking:
        said["thinking_blocks"] = thinking
    if not _is_plain(kinds):
        keep_native(said, _NAME, [_whole(block) for block in content])
    return said


def _is_plain(kinds: Sequence[str]) -> bool:
    """Whether the usual order holds, thinking before one text before calls, so that the message alone tells it."""
    places = [_ORDER.index(kind) if kind in _ORDER else -1 for kind in kinds]
    places = [1 if place == 0 else place for place in places]
    return -1 not in places and places == sorted(places) and kinds.count("text") <= 1


def _call(block: JsonObject, before: Sequence[JsonObject]) -> JsonObject:
    given = block.get("input")
    # A stream's arguments are still text, as the model wrote them.
    arguments = given if isinstance(given, str) else msgspec.json.encode(given or {}).decode()
    id_ = str(block.get("id") or f"call-{len(before)}")
    if any(call["id"] == id_ for call in before):
        id_ = f"{id_}-{len(before)}"
    return {
        "id": id_,
        "type": "function",
        "function": {"name": str(block.get("name") or ""), "arguments": arguments or "{}"},
    }


def _whole(block: JsonObject) -> JsonObject:
    given = block.get("input")
    return {**block, "input": object_in(given)} if isinstance(given, str) else block


def _usage(usage: Any) -> Usage:
    """Tokens that the cache took or gave are part of the prompt, and are counted apart here."""
    if not isinstance(usage, dict):
        return Usage()
    new, read = count(usage.get("input_tokens")), count(usage.get("cache_read_input_tokens"))
    stored = count(usage.get("cache_creation_input_tokens"))
    return Usage(
        prompt_tokens=None if new is None else new + (read or 0) + (stored or 0),
        completion_tokens=count(usage.get("output_tokens")),
        reasoning_tokens=count_in(usage.get("output_tokens_details"), "thinking_tokens"),
        cached_tokens=read,
    )
