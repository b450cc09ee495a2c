"""The ways in which an endpoint can fail, on demand."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Literal, TypeAlias, get_args

import msgspec
from aiohttp import web

from sandlot.errors import Invalid
from sandlot.testing.form import Form

FaultKind: TypeAlias = Literal[
    "status", "html", "half", "cut", "reset", "empty", "hang", "drip", "huge", "overlong", "raw",
    "broken", "snapped", "stalled", "flood",
]  # fmt: skip
IN_A_STREAM: frozenset[FaultKind] = frozenset({"broken", "snapped", "stalled", "flood"})
"""Those that begin like an answer that comes in pieces."""

_PAGE = b"<!DOCTYPE html><html><head><title>Bad gateway</title></head><body>upstream error</body></html>"
_HALF = b'{"id":"mock","object":"chat.completion","choices":[{"index":0,"message":{"role":"assi'
_DRIP_SECONDS = 0.02
_HUGE_PIECE = b" " * 65_536


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """How one request goes wrong.

    `status`: an error of `status` with a JSON body. `html`: a page, under `status` if it is given, else 200. `half`:
    half a JSON body, whole for HTTP. `cut`: half a body, and the connection closes. `reset`: the connection closes with
    no answer. `empty`: an answer in which nothing is. `hang`: no answer for `seconds`. `drip`: a byte now and then, for
    `seconds`. `huge`: an answer that does not end. `overlong`: the 400 of a prompt that does not fit. `raw`: `body`,
    under `status` (200 if it is 0) and `content_type`. Of half a stream, `broken` ends it in good order, `snapped`
    closes the connection, `stalled` says nothing more for `seconds`, `flood` repeats its last event without end.
    """

    kind: FaultKind = "status"
    status: int = 0
    message: str = ""
    retry_after: str | None = None
    seconds: float = 3600.0
    body: bytes = b""
    content_type: str = "application/json"

    @classmethod
    def parse(cls, text: str) -> Fault:
        """`429`, `429:2` (with a Retry-After), `html`, `hang:5` … as a fault. `Invalid` names what there is."""
        name, _, rest = text.partition(":")
        if name.isdigit():
            return cls(status=int(name), retry_after=rest or None)
        if name not in get_args(FaultKind) or name in ("status", "raw"):
            kinds = ", ".join(kind for kind in get_args(FaultKind) if kind not in ("status", "raw"))
            raise Invalid(f"{text!r} is no fault; there are {kinds}, and statuses such as 429:2")
        try:
            kind: FaultKind = msgspec.convert(name, FaultKind)
            return cls(kind=kind, seconds=float(rest) if rest else 3600.0)
        except ValueError:
            raise Invalid(f"{text!r}: a number of seconds was expected after the colon") from None


async def fail(fault: Fault, request: web.BaseRequest, form: Form) -> web.StreamResponse:
    """Lets a request go wrong."""
    match fault.kind:
        case "hang":
            await asyncio.sleep(fault.seconds)
            return _json(504, {"error": {"message": "hung"}})
        case "reset":
            _close(request)
            return web.Response()
        case "cut":
            response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
            await response.prepare(request)
            await response.write(_HALF)
            _close(request)
            return response
        case "drip" | "huge":
            return await _endless(fault, request)
        case "half":
            return web.Response(body=_HALF, content_type="application/json")
        case "html":
            return web.Response(status=fault.status or 200, body=_PAGE, content_type="text/html")
        case "empty":
            return _json(200, form.empty())
        case "overlong":
            return _json(400, form.error(400, fault.message or form.overlong, "context_length_exceeded"))
        case "raw":
            return web.Response(status=fault.status or 200, body=fault.body, content_type=fault.content_type)
        case _:
            headers = {"Retry-After": fault.retry_after} if fault.retry_after is not None else {}
            message = fault.message or f"a fault on demand, status {fault.status}"
            status = fault.status or 500
            return _json(status, form.error(status, message), headers)


async def _endless(fault: Fault, request: web.BaseRequest) -> web.StreamResponse:
    """A body that goes on: slowly for `seconds`, or as fast as it is read."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    left = fault.seconds
    with contextlib.suppress(ConnectionError):  # Whoever reads it has had enough.
        while left > 0:
            await response.write(_HUGE_PIECE if fault.kind == "huge" else b" ")
            if fault.kind == "drip":
                await asyncio.sleep(_DRIP_SECONDS)
                left -= _DRIP_SECONDS
    return response


async def stream_on(fault: Fault, request: web.BaseRequest, response: web.StreamResponse, *, last: bytes) -> None:
    """What a fault does to a stream of which half is sent, `last` being its last event."""
    match fault.kind:
        case "snapped":
            _close(request)
        case "stalled":
            await asyncio.sleep(fault.seconds)
        case "flood":
            piece = last * (1 + len(_HUGE_PIECE) // max(1, len(last)))
            with contextlib.suppress(ConnectionError):  # Whoever reads it has had enough.
                while True:
                    await response.write(piece)
        case _:
            await response.write_eof()


def _json(status: int, body: object, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(body), headers=headers, content_type="application/json")


def _close(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()
