"""An OpenAI-compatible HTTP server in front of a sampler: chat and text completions, streamed or whole.

Invariants: requests that come together are decoded together; a client that goes away frees its place; every error is
JSON in OpenAI's form, with a status that says whose it is; a stop signal lets what is being drawn finish for a moment,
and then ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Self

import msgspec
from aiohttp import web

from sandlot.errors import Error, Invalid, OverlongPromptError
from sandlot.inference import wire
from sandlot.inference.config import ServeConfig
from sandlot.inference.loading import load_module, load_tokenizer
from sandlot.inference.local import end_ids
from sandlot.inference.policy import token_sampling
from sandlot.inference.sampler import Sampler, TokenSampling
from sandlot.inference.serving import Choice
from sandlot.inference.tokens import ChatTokens
from sandlot.inference.torch_sampler import TorchSampler
from sandlot.inference.weights import Progress, resolve
from sandlot.records import JsonObject, Message, Tool

_log = logging.getLogger("sandlot.inference")
_ENCODE = msgspec.json.Encoder().encode
_Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]
_GRACE = 5.0
"""Seconds that a stop signal leaves to the answers that are being drawn."""
_PATHS = "GET /health, GET /v1/models, POST /v1/chat/completions, POST /v1/completions"


class PolicyServer:
    """`async with PolicyServer(sampler, tokens, config) as server:` answers at `server.url`."""

    def __init__(self, sampler: Sampler, tokens: ChatTokens, config: ServeConfig) -> None:
        self.name = config.name or config.model
        self.url = ""
        """The address of the API, as an endpoint's `base_url`."""
        self._sampler = sampler
        self._tokens = tokens
        self._config = config
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=self._config.max_body_megabytes << 20)
        app.router.add_get("/health", self._health)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/v1/models/{name:.+}", _with_problems(self._model))
        app.router.add_post("/v1/chat/completions", _with_problems(self._chat))
        app.router.add_post("/v1/completions", _with_problems(self._text))
        app.router.add_route("*", "/{path:.*}", _nothing_there)
        # A handler is cancelled when its client goes away: that is what frees the place in the batch.
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=_GRACE)
        await self._runner.setup()
        host, port = self._config.host, self._config.port
        try:
            await web.TCPSite(self._runner, host, port, backlog=1024).start()
        except OSError as error:
            await self._runner.cleanup()
            raise Invalid(
                f"{host}:{port} cannot be listened at: {error.strerror}", hint="--port 0 takes a free port"
            ) from None
        address = f"[{host}]" if ":" in host else host
        self.url = f"http://{address}:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _health(self, _: web.Request) -> web.Response:
        return _json({"status": "ok", "model": self.name, "version": self._sampler.version})

    def _card(self) -> JsonObject:
        return {
            "id": self.name,
            "object": "model",
            "created": 0,
            "owned_by": "sandlot",
            "max_model_len": self._sampler.context_length,
        }

    async def _models(self, _: web.Request) -> web.Response:
        return _json({"object": "list", "data": [self._card()]})

    async def _model(self, request: web.Request) -> web.Response:
        self._check_name(request.match_info["name"])
        return _json(self._card())

    def _check_name(self, name: str | None) -> None:
        if name is not None and name != self.name:
            raise _NoModel(f"there is no model {name!r} here; there is {self.name!r}")

    async def _chat(self, http: web.Request) -> web.StreamResponse:
        request = wire.decoded(await http.read(), wire.ChatRequest)
        self._check_name(request.model)
        messages, tools = request.conversation(), request.offered()
        prompt = self._tokens.render(messages, tools)
        answer = _Answer("chat", self.name, request=request, prompt=prompt)
        choices = [
            Choice(self._sampler, self._tokens, stops=request.stops(), calls=bool(tools)) for _ in range(request.n)
        ]

        def finished(index: int) -> tuple[JsonObject, JsonObject, str]:
            choice = choices[index]
            message = self._message(choice, messages, tools)
            extra = answer.extra(choice)
            if request.logprobs:
                extra["logprobs"] = wire.chat_logprobs(choice.sampled, self._tokens.pieces(choice.sampled.tokens))
            return message, extra, "tool_calls" if message.get("tool_calls") else choice.finish

        if request.stream:
            return await self._stream_chat(http, answer, choices, finished)
        await self._draw(answer, choices)
        whole = []
        for index in range(request.n):
            message, extra, finish = finished(index)
            whole.append({"index": index, "message": message, "finish_reason": finish, **extra})
        return _json(answer.whole(whole, choices))

    def _message(self, choice: Choice, messages: Sequence[Message], tools: Sequence[Tool]) -> JsonObject:
        said = self._tokens.message(choice.text, tools=tools, call_prefix=f"call-{len(messages)}")
        message: JsonObject = {"role": "assistant", "content": said.content}
        if said.tool_calls:
            message["tool_calls"] = [dict(call) for call in said.tool_calls]
        return message

    async def _text(self, http: web.Request) -> web.StreamResponse:
        request = wire.decoded(await http.read(), wire.TextRequest)
        self._check_name(request.model)
        given = request.prompt
        prompt = self._tokens.encode_prompt(given) if isinstance(given, str) else given
        answer = _Answer("text", self.name, request=request, prompt=prompt)
        choices = [Choice(self._sampler, self._tokens, stops=request.stops()) for _ in range(request.n)]

        def finished(index: int) -> tuple[JsonObject, str]:
            choice = choices[index]
            extra = answer.extra(choice)
            if request.logprobs not in (None, False):
                extra["logprobs"] = wire.text_logprobs(choice.sampled, self._tokens.pieces(choice.sampled.tokens))
            return extra, choice.finish

        def delta(index: int, piece: str) -> JsonObject:
            return {"index": index, "text": piece, "finish_reason": None}

        if request.stream:
            async with _EventStream(http) as stream:
                async for index, piece in self._merged(answer, choices):
                    if piece is not None:
                        await stream.send(answer.part([delta(index, piece)]))
                        continue
                    extra, finish = finished(index)
                    await stream.send(answer.part([{"index": index, "text": "", "finish_reason": finish, **extra}]))
                await stream.send_all(answer.last(choices))
                return stream.response
        await self._draw(answer, choices)
        whole = []
        for index, choice in enumerate(choices):
            extra, finish = finished(index)
            whole.append({"index": index, "text": choice.text, "finish_reason": finish, **extra})
        return _json(answer.whole(whole, choices))

    async def _stream_chat(
        self,
        http: web.Request,
        answer: _Answer,
        choices: Sequence[Choice],
        finished: Callable[[int], tuple[JsonObject, JsonObject, str]],
    ) -> web.StreamResponse:
        def part(index: int, delta: JsonObject, finish: str | None = None, **extra: object) -> JsonObject:
            return answer.part([{"index": index, "delta": delta, "finish_reason": finish, **extra}])

        begun: set[int] = set()
        async with _EventStream(http) as stream:
            async for index, piece in self._merged(answer, choices):
                if index not in begun:
                    begun.add(index)
                    await stream.send(part(index, {"role": "assistant", "content": ""}))
                if piece is not None:
                    await stream.send(part(index, {"content": piece}))
                    continue
                message, extra, finish = finished(index)
                for number, call in enumerate(message.get("tool_calls") or []):
                    await stream.send(part(index, {"tool_calls": [{"index": number, **call}]}))
                await stream.send(part(index, {}, finish, **extra))
            await stream.send_all(answer.last(choices))
        return stream.response

    def _token_sampling(self, answer: _Answer, index: int) -> TokenSampling:
        room = self._sampler.context_length - len(answer.prompt)
        if room < 1:
            raise OverlongPromptError(
                f"This model's maximum context length is {self._sampler.context_length} tokens; the prompt has "
                f"{len(answer.prompt)} and leaves no room for a completion"
            )
        return token_sampling(answer.request.sampling(index), max_tokens=room, end_ids=self._tokens.end_ids)

    async def _draw(self, answer: _Answer, choices: Sequence[Choice]) -> None:
        settings = [self._token_sampling(answer, index) for index in range(len(choices))]
        async with asyncio.TaskGroup() as group:
            for choice, sampling in zip(choices, settings, strict=True):
                group.create_task(choice.whole(answer.prompt, sampling))

    async def _merged(self, answer: _Answer, choices: Sequence[Choice]) -> AsyncIterator[tuple[int, str | None]]:
        """The pieces of all choices as they come, each with its choice's index; None when that choice is over."""
        settings = [self._token_sampling(answer, index) for index in range(len(choices))]
        pieces: asyncio.Queue[tuple[int, str | Exception | None]] = asyncio.Queue()

        async def draw(index: int) -> None:
            try:
                async with contextlib.aclosing(choices[index].pieces(answer.prompt, settings[index])) as drawn:
                    async for piece in drawn:
                        pieces.put_nowait((index, piece))
                pieces.put_nowait((index, None))
            except Exception as error:
                # Boundary: the drawing of one choice. It is raised again where the answer is written.
                pieces.put_nowait((index, error))

        tasks = [asyncio.ensure_future(draw(index)) for index in range(len(choices))]
        left = len(choices)
        try:
            while left:
                index, piece = await pieces.get()
                if isinstance(piece, Exception):
                    raise piece
                left -= piece is None
                yield index, piece
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class _Answer:
    """One request and the envelope of its answer."""

    def __init__(self, kind: str, model: str, *, request: wire.Request, prompt: list[int]) -> None:
        self.request = request
        self.prompt = prompt
        self._envelope = wire.Envelope(kind, model)
        self.part = self._envelope.part

    def extra(self, choice: Choice) -> JsonObject:
        """The fields of a choice that were asked for."""
        return {"token_ids": choice.sampled.tokens} if self.request.return_token_ids else {}

    def _usage(self, choices: Sequence[Choice]) -> JsonObject:
        return wire.usage_fields(len(self.prompt), sum(len(choice.sampled.tokens) for choice in choices))

    def whole(self, fields: Sequence[JsonObject], choices: Sequence[Choice]) -> JsonObject:
        """The answer that is not streamed."""
        body = self._envelope.whole(fields, self._usage(choices))
        return body | ({"prompt_token_ids": self.prompt} if self.request.return_token_ids else {})

    def last(self, choices: Sequence[Choice]) -> list[JsonObject]:
        """The events after the last choice."""
        options = self.request.stream_options
        return [self.part([], self._usage(choices))] if options is not None and options.include_usage else []


class _EventStream:
    """A response of server-sent events. The first event is only sent once drawing has begun without an error."""

    def __init__(self, http: web.Request) -> None:
        self.response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        self._http = http

    async def __aenter__(self) -> Self:
        return self

    async def send(self, event: JsonObject) -> None:
        if not self.response.prepared:
            await self.response.prepare(self._http)
        await self.response.write(b"data: " + _ENCODE(event) + b"\n\n")

    async def send_all(self, events: Sequence[JsonObject]) -> None:
        for event in events:
            await self.send(event)

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if not self.response.prepared:
            return False
        if isinstance(error, ConnectionError):
            return True  # The client has gone: there is nobody to tell.
        if isinstance(error, Exception):
            # The status is out already, so that the error is the last event.
            await self.send(_problem_of(error)[1])
        elif error is not None:
            return False
        await self.response.write(b"data: [DONE]\n\n")
        await self.response.write_eof()
        return True


class _NoModel(Invalid):
    """The request names a model that is not served."""


def _problem_of(error: Exception) -> tuple[int, JsonObject]:
    """The status and the body that an error is answered with."""
    if isinstance(error, BaseExceptionGroup) and isinstance(error.exceptions[0], Exception):
        return _problem_of(error.exceptions[0])
    if isinstance(error, _NoModel):
        return 404, wire.problem(str(error), code="model_not_found")
    if isinstance(error, OverlongPromptError):
        return 400, wire.problem(str(error), code="context_length_exceeded")
    if isinstance(error, Invalid):
        return 400, wire.problem(str(error) + (f" ({error.hint})" if error.hint else ""))
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return 413, wire.problem("the body is larger than this server reads", code="body_too_large")
    _log.error("a request failed", exc_info=error)
    message = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
    return 500, wire.problem(message, kind="server_error", code="engine_failed")


def _with_problems(answer: _Answering) -> _Answering:
    async def answered(http: web.Request) -> web.StreamResponse:
        try:
            return await answer(http)
        except Exception as error:
            # Boundary: one request. Whatever it broke on becomes its answer, and the server goes on.
            status, body = _problem_of(error)
            return _json(body, status=status)

    return answered


async def _nothing_there(http: web.Request) -> web.Response:
    message = f"there is no {http.method} {http.path} here; there is {_PATHS}"
    return _json(wire.problem(message, code="not_found"), status=404)


def _json(body: JsonObject, *, status: int = 200) -> web.Response:
    return web.Response(status=status, body=_ENCODE(body), content_type="application/json")


def serve(config: ServeConfig, *, ready: Callable[[str], None] | None = None, progress: Progress | None = None) -> None:
    """Loads the model and serves it until SIGINT or SIGTERM. `ready` is called with the API's address.

    `NotFound`, `Invalid` or `Unreachable` where there is no such model, `Invalid` for a port that is taken.
    """
    folder = resolve(config.model, progress=progress)
    module = load_module(folder)
    tokens = ChatTokens(load_tokenizer(folder), end_ids=end_ids(module))
    sampler = TorchSampler(
        module,
        context_length=config.context_length,
        max_rows=config.max_rows,
        cache_bytes=config.cache_megabytes << 20,
    )
    asyncio.run(_until_stopped(PolicyServer(sampler, tokens, config), sampler, ready))


async def _until_stopped(server: PolicyServer, sampler: Sampler, ready: Callable[[str], None] | None) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        async with server:
            if ready is not None:
                ready(server.url)
            await stop.wait()
    finally:
        await sampler.close()
