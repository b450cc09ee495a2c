"""What every route needs: the hub, who asks, and how bytes and problems travel.

Invariants: the API knows a caller by the Authorization header only, never by a cookie, so no page elsewhere can make a
browser act on it; the index takes a bad credential for none, so that it answers 404 and never 401.
"""

from __future__ import annotations

import base64
import binascii
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
