"""Adds the pages to an application, and gives errors a page of their own when a person asks."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from sandlot.errors import Forbidden, Invalid, NotFound, SandlotError, Unauthorized
from sandlot.hub.web import assets, compare, export, runs
from sandlot.hub.web.render import machine, page, warm
from sandlot.hub.web.site import Site

_log = logging.getLogger(__name__)

STATUS: dict[type[SandlotError], int] = {Invalid: 400, Unauthorized: 401, Forbidden: 403, NotFound: 404}

TITLES = {
    400: "That address cannot be read",
    401: "Log in to see this",
    403: "You may not do this",
    404: "There is nothing here",
    405: "That cannot be done here",
    500: "Something broke on the server",
}

_WORDS = {404: "No page has this address.", 405: "This address does not take what was sent to it."}


def add_pages(app: FastAPI, site: Site, *routers: APIRouter) -> None:
    """Puts the pages of `site` on `app`, and `routers` after them; the last things that are added to it.

    What answered errors until now goes on to do so for programs; a person gets a page.
    """
    app.state.site = site
    warm()
    app.add_route("/static/{name}", assets.serve, methods=["GET", "HEAD"])
    for router in (export.router, runs.router, compare.router, *routers):
        app.include_router(router)
    for kind in (SandlotError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _with_pages(app.exception_handlers.get(kind)))


Answerer: TypeAlias = Callable[[Request, Exception], Response | Awaitable[Response]]


def _with_pages(before: Answerer | None) -> Answerer:
    """An error's page for a person; for a program what `before` answers."""

    async def answer(request: Request, error: Exception) -> Response:
        if before is None or _is_default(before) or is_page(request):
            return await run_in_threadpool(error_page, request, error)
        answered = before(request, error)
        return await answered if inspect.isawaitable(answered) else answered

    return answer


def _is_default(before: Answerer) -> bool:
    """Whether it is FastAPI's own, whose answers are not problem documents."""
    return before.__module__.startswith("fastapi.")


def is_page(request: Request) -> bool:
    """Whether a person with a browser asks, so that an error is told in HTML."""
    parts = request.url.path.split("/")
    if parts[1] in ("api", "static", "healthz") or request.url.path.endswith(".json"):
        return False
    return len(parts) < 3 or parts[2] not in ("simple", "files")


def error_page(request: Request, error: Exception) -> Response:
    """The page of an error: what, why, what to do. What broke inside is logged and not shown."""
    status, message, hint = described(error)
    if status == 500 and not isinstance(error, SandlotError):
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    if not is_page(request):
        answer = machine({"title": TITLES.get(status, TITLES[500]), "status": status, "detail": message, "hint": hint})
        answer.status_code = status
        answer.headers["Content-Type"] = "application/problem+json"
        return answer
    context = {"status": status, "title": TITLES.get(status, TITLES[500]), "message": message, "hint": hint}
    return page(request, "error.html.j2", context, status=status)


def described(error: Exception) -> tuple[int, str, str | None]:
    """The HTTP status of an error, and its words for whoever asked."""
    if isinstance(error, SandlotError):
        status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
        return status, error.message, error.hint
    if isinstance(error, HTTPException):
        return error.status_code, _WORDS.get(error.status_code, str(error.detail)), None
    if isinstance(error, RequestValidationError):
        return 400, "A part of the address or of the form is not what was expected.", None
    return 500, "The server could not make this page. What happened is in its log.", "try again; then read the log"


def to_runs(request: Request) -> Response:
    """The front page where there are only runs."""
    return RedirectResponse("/runs", status_code=307)
