"""OpenAI's Responses, from the endpoint's side."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from sandlot.records import JsonObject, text_of
from sandlot.testing.form import Event, Form, Saying, words

_TEXTS = frozenset({"input_text", "output_text"})

_HOLLOW: dict[str, JsonObject] = {
    "message": {"content": []},
    "reasoning": {"summary": []},
    "function_call": {"arguments": ""},
}
"""What an item of each kind begins with in a stream."""


class ResponsesForm(Form):
    """`/responses`."""

    path = "/responses"
    overlong = "Your input exceeds the context window of this model. Please adjust your input and try again."

    def wrong(self, body: JsonObject, headers: Mapping[str, str]) -> str | None:
        """See `Form`."""
        items = body.get("input")
        if not isinstance(items, list | str) or not items:
            return "Missing required parameter: 'input'."
        for name in ("messages", "max_tokens", "stop", "seed"):
            if name in body:
                return f"Unknown parameter: '{name}'."
        if isinstance(items, str):
            return None
        called = [item.get("call_id") for item in items if item.get("type") == "function_call"]
        answered = [item.get("call_id") for item in items if item.get("type") == "function_call_output"]
        if len(set(called)) < len(called):
            return f"Duplicate item found with call_id: {called}."
        for id_ in answered:
            if id_ not in called:
                return f"No tool call found for function call output with call_id {id_}."
        for id_ in called:
            if id_ not in answered:
                return f"No tool output found for function call {id_}."
        return None

    def messages(self, body: JsonObject) -> list[JsonObject]:
        """See `Form`."""
        said: list[JsonObject] = []
        if isinstance(body.get("instructions"), str):
            said.append({"role": "system", "content": body["instructions"]})
        if isinstance(body["input"], str):
            return [*said, {"role": "user", "content": body["input"]}]
        for item in body["input"]:
            match item.get("type", "message"):
                case "message":
                    said.append({"role": item["role"], "content": _content(item["content"])})
                case "function_call":
                    function = {"name": item["name"], "arguments": item["arguments"]}
                    call = {"id": item["call_id"], "type": "function", "function": function}
                    if not said or said[-1]["role"] != "assistant":
                        said.append({"role": "assistant", "content": ""})
                    said[-1].setdefault("tool_calls", []).append(call)
                case "function_call_output":
                    output = _content(item["output"])
                    said.append({"role": "tool", "content": output, "tool_call_id": item["call_id"]})
        return said

    def answer(self, body: JsonObject, saying: Saying) -> JsonObject:
        """See `Form`."""
        usage, is_short = saying.usage, saying.finish == "length"
        return {
            "id": "resp_mock",
            "object": "response",
            "created_at": 0,
            "status": "incomplete" if is_short else "completed",
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if is_short else None,
            "instructions": body.get("instructions"),
            "metadata": {},
            "model": body.get("model"),
            "output": _output(body, saying),
            "parallel_tool_calls": True,
            "temperature": body.get("temperature", 1.0),
            "tool_choice": body.get("tool_choice", "auto"),
            "tools": body.get("tools", []),
            "top_p": body.get("top_p", 1.0),
            "usage": {
                "input_tokens": usage.prompt_tokens or 0,
                "input_tokens_details": {"cached_tokens": usage.cached_tokens or 0, "cache_write_tokens": 0},
                "output_tokens": usage.completion_tokens or 0,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
                "total_tokens": (usage.prompt_tokens or 0) + (usage.completion_tokens or 0),
            },
        }

    def events(self, body: JsonObject, answer: JsonObject) -> Iterator[Event]:
        """See `Form`."""
        begun = {**answer, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        plain: list[JsonObject] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
        ]
        for index, item in enumerate(answer["output"]):
            plain += _item_events(index, item)
        plain.append({"type": f"response.{answer['status']}", "response": answer})
        for number, event in enumerate(plain):
            yield event["type"], {**event, "sequence_number": number}

    def error(self, status: int, message: str, code: str | None = None) -> JsonObject:
        """See `Form`."""
        kind = "invalid_request_error" if status < 500 else "server_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": code}}

    def empty(self) -> JsonObject:
        """See `Form`."""
        return {"id": "resp_mock", "object": "response", "status": "completed", "error": None, "output": []}


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    if all(part.get("type") in _TEXTS for part in content):
        return "".join(part["text"] for part in content)
    return [_part(part) for part in content]


def _part(part: JsonObject) -> JsonObject:
    if part.get("type") == "input_image":
        return {"type": "image_url", "image_url": {"url": part["image_url"]}}
    return {"type": "text", "text": part.get("text", "")} if part.get("type") in _TEXTS else part


def _output(body: JsonObject, saying: Saying) -> list[JsonObject]:
    message = saying.message
    items: list[JsonObject] = []
    thought = message.get("reasoning_content")
    if thought:
        item: JsonObject = {
            "id": "rs_mock",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": thought}],
        }
        if "reasoning.encrypted_content" in (body.get("include") or ()):
            item["encrypted_content"] = base64.b64encode(f"sealed {thought}".encode()).decode()
        items.append(item)
    text = text_of(message.get("content"))
    if text or not message.get("tool_calls"):
        content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
        said = {"id": "msg_mock", "type": "message", "role": "assistant", "status": "completed", "content": content}
        items.append(said)
    for index, call in enumerate(message.get("tool_calls") or ()):
        items.append(
            {
                "id": f"fc_mock_{index}",
                "type": "function_call",
                "status": "completed",
                "call_id": call["id"],
                "name": call["function"]["name"],
                "arguments": call["function"]["arguments"],
            }
        )
    return items


def _item_events(index: int, item: JsonObject) -> Iterator[JsonObject]:
    where = {"item_id": item["id"], "output_index": index}
    opened = {**item, **_HOLLOW[item["type"]]}
    if "status" in item:
        opened["status"] = "in_progress"
    yield {"type": "response.output_item.added", "output_index": index, "item": opened}
    match item["type"]:
        case "message":
            (part,) = item["content"]
            place = {**where, "content_index": 0}
            yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
            for word in words(part["text"]):
                yield {"type": "response.output_text.delta", **place, "delta": word, "logprobs": []}
            yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
            yield {"type": "response.content_part.done", **place, "part": part}
        case "reasoning":
            (part,) = item["summary"]
            place = {**where, "summary_index": 0}
            yield {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}}
            for word in words(part["text"]):
                yield {"type": "response.reasoning_summary_text.delta", **place, "delta": word}
            yield {"type": "response.reasoning_summary_text.done", **place, "text": part["text"]}
            yield {"type": "response.reasoning_summary_part.done", **place, "part": part}
        case "function_call":
            kind, text = "response.function_call_arguments", item["arguments"]
            yield {"type": f"{kind}.delta", **where, "delta": text}
            yield {"type": f"{kind}.done", **where, "arguments": text, "name": item["name"]}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}
