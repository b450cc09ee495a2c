"""What the pages need from the server they stand in: who looks, and where runs and packages come from."""

from __future__ import annotations

from abc import ABC, abstractmethod

import msgspec
from starlette.requests import Request

from sandlot.hub.runs import RunSource


class Viewer(msgspec.Struct, frozen=True, kw_only=True):
    """Who is logged in."""

    name: str
    csrf: str = ""
    """What a form of this session must carry."""


class Site(ABC):
    """One server's answers. Every call is for one request, so that what is seen is what its viewer may see."""

    local = False
    """Whether these are the pages of `sandlot view`: no accounts, no packages."""

    place = ""
    """What the frame says about where one is: a folder or nothing."""

    @abstractmethod
    def viewer(self, request: Request) -> Viewer | None:
        """Who asks, or None for somebody who is not logged in."""

    @abstractmethod
    def runs(self, request: Request) -> RunSource:
        """The runs that the viewer may see."""
