"""The ways in which an endpoint can fail, on demand."""

from __future__ import annotations

import asyncio
from typing import Literal, TypeAlias, get_args

import msgspec
from aiohttp import web

from sandlot.errors import Invalid

FaultKind: TypeAlias = Literal["status", "html", "half", "cut", "reset", "empty", "hang", "overlong"]

_OVERLONG = "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens."
_PAGE = b"<!DOCTYPE html><html><head><title>Bad gateway</title></head><body>upstream error</body></html>"
_HALF = b'{"id":"mock","object":"chat.completion","choices":[{"index":0,"message":{"role":"assi'


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """How one request goes wrong.

    `status`: an error of `status` with a JSON body. `html`: a page, under `status` if it is given, else 200. `half`:
    half a JSON body, whole for HTTP. `cut`: half a body, and the connection closes. `reset`: the connection closes
    with no answer. `empty`: a completion without choices. `hang`: no answer for `seconds`. `overlong`: the 400 of a
    prompt that does not fit.
    """

    kind: FaultKind = "status"
    status: int = 0
    message: str = ""
    retry_after: str | None = None
    seconds: float = 3600.0

    @classmethod
    def parse(cls, text: str) -> Fault:
        """`429`, `429:2` (with a Retry-After), `html`, `hang:5` … as a fault. `Invalid` names what there is."""
        name, _, rest = text.partition(":")
        if name.isdigit():
            return cls(status=int(name), retry_after=rest or None)
        if name not in get_args(FaultKind) or name == "status":
            kinds = ", ".join(kind for kind in get_args(FaultKind) if kind != "status")
            raise Invalid(f"{text!r} is no fault; there are {kinds}, and statuses such as 429:2")
        try:
            kind: FaultKind = msgspec.convert(name, FaultKind)
            return cls(kind=kind, seconds=float(rest) if rest else 3600.0)
        except ValueError:
            raise Invalid(f"{text!r}: a number of seconds was expected after the colon") from None


async def fail(fault: Fault, request: web.BaseRequest) -> web.StreamResponse:
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
        case "half":
            return web.Response(body=_HALF, content_type="application/json")
        case "html":
            return web.Response(status=fault.status or 200, body=_PAGE, content_type="text/html")
        case "empty":
            return _json(200, {"id": "mock", "object": "chat.completion", "choices": []})
        case "overlong":
            error = {"message": fault.message or _OVERLONG, "type": "invalid_request_error"}
            return _json(400, {"error": {**error, "code": "context_length_exceeded"}})
        case _:
            headers = {"Retry-After": fault.retry_after} if fault.retry_after is not None else {}
            message = fault.message or f"a fault on demand, status {fault.status}"
            return _json(fault.status or 500, {"error": {"message": message, "type": "mock_error"}}, headers)


def _json(status: int, body: object, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(body), headers=headers, content_type="application/json")


def _close(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()
