"""An OpenAI-compatible endpoint for one agent program: what the program asks becomes the rollout's next turn.

Invariants: it listens on the loopback interface alone, under a path that nobody can guess; every call is answered, with
the policy's completion or with an error; a call whose program has gone away is never a turn; after closing nothing
listens.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from typing import Self

from aiohttp import web

from sandlot.envs.agents.chat_wire import Asked, answered, asked, lines_of, problem, streamed
from sandlot.envs.agents.history import History
from sandlot.errors import Invalid
from sandlot.models import Completion
from sandlot.records import JsonObject, Messages, Tool

_LARGEST = 64 * 2**20
_BEAT = 10.0
"""Seconds between signs of life on a stream: some clients give up on a silent one after 300."""
_GRACE = 1.0
_HOST = "127.0.0.1"
_PATHS = "GET /models, POST /chat/completions"


class CallRefused(Exception):
    """A call that the policy will not answer; `status` is the HTTP status."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class AgentCall:
    """One call of the program. It waits until `answer` or `refuse`."""

    def __init__(self, asked: Asked, *, headers: Mapping[str, str], history: History) -> None:
        self.messages: Messages = history.restored(asked.messages)
        self.tools: list[Tool] = asked.tools
        self.headers = {name.lower(): value for name, value in headers.items()}
        """The request's headers, their names in lower case."""
        self.gone = False
        """Whether the program no longer waits for it."""
        self.reply: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._history = history

    def answer(self, completion: Completion, messages: Messages | None = None) -> None:
        """Sends the completion; `messages` is what was asked in the end, where that was not the call's own."""
        self._history.add(self.messages if messages is None else messages, completion.message)
        if not self.reply.done():
            self.reply.set_result(completion)

    def refuse(self, message: str, *, status: int = 503) -> None:
        """Sends an error instead. Does nothing where the call was answered."""
        if not self.reply.done():
            self.reply.set_exception(CallRefused(message, status=status))
            self.reply.exception()  # Nobody may wait for it any more, which is no fault.


class AgentEndpoint:
    """`await endpoint.open()` makes it answer at `endpoint.url`; `next` gives the program's calls, one by one.

    `model`: the name that it gives itself. The path in `url` is the key, so that any API key will do.
    """

    def __init__(self, *, model: str = "model") -> None:
        self.model = model
        self.url = ""
        """The address of the API, as a client's `base_url`."""
        self._calls: asyncio.Queue[AgentCall] = asyncio.Queue()
        self._open: set[AgentCall] = set()
        self._history = History()
        self._runner: web.AppRunner | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Starts to listen on a free port."""
        root = f"/{secrets.token_hex(16)}/v1"
        app = web.Application(client_max_size=_LARGEST)
        app.router.add_get(f"{root}/models", self._models)
        app.router.add_post(f"{root}/chat/completions", self._chat)
        app.router.add_route("*", "/{path:.*}", _nothing_there)
        # A handler is cancelled when its client goes away: its call is then no turn any more.
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=_GRACE)
        await self._runner.setup()
        await web.TCPSite(self._runner, _HOST, 0).start()
        self.url = f"http://{_HOST}:{self._runner.addresses[0][1]}{root}"

    async def next(self) -> AgentCall:
        """The program's next call, once there is one."""
        while (call := await self._calls.get()).gone:
            continue
        return call

    async def close(self) -> None:
        """Refuses what still waits, and stops listening. A second time it does nothing."""
        self._closed = True
        for call in list(self._open):
            call.refuse("the rollout is over")
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _models(self, _: web.Request) -> web.Response:
        card = {"id": self.model, "object": "model", "created": 0, "owned_by": "sandlot"}
        return web.json_response({"object": "list", "data": [card]})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        try:
            wanted = asked(await request.read())
        except Invalid as error:
            return _refused(error.message, status=400)
        if self._closed:
            return _refused("the rollout is over", status=503)
        call = AgentCall(wanted, headers=request.headers, history=self._history)
        self._open.add(call)
        self._calls.put_nowait(call)
        try:
            if wanted.stream:
                return await self._stream(request, call, wanted)
            return web.json_response(answered(await call.reply, self.model))
        except CallRefused as error:
            return _refused(str(error), status=error.status)
        finally:
            call.gone = True
            self._open.discard(call)

    async def _stream(self, request: web.Request, call: AgentCall, wanted: Asked) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await response.prepare(request)
        while not call.reply.done():
            await asyncio.wait([call.reply], timeout=_BEAT)
            if not call.reply.done():
                await response.write(b": waiting for the policy\n\n")
        with contextlib.suppress(ConnectionError):  # The program has what it wanted, or is gone.
            for line in lines_of(self._events(call, wanted)):
                await response.write(line)
            await response.write_eof()
        return response

    def _events(self, call: AgentCall, wanted: Asked) -> list[JsonObject]:
        try:
            return list(streamed(call.reply.result(), self.model, counts=wanted.counts))
        except CallRefused as error:
            return [problem(str(error), kind="server_error")]


async def _nothing_there(request: web.Request) -> web.Response:
    return _refused(f"there is nothing at {request.method} {request.path}; below the base URL: {_PATHS}", status=404)


def _refused(message: str, *, status: int) -> web.Response:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return web.json_response(problem(message, kind=kind), status=status)
