"""An endpoint that says what a test wrote down, in any dialect, fails on demand, and can be load-tested against.

Invariants: answers come from the same scripts as `ScriptedModel`'s; a fault is used once, in the order given; what was
asked is remembered; leaving the server closes its port and its connections.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Self, TypeAlias

import msgspec
from aiohttp import web

from sandlot.errors import Invalid
from sandlot.models import Completion
from sandlot.records import JsonObject, Message, Usage, as_messages, text_of
from sandlot.testing.anthropic_form import AnthropicForm
from sandlot.testing.chat_form import ChatForm, CompletionsForm
from sandlot.testing.faults import IN_A_STREAM, Fault, fail, stream_on
from sandlot.testing.form import Event, Form, Saying
from sandlot.testing.rating_form import RATING_FORMS
from sandlot.testing.responses_form import ResponsesForm
from sandlot.testing.script import Answers, OutOfAnswers, Script, last_user_text, said

Faults: TypeAlias = Sequence[Fault | None] | Callable[[JsonObject], Fault | None]
CHAT = ChatForm()
_FORMS: tuple[Form, ...] = (CHAT, ResponsesForm(), AnthropicForm(), CompletionsForm(), *RATING_FORMS)
"""A longer path stands before one that it ends in."""
_KEPT = 10_000
_FAULT_MODEL = "fault-"
_DECODE = msgspec.json.Decoder(dict[str, Any]).decode
_ENCODE = msgspec.json.Encoder().encode


def echo(messages: Sequence[Message]) -> str:
    """The last user message, said back: what a mock server answers when it was given no script."""
    return last_user_text(messages)


class MockServer:
    """`async with MockServer(["hello"]) as server:` answers at `server.url`. `with` runs it in a thread of its own.

    It speaks chat completions, Responses, Anthropic's Messages and plain completions, whole and as streams, and gives
    the numbers of a reward model at `/classify`, `/pooling` and `/score`.

    `answers`: as for `ScriptedModel` (default: it echoes). `latency`: seconds before each answer. `faults`: one for
    each of the first requests, None letting it pass, or a function of the request's body. A model called
    `fault-429:2`, `fault-html`, `fault-hang:5` … always fails that way; see `Fault.parse`. `key`: what it wants in
    `Authorization`, or in `x-api-key`; None takes any. `port` 0 is a free one.
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
        for form in _FORMS:
            if path.endswith(form.path):
                return await self._answer(request, form)
        if path.endswith("/models"):
            return _json(200, {"object": "list", "data": [{"id": "mock", "object": "model", "owned_by": "sandlot"}]})
        there_are = ", ".join(f"/v1{form.path}" for form in _FORMS)
        return _json(404, CHAT.error(404, f"there is no {request.method} {path}; there are {there_are}, /v1/models"))

    async def _answer(self, request: web.BaseRequest, form: Form) -> web.StreamResponse:
        try:
            body = _DECODE(await request.read())
        except msgspec.DecodeError as error:
            return _json(400, form.error(400, f"the body is no JSON object: {error}"))
        self.requests.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if self._key is not None and form.key_in(request.headers) != self._key:
            return _json(401, form.error(401, "Incorrect API key provided."))
        fault = self._fault(body)
        if fault is not None and fault.kind not in IN_A_STREAM:
            return await fail(fault, request, form)
        if self._latency:
            await asyncio.sleep(self._latency)
        wrong = form.wrong(body, request.headers)
        if wrong is not None:
            return _json(400, form.error(400, wrong))
        try:
            answer = form.answer(body, await self._said(as_messages(form.messages(body))))
        except OutOfAnswers as error:
            return _json(418, form.error(418, str(error)))
        if body.get("stream") or fault is not None:
            return await _stream(request, form, form.events(body, answer), fault=fault)
        return web.Response(body=_ENCODE(answer), content_type="application/json")

    def _fault(self, body: JsonObject) -> Fault | None:
        if self._fault_of is not None:
            return self._fault_of(body)
        if self._faults:
            return self._faults.popleft()
        model = body.get("model")
        if isinstance(model, str) and model.startswith(_FAULT_MODEL):
            return Fault.parse(model.removeprefix(_FAULT_MODEL))
        return None

    async def _said(self, messages: Sequence[Message]) -> Saying:
        answer = await self._script.answer(messages)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Completion):
            return Saying(messages, answer.message, answer.finish, answer.usage)
        message = said(answer)
        return Saying(
            messages, message, "tool_calls" if message.get("tool_calls") else "stop", _usage(messages, message)
        )


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


async def _stream(
    request: web.BaseRequest, form: Form, events: Iterable[Event], *, fault: Fault | None
) -> web.StreamResponse:
    """Sends the events; where there is a fault only the first half of them, and then what it does."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    every = [_event(*event) for event in events]
    half = every[: len(every) // 2]
    for event in every if fault is None else half:
        await response.write(event)
    if fault is not None:
        await stream_on(fault, request, response, last=half[-1] if half else b"")
        return response
    await response.write(form.last_line)
    await response.write_eof()
    return response


def _event(name: str | None, carried: JsonObject) -> bytes:
    named = b"" if name is None else f"event: {name}\n".encode()
    return named + b"data: " + _ENCODE(carried) + b"\n\n"


def _usage(messages: Sequence[Message], message: Message) -> Usage:
    prompt = sum(len(text_of(each.get("content")).split()) for each in messages)
    return Usage(prompt_tokens=prompt, completion_tokens=len(text_of(message.get("content")).split()))


def _json(status: int, body: object) -> web.Response:
    return web.Response(status=status, body=_ENCODE(body), content_type="application/json")
