"""OpenAI's Responses, as OpenAI and the servers that follow it speak them.

Invariants: the whole conversation is sent each time and the endpoint is asked to store none of it; what a model
reasoned in sealed form goes back exactly as it came; a seed is not sent, because the form has no place for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sandlot.models.dialects.counts import cost_of, count, count_in
from sandlot.models.dialects.dialect import Assembly, Dialect
from sandlot.models.dialects.native import encoded, inexpressible, is_unchanged, keep_native, native_items
from sandlot.models.dialects.parts import arguments_text, calls_of, further_fields, image_url, parts_of, refuse_sampling
from sandlot.models.endpoint import Endpoint
from sandlot.models.model import Completion
from sandlot.records import AssistantMessage, JsonObject, Message, Sampling, Tool, Usage, text_of

_NAME = "openai_responses"
_SEALED = "reasoning.encrypted_content"
_REASONS = re.compile(r"(^|/)(o\d|gpt-[5-9]|gpt-oss|codex)")
"""Names of models that reason. OpenAI's others refuse to be asked for sealed reasoning."""
_UNENDED = frozenset({"queued", "in_progress", "cancelled"})
_FINISH = {"max_output_tokens": "length", "content_filter": "content_filter"}


class _Responses(Dialect):
    path = "/responses"

    def check(self, endpoint: Endpoint, sampling: Sampling) -> None:
        _sampling_fields(endpoint, sampling)

    def request(
        self, endpoint: Endpoint, messages: Sequence[Message], *, tools: Sequence[Tool], sampling: Sampling
    ) -> bytes:
        items = [item for index, message in enumerate(messages) for item in _items(index, message)]
        body: JsonObject = {"model": endpoint.model, "input": items, "store": False}
        if tools:
            body["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                    "strict": bool(tool.strict),  # Left out, it would mean yes here.
                }
                for tool in tools
            ]
        body.update(_sampling_fields(endpoint, sampling))
        if endpoint.stream:
            body["stream"] = True
        return encoded(body, messages)

    def completion(self, endpoint: Endpoint, body: JsonObject) -> Completion | None:
        status = body.get("status")
        output = body.get("output")
        if body.get("error") or status == "failed" or not isinstance(output, list):
            return None
        if status in _UNENDED:
            raise ValueError(f"a response that is {status}")
        if not output and status != "incomplete":
            return None
        said = _said(output)
        usage = _usage(body.get("usage"))
        details = body["usage"].get("input_tokens_details") if isinstance(body.get("usage"), dict) else None
        return Completion(
            message=said,
            finish=_finish(body, said),
            usage=usage,
            cost=cost_of(endpoint, usage, written=count_in(details, "cache_write_tokens")),
            raw=body,
        )

    def assembly(self) -> Assembly:
        return _Assembly()


RESPONSES: Dialect = _Responses()


class _Assembly(Assembly):
    """The last event holds the whole response; some servers leave its output to the events before."""

    def __init__(self) -> None:
        self._items: dict[int, JsonObject] = {}
        self._body: JsonObject | None = None

    def add(self, piece: JsonObject) -> None:
        kind = piece.get("type")
        if kind == "error" or (kind is None and piece.get("error")):
            error = piece.get("error")
            self._body = {"error": error if isinstance(error, dict) else {**piece, "type": piece.get("code")}}
        elif kind == "response.output_item.done" and isinstance(piece.get("item"), dict):
            self._items[count(piece.get("output_index")) or 0] = piece["item"]
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            response = piece.get("response")
            if not isinstance(response, dict):
                raise ValueError(f"a {kind} without a response")
            self._body = response
            if not response.get("output") and self._items:
                self._body = {**response, "output": [self._items[index] for index in sorted(self._items)]}
        elif not isinstance(kind, str):
            raise ValueError("an event without a type")

    def body(self) -> JsonObject | None:
        return self._body


def _items(index: int, message: Message) -> Iterator[JsonObject]:
    role = message.get("role")
    if role == "tool":
        parts = [_part(index, message, part) for part in parts_of(message)]
        plain = all(part["type"] == "input_text" for part in parts)
        output = "".join(part["text"] for part in parts) if plain else parts
        yield {"type": "function_call_output", "call_id": message.get("tool_call_id") or "", "output": output}
    elif role == "assistant":
        yield from _assistant_items(index, message)
    elif role in ("user", "system", "developer"):
        content = message.get("content")
        if not isinstance(content, str):
            content = [_part(index, message, part) for part in parts_of(message)]
        yield {"role": role, "content": content}
    else:
        raise inexpressible(index, message, f"the role {role!r}", _NAME)


def _assistant_items(index: int, message: Message) -> Iterator[JsonObject]:
    native = native_items(message, _NAME)
    if native is not None and is_unchanged(message, _said(native)):
        yield from filter(_goes_back, native)
        return
    texts: list[str] = []
    for part in parts_of(message):
        if part.get("type") not in ("text", "output_text"):
            raise inexpressible(index, message, f"a part of type {part.get('type')!r}", _NAME)
        texts.append(str(part.get("text") or ""))
    if "".join(texts):
        yield {"role": "assistant", "content": "".join(texts)}
    for id_, name, arguments in calls_of(message):
        yield {"type": "function_call", "call_id": id_, "name": name, "arguments": arguments}


def _goes_back(item: JsonObject) -> bool:
    """Reasoning of which only an id came was not stored, so that a reference to it would be refused."""
    return item.get("type") != "reasoning" or bool(item.get("encrypted_content") or item.get("content"))


def _part(index: int, message: Message, part: Mapping[str, Any]) -> JsonObject:
    match part.get("type"):
        case "text" | "input_text":
            return {"type": "input_text", "text": str(part.get("text") or "")}
        case "image_url":
            image = part.get("image_url")
            detail = image.get("detail") if isinstance(image, Mapping) else None
            return {"type": "input_image", "image_url": image_url(part), "detail": detail or "auto"}
        case "file":
            file = part.get("file") or {}
            names = ("file_id", "filename", "file_data", "file_url")
            return {"type": "input_file", **{name: file[name] for name in names if file.get(name)}}
        case "input_image" | "input_file" | "input_audio":
            return dict(part)
        case other:
            raise inexpressible(index, message, f"a part of type {other!r}", _NAME)


def _sampling_fields(endpoint: Endpoint, sampling: Sampling) -> JsonObject:
    asked = {"stop": sampling.stop, "top_k": sampling.top_k, "min_p": sampling.min_p}
    refuse_sampling(endpoint, [name for name, value in asked.items() if value not in (None, [], -1, 0.0)])
    fields: JsonObject = {name: getattr(sampling, name) for name in ("temperature", "top_p")}
    fields["max_output_tokens"] = sampling.max_tokens
    fields = {name: value for name, value in fields.items() if value is not None}
    include = [_SEALED] if _REASONS.search(endpoint.model.lower()) else []
    if sampling.logprobs:
        include.append("message.output_text.logprobs")
    if include:
        fields["include"] = include
    for name, value in further_fields(endpoint, sampling).items():
        _put(fields, name, value)
    return fields


def _put(fields: JsonObject, name: str, value: Any) -> None:
    """A field of the caller's, under the name that it has here if the caller knows it by chat's."""
    match name:
        case "reasoning_effort":
            fields["reasoning"] = {**fields.get("reasoning", {}), "effort": value}
        case "max_tokens" | "max_completion_tokens":
            fields["max_output_tokens"] = value
        case "verbosity":
            fields["text"] = {**fields.get("text", {}), "verbosity": value}
        case "response_format" if isinstance(value, Mapping):
            schema = value.get("json_schema") or {}
            fields["text"] = {**fields.get("text", {}), "format": {"type": value.get("type"), **schema}}
        case "tool_choice" if isinstance(value, Mapping) and isinstance(value.get("function"), Mapping):
            fields[name] = {"type": "function", "name": value["function"].get("name")}
        case "reasoning" if isinstance(value, Mapping):
            fields[name] = {**fields.get(name, {}), **value}
        case _:
            fields[name] = value


def _said(output: Sequence[Any]) -> AssistantMessage:
    texts: list[str] = []
    thoughts: list[str] = []
    refusals: list[str] = []
    calls: list[JsonObject] = []
    plain, told_apart = True, False
    for item in output:
        if not isinstance(item, dict):
            raise ValueError("an output item that is no object")
        match item.get("type"):
            case "message":
                plain = plain and not item.get("phase")
                for part in item.get("content") or ():
                    texts.append(text_of([part]) if part.get("type") == "output_text" else "")
                    refusals.append(str(part.get("refusal") or ""))
            case "reasoning":
                plain = False
                thoughts += [text_of([part]) for part in item.get("summary") or item.get("content") or ()]
            case "function_call":
                arguments = arguments_text(item.get("arguments") or None)
                function = {"name": str(item.get("name") or ""), "arguments": arguments}
                id_ = item.get("call_id") or item.get("id") or f"call-{len(calls)}"
                if any(call["id"] == id_ for call in calls):
                    id_ = f"{id_}-{len(calls)}"
                    told_apart = True
                calls.append({"id": str(id_), "type": "function", "function": function})
            case _:
                plain = False
    said = AssistantMessage(content="".join(texts), **({"tool_calls": calls} if calls else {}))
    if any(thoughts):
        said["reasoning_content"] = "\n\n".join(thoughts)
    if any(refusals):
        said["refusal"] = "".join(refusals)
    if not plain and not told_apart:  # Items whose ids were one would not match their results.
        keep_native(said, _NAME, output)
    return said


def _finish(body: JsonObject, said: AssistantMessage) -> str:
    if body.get("status") == "incomplete":
        details = body.get("incomplete_details")
        reason = str(details.get("reason") or "") if isinstance(details, dict) else ""
        return _FINISH.get(reason, reason or "length")
    return "tool_calls" if said.get("tool_calls") else "stop"


def _usage(usage: Any) -> Usage:
    if not isinstance(usage, dict):
        return Usage()
    return Usage(
        prompt_tokens=count(usage.get("input_tokens")),
        completion_tokens=count(usage.get("output_tokens")),
        reasoning_tokens=count_in(usage.get("output_tokens_details"), "reasoning_tokens"),
        cached_tokens=count_in(usage.get("input_tokens_details"), "cached_tokens"),
    )
