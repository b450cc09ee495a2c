"""An OpenAI-compatible endpoint that says what a test wrote down, fails on demand, and can be load-tested against.

Invariants: answers come from the same scripts as `ScriptedModel`'s; a fault is used once, in the order given; what was
asked is remembered; leaving the server closes its port and its connections.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Self, TypeAlias

import msgspec
from aiohttp import web

from sandlot.errors import Invalid
from sandlot.models import Completion
from sandlot.records import JsonObject, Message, Usage, as_messages, text_of
from sandlot.testing.faults import Fault, fail
from sandlot.testing.script import Answers, OutOfAnswers, Script, last_user_text, said

Faults: TypeAlias = Sequence[Fault | None] | Callable[[JsonObject], Fault | None]
_KEPT = 10_000
_FAULT_MODEL = "fault-"
_DECODE = msgspec.json.Decoder(dict[str, Any]).decode
_ENCODE = msgspec.json.Encoder().encode


def echo(messages: Sequence[Message]) -> str:
    """The last user message, said back: what a mock server answers when it was given no script."""
    return last_user_text(messages)


class MockServer:
    """`async with MockServer(["hello"]) as server:` answers at `server.url`. `with` runs it in a thread of its own.

    `answers`: as for `ScriptedModel` (default: it echoes). `latency`: seconds before each answer. `faults`: one for
    each of the first requests, None letting it pass, or a function of the request's body. A model called
    `fault-429:2`, `fault-html`, `fault-hang:5` … always fails that way; see `Fault.parse`. `key`: what it wants in
    `Authorization`; None takes any. `port` 0 is a free one.
    """

    def __init__(
        self,
        answers: Answers = echo,
        *,
        latency: float = 0.0,
        faults: Faults = (),
        key: str | None = None,
        port: int = 0,
    ) -> None:
        self.requests: deque[JsonObject] = deque(maxlen=_KEPT)
        """The bodies of the last 10,000 requests, oldest first."""
        self.headers: deque[dict[str, str]] = deque(maxlen=_KEPT)
        """Their headers, with names in lower case."""
        self.url = ""
        """The address of the API, as an endpoint's `url`."""
        self._script = Script(answers)
        self._latency = latency
        self._fault_of = faults if callable(faults) else None
        self._faults: deque[Fault | None] = deque(() if callable(faults) else faults)
        self._key = key
        self._port = port
        self._runner: web.ServerRunner | None = None
        self._thread: _Thread | None = None

    async def __aenter__(self) -> Self:
        # The low-level server: routing and middlewares of an application would halve what it can take.
        server = web.Server(self._handle, access_log=None)
        self._runner = web.ServerRunner(server, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=4096)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise Invalid(
                f"port {self._port} cannot be used: {error.strerror}", hint="--port 0 takes a free one"
            ) from None
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def __enter__(self) -> Self:
        self._thread = _Thread(self)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._thread.stop()
            self._thread = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if path.endswith("/chat/completions"):
            return await self._chat(request)
        if path.endswith("/models"):
            return _json(200, {"object": "list", "data": [{"id": "mock", "object": "model", "owned_by": "sandlot"}]})
        return _problem(404, f"there is no {request.method} {path}; there are /v1/chat/completions and /v1/models")

    async def _chat(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            body = _DECODE(await request.read())
        except msgspec.DecodeError as error:
            return _problem(400, f"the body is no JSON object: {error}")
        self.requests.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if self._key is not None and request.headers.get("Authorization") != f"Bearer {self._key}":
            return _problem(401, "Incorrect API key provided.")
        fault = self._fault(body)
        if fault is not None:
            return await fail(fault, request)
        if self._latency:
            await asyncio.sleep(self._latency)
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            return _problem(400, "messages: a list with at least one message was expected")
        try:
            completion = await self._completion(body, as_messages(messages))
        except OutOfAnswers as error:
            return _problem(418, str(error))
        if body.get("stream"):
            return await _stream(request, body, completion)
        return web.Response(body=_ENCODE(completion), content_type="application/json")

    def _fault(self, body: JsonObject) -> Fault | None:
        if self._fault_of is not None:
            return self._fault_of(body)
        if self._faults:
            return self._faults.popleft()
        model = body.get("model")
        if isinstance(model, str) and model.startswith(_FAULT_MODEL):
            return Fault.parse(model.removeprefix(_FAULT_MODEL))
        return None

    async def _completion(self, body: JsonObject, messages: Sequence[Message]) -> JsonObject:
        answer = await self._script.answer(messages)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Completion):
            message, finish, usage = answer.message, answer.finish, answer.usage
        else:
            message = said(answer)
            finish, usage = "tool_calls" if message.get("tool_calls") else "stop", _usage(messages, message)
        choice: JsonObject = {"index": 0, "message": message, "finish_reason": finish}
        result: JsonObject = {
            "id": "chatcmpl-mock",
            "object": "chat.completion",
            "created": 0,
            "model": body.get("model"),
            "choices": [choice],
            "usage": _usage_fields(usage),
        }
        if body.get("return_token_ids"):
            result["prompt_token_ids"] = [id for each in messages for id in _bytes(each)]
            choice["token_ids"] = _bytes(message)
        if body.get("logprobs"):
            content = [{"token": chr(id), "logprob": -0.5, "bytes": [id]} for id in _bytes(message)]
            choice["logprobs"] = {"content": content}
        return result


class _Thread:
    """Runs a server in an event loop of its own, for tests that have none."""

    def __init__(self, server: MockServer) -> None:
        self._server = server
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mock-server", daemon=True)

    def start(self) -> None:
        self._thread.start()
        try:
            self._wait(self._server.__aenter__())
        except BaseException:
            self._end()
            raise

    def stop(self) -> None:
        try:
            self._wait(self._server.__aexit__())
        finally:
            self._end()

    def _wait(self, work: Awaitable[Any]) -> None:
        async def awaited() -> None:
            await work

        asyncio.run_coroutine_threadsafe(awaited(), self._loop).result(timeout=10)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()


async def _stream(request: web.BaseRequest, body: JsonObject, completion: JsonObject) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    async for chunk in _chunks(body, completion):
        await response.write(b"data: " + _ENCODE(chunk) + b"\n\n")
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


async def _chunks(body: JsonObject, completion: JsonObject) -> AsyncIterator[JsonObject]:
    base = {name: completion[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = completion["choices"][0]

    def chunk(delta: JsonObject, finish: str | None = None) -> JsonObject:
        return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for word in _words(text_of(choice["message"].get("content"))):
        yield chunk({"content": word})
    calls = choice["message"].get("tool_calls") or []
    if calls:
        yield chunk({"tool_calls": [{"index": index, **call} for index, call in enumerate(calls)]})
    yield chunk({}, choice["finish_reason"])
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**base, "choices": [], "usage": completion["usage"]}


def _words(text: str) -> Iterable[str]:
    words = text.split(" ")
    return [word if index == 0 else f" {word}" for index, word in enumerate(words)] if text else []


def _bytes(message: Message) -> list[int]:
    return list(text_of(message.get("content")).encode())


def _usage(messages: Sequence[Message], message: Message) -> Usage:
    prompt = sum(len(text_of(each.get("content")).split()) for each in messages)
    return Usage(prompt_tokens=prompt, completion_tokens=len(text_of(message.get("content")).split()))


def _usage_fields(usage: Usage) -> JsonObject:
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


def _json(status: int, body: object) -> web.Response:
    return web.Response(status=status, body=_ENCODE(body), content_type="application/json")


def _problem(status: int, message: str) -> web.Response:
    return _json(status, {"error": {"message": message, "type": "invalid_request_error", "code": None}})
