"""The hub as a web application, and the server that runs it.

Invariants: every error is a problem document with a stable code; an unexpected one says nothing of the hub's insides.
Services are synchronous and run in the thread pool.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import IntegrityError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from sandlot.errors import SandlotError
from sandlot.hub.accounts.routes import router as accounts_router
from sandlot.hub.clock import Clock
from sandlot.hub.http import BodyLimit, ETags, problem_response
from sandlot.hub.listen import listen
from sandlot.hub.packages.index_routes import router as index_router
from sandlot.hub.packages.routes import router as packages_router
from sandlot.hub.problems import document, plain
from sandlot.hub.runs.routes import router as runs_router
from sandlot.hub.services import open_hub
from sandlot.hub.settings import Settings
from sandlot.hub.web import add_hub_pages

_log = logging.getLogger("sandlot.hub")


def create_app(settings: Settings | None = None, *, now: Clock = time.time) -> FastAPI:
    """The application of a hub, which stands in `app.state.hub`. An empty data folder works."""
    hub = open_hub(settings or Settings(), now=now)
    hub.serve_sdk()
    app = FastAPI(
        title="Sandlot hub",
        version="1",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        redirect_slashes=False,
    )
    app.state.hub = hub
    app.state.packages = hub.packages
    app.add_exception_handler(SandlotError, _known)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _plain)
    app.add_exception_handler(IntegrityError, _raced)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _unexpected)
    app.add_middleware(BodyLimit)
    app.add_middleware(ETags)
    app.add_api_route("/healthz", _health, include_in_schema=False)
    for router in (accounts_router, packages_router, runs_router, index_router):
        app.include_router(router)
    # The pages come last: their paths, /{owner}/{name}, would take in everything above.
    add_hub_pages(app, hub.run_source)
    return app


def serve(settings: Settings, *, ready: Callable[[str], None]) -> None:
    """Runs a hub until it is interrupted; calls `ready` with its address once it listens. Prints nothing itself."""
    listen(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        ready=lambda address: ready(settings.public_url or address),
    )


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    app.state.hub.close()


def _health() -> dict[str, str]:
    return {"status": "ok"}


def _known(_: Request, error: Exception) -> Response:
    assert isinstance(error, SandlotError)
    return problem_response(document(error))


def _malformed(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = "; ".join(f"{'.'.join(map(str, entry['loc']))}: {entry['msg']}" for entry in error.errors())
    return problem_response(plain(422, problems, code="bad_request"))


def _plain(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}.get(error.status_code, "error")
    return problem_response(plain(error.status_code, str(error.detail), code=code))


def _raced(_: Request, error: Exception) -> Response:
    """Two callers did the same thing at once, and the database let one of them."""
    return problem_response(plain(409, "somebody changed the same thing at this moment; try again", code="conflict"))


def _gone(_: Request, error: Exception) -> Response:
    """The client broke off while it was sending; nobody reads this."""
    return problem_response(plain(400, "the request broke off", code="bad_request"))


def _unexpected(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem_response(plain(500, "the hub failed; its log says why", code="internal"))
