"""Adds the pages to an application, and gives errors a page of their own when a person asks."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from sandlot.errors import Forbidden, Invalid, NotFound, SandlotError, Unauthorized
from sandlot.hub.web import assets, runs
from sandlot.hub.web.render import machine, page
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


def add_pages(app: FastAPI, site: Site) -> None:
    """Puts the pages of `site` on `app`. The hub adds its own error answers for its API before this."""
    app.state.site = site
    app.add_route("/static/{name}", assets.serve, methods=["GET", "HEAD"])
    app.include_router(runs.router)


def is_page(request: Request) -> bool:
    """Whether a person with a browser asks, so that an error is told in HTML."""
    path = request.url.path
    return not path.startswith(("/api/", "/static/")) and not path.endswith(".json")


def error_page(request: Request, error: Exception) -> Response:
    """The page of an error: what, why, what to do. What broke inside is logged and not shown."""
    status, message, hint = described(error)
    if status == 500:
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    if not is_page(request):
        return machine_error(status, message, hint)
    context = {"status": status, "title": TITLES.get(status, TITLES[500]), "message": message, "hint": hint}
    return page(request, "error.html.j2", context, status=status)


def machine_error(status: int, message: str, hint: str | None) -> Response:
    """An error for a program, in the form of RFC 9457."""
    answer = machine({"title": TITLES.get(status, TITLES[500]), "status": status, "detail": message, "hint": hint})
    answer.status_code = status
    answer.headers["Content-Type"] = "application/problem+json"
    return answer


def described(error: Exception) -> tuple[int, str, str | None]:
    """The HTTP status of an error, and its words for whoever asked."""
    if isinstance(error, SandlotError):
        status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
        return status, error.message, error.hint
    if isinstance(error, HTTPException):
        detail = "" if error.status_code == 404 else str(error.detail)
        return error.status_code, detail or "No page has this address.", None
    return 500, "The server could not make this page. What happened is in its log.", "try again; then read the log"


def to_runs(request: Request) -> Response:
    """The front page where there are only runs."""
    return RedirectResponse("/runs", status_code=307)
