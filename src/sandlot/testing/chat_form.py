"""OpenAI's chat completions and plain completions, from the endpoint's side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sandlot.records import JsonObject, Usage, text_of
from sandlot.testing.form import Event, Form, Saying, token_ids, words


class ChatForm(Form):
    """`/chat/completions`."""

    path = "/chat/completions"
    last_line = b"data: [DONE]\n\n"

    def wrong(self, body: JsonObject, headers: Mapping[str, str]) -> str | None:
        """See `Form`."""
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            return "messages: a list with at least one message was expected"
        called: list[str] = []
        for index, message in enumerate(messages):
            if message.get("role") == "tool":
                if message.get("tool_call_id") not in called:
                    return f"messages.{index}: a tool message must follow the call {message.get('tool_call_id')!r}"
                called.remove(message["tool_call_id"])
                continue
            if called:
                return f"messages.{index}: the calls {called} have no tool message"
            called = [call.get("id") for call in message.get("tool_calls") or ()]
            if not all(isinstance(id_, str) and id_ for id_ in called) or len(set(called)) < len(called):
                return f"messages.{index}: every call needs an id of its own; these have {called}"
        return None

    def messages(self, body: JsonObject) -> list[JsonObject]:
        """See `Form`."""
        return list(body["messages"])

    def answer(self, body: JsonObject, saying: Saying) -> JsonObject:
        """See `Form`."""
        message = {name: value for name, value in saying.message.items() if name != "native"}
        choice: JsonObject = {"index": 0, "message": message, "finish_reason": saying.finish}
        result: JsonObject = {
            "id": "chatcmpl-mock",
            "object": "chat.completion",
            "created": 0,
            "model": body.get("model"),
            "choices": [choice],
            "usage": _usage(saying.usage),
        }
        if body.get("return_token_ids"):
            result["prompt_token_ids"] = [id for each in saying.prompt for id in token_ids(each)]
            choice["token_ids"] = token_ids(message)
        if body.get("logprobs"):
            content = [{"token": chr(id), "logprob": -0.5, "bytes": [id]} for id in token_ids(message)]
            choice["logprobs"] = {"content": content}
        return result

    def events(self, body: JsonObject, answer: JsonObject) -> Iterator[Event]:
        """See `Form`."""
        base = {name: answer[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
        choice = answer["choices"][0]
        message = choice["message"]

        def chunk(delta: JsonObject, finish: str | None = None, **more: object) -> Event:
            return None, {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]}

        first = {"prompt_token_ids": answer["prompt_token_ids"]} if "prompt_token_ids" in answer else {}
        yield None, {**chunk({"role": "assistant", "content": ""})[1], **first}
        for word in words(message.get("reasoning_content") or ""):
            yield chunk({"reasoning_content": word})
        for word in words(text_of(message.get("content"))):
            yield chunk({"content": word})
        for index, call in enumerate(message.get("tool_calls") or []):
            arguments = call["function"]["arguments"]
            half = len(arguments) // 2 or len(arguments)
            opened = {**call, "function": {**call["function"], "arguments": arguments[:half]}}
            yield chunk({"tool_calls": [{"index": index, **opened}]})
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments[half:]}}]})
        told = {name: choice[name] for name in ("token_ids", "logprobs") if name in choice}
        yield chunk({}, choice["finish_reason"], **told)
        if (body.get("stream_options") or {}).get("include_usage"):
            yield None, {**base, "choices": [], "usage": answer["usage"]}

    def error(self, status: int, message: str, code: str | None = None) -> JsonObject:
        """See `Form`."""
        kind = "invalid_request_error" if status < 500 else "server_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": code}}

    def empty(self) -> JsonObject:
        """See `Form`."""
        return {"id": "mock", "object": "chat.completion", "choices": []}


class CompletionsForm(ChatForm):
    """`/completions`."""

    path = "/completions"

    def wrong(self, body: JsonObject, headers: Mapping[str, str]) -> str | None:
        """See `Form`."""
        return None if isinstance(body.get("prompt"), str) else "prompt: a text was expected"

    def messages(self, body: JsonObject) -> list[JsonObject]:
        """See `Form`: the prompt as a user's message."""
        return [{"role": "user", "content": body["prompt"]}]

    def answer(self, body: JsonObject, saying: Saying) -> JsonObject:
        """See `Form`."""
        answer = super().answer({**body, "logprobs": None}, saying)
        choice = answer["choices"][0]
        text = text_of(choice.pop("message").get("content"))
        if "prompt_token_ids" in answer:
            choice["prompt_token_ids"] = answer.pop("prompt_token_ids")
        choice["text"] = text
        if body.get("logprobs"):
            choice["logprobs"] = {"tokens": list(text), "token_logprobs": [-0.5 for _ in text.encode()]}
        return {**answer, "id": "cmpl-mock", "object": "text_completion"}

    def events(self, body: JsonObject, answer: JsonObject) -> Iterator[Event]:
        """See `Form`."""
        base = {name: answer[name] for name in ("id", "created", "model", "object")}
        (choice,) = answer["choices"]
        for word in words(choice["text"]):
            yield None, {**base, "choices": [{"index": 0, "text": word, "finish_reason": None}]}
        yield None, {**base, "choices": [{**choice, "text": ""}]}
        if (body.get("stream_options") or {}).get("include_usage"):
            yield None, {**base, "choices": [], "usage": answer["usage"]}


def _usage(usage: Usage) -> JsonObject:
    fields: JsonObject = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": (usage.prompt_tokens or 0) + (usage.completion_tokens or 0),
    }
    if usage.cached_tokens is not None:
        fields["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    if usage.reasoning_tokens is not None:
        fields["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return fields
