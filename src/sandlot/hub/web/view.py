"""The pages of `sandlot view`: the same as the hub's, for the run folders on this machine, without accounts.

Invariants: it only reads; it answers only to names of this machine, so that no other web page can reach it through a
name of its own; unless told otherwise.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.middleware.trustedhost import TrustedHostMiddleware

from sandlot.hub.runs import FolderRuns, RunSource
from sandlot.hub.web.app import add_pages, to_runs
from sandlot.hub.web.site import Site, Viewer

LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


class LocalSite(Site):
    """The runs under one folder, for whoever sits at this machine."""

    local = True

    def __init__(self, root: Path) -> None:
        self.place = str(root)
        self.source = FolderRuns(root)

    def viewer(self, request: Request) -> Viewer | None:
        """Nobody: there are no accounts."""
        return None

    def runs(self, request: Request) -> RunSource:
        """The folder's runs."""
        return self.source


def view_app(root: Path, *, names: Sequence[str] = LOCAL_NAMES) -> FastAPI:
    """The application. `names` are the host names it answers to; `["*"]` for any."""
    site = LocalSite(root)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        site.source.close()

    app = FastAPI(title="Sandlot", lifespan=lifespan, openapi_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(names))
    add_pages(app, site)
    app.add_route("/", to_runs)
    return app
