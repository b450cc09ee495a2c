"""What every route needs: the hub, who asks, and how bytes and problems travel.

Invariants: the API knows a caller by the Authorization header only, never by a cookie, so no page elsewhere can make a
browser act on it; the index takes a bad credential for none, so that it answers 404 and never 401.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

import anyio.from_thread
from fastapi import Depends, Request, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sandlot.api import PROBLEM_TYPE, Problem
from sandlot.errors import SandlotError
from sandlot.hub.permissions import ANYBODY, Viewer
from sandlot.hub.problems import problem
from sandlot.hub.services import Hub

SESSION_COOKIE = "sandlot_session"
MOST_BODY = 16 * 1024 * 1024
"""The largest body of a request that is read whole, in bytes."""

_STREAMED = re.compile(r"^/api/v1/(uploads/[^/]+/files/[^/]+|runs/[^/]+/batches)$")


def hub_of(request: Request) -> Hub:
    """The hub that the application was made with."""
    hub: Hub = request.app.state.hub
    return hub


def origin_of(request: Request) -> str:
    """The address at which this request found the hub, without a slash at its end."""
    public: str = hub_of(request).settings.public_url
    return public or str(request.base_url).rstrip("/")


def api_viewer(request: Request) -> Viewer:
    """Who calls the API. A bad credential is an error here: `key_invalid` or `key_expired`."""
    secret = _credential(request)
    viewer = ANYBODY if secret is None else hub_of(request).keys.authenticate(secret)
    return viewer.at(origin_of(request))


def index_viewer(request: Request) -> Viewer:
    """Who reads the index. A bad credential is none."""
    try:
        return api_viewer(request)
    except SandlotError:
        return ANYBODY.at(origin_of(request))


def page_viewer(request: Request) -> Viewer:
    """Who looks at a page: by the session's cookie, else by a key. What is bad or expired is none."""
    token = request.cookies.get(SESSION_COOKIE)
    session = hub_of(request).sessions.get(token) if token else None
    return session.viewer.at(origin_of(request)) if session else index_viewer(request)


HubOf = Annotated[Hub, Depends(hub_of)]
ApiViewer = Annotated[Viewer, Depends(api_viewer)]
IndexViewer = Annotated[Viewer, Depends(index_viewer)]
PageViewer = Annotated[Viewer, Depends(page_viewer)]


def problem_response(document: Problem) -> Response:
    """A problem document as an answer."""
    headers = {"WWW-Authenticate": 'Bearer realm="sandlot"'} if document.status == 401 else {}
    body = document.model_dump_json(exclude_none=True)
    return Response(body, status_code=document.status, media_type=PROBLEM_TYPE, headers=headers)


class BodyLimit:
    """Refuses bodies that are too large for what reads them whole. Files and batches come in pieces and go past it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or _STREAMED.search(scope["path"]):
            await self._app(scope, receive, send)
            return
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > MOST_BODY:
                raise HTTPException(413, f"a body has at most {MOST_BODY} bytes")
            return message

        await self._app(scope, counted, send)


class ETags:
    """Gives the answers of the API an ETag, and 304 to who has them already."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].startswith("/api/v1/"):
            await self._app(scope, receive, send)
            return
        held: list[Message] = []

        async def tagged(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                held.append(message)
                return
            if held and message["type"] == "http.response.body":
                whole = not message.get("more_body")
                start, message = _with_etag(scope, held.pop(), message) if whole else (held.pop(), message)
                await send(start)
            await send(message)

        await self._app(scope, receive, tagged)


def _with_etag(scope: Scope, start: Message, body: Message) -> tuple[Message, Message]:
    """An answer of one piece, with its ETag; without its body if that is what the client has."""
    etag = f'"{hashlib.sha256(body.get("body", b"")).hexdigest()[:32]}"'.encode()
    known = dict(scope["headers"]).get(b"if-none-match", b"")
    tags = [tag.strip().removeprefix(b"W/") for tag in known.split(b",")]
    headers = [
        *start["headers"],
        (b"etag", etag),
        (b"vary", b"Authorization"),
        (b"cache-control", b"private, no-cache"),
    ]
    if etag not in tags:
        return {**start, "headers": headers}, body
    kept = [(name, value) for name, value in headers if name not in (b"content-length", b"content-type")]
    return {**start, "status": 304, "headers": kept}, {**body, "body": b""}


def body_pieces(request: Request) -> Iterator[bytes]:
    """The body of a request as it comes, for code that runs in a thread of the pool."""
    stream = request.stream()
    while (piece := anyio.from_thread.run(_next, stream)) is not None:
        yield piece


async def _next(stream: AsyncIterator[bytes]) -> bytes | None:
    return await anext(stream, None)


def _credential(request: Request) -> str | None:
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    if not value.strip():
        return None
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() == "basic":
        return _basic(value.strip())
    raise problem("key_invalid", f"the hub does not know the credential {kind!r}", hint="send it as Bearer")


def _basic(value: str) -> str:
    """The key in `__token__:key`, as pip and uv send it."""
    try:
        user, _, secret = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise problem("key_invalid", "the Basic credential cannot be read") from None
    if user != "__token__":
        raise problem("key_invalid", f"the user of a Basic credential is __token__, found {user!r}")
    return secret
