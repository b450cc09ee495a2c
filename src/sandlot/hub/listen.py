"""Serves an application until it is interrupted. Prints nothing itself."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from sandlot.errors import Conflict, Invalid
from sandlot.hub.web import view_app

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def listen(app: FastAPI, *, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serves `app` at `host` and `port` (0: a free one); calls `ready` with its address once it listens.

    `Conflict` if something else listens there, `Invalid` if this machine has no such address.
    """
    opened = _open(host, port)
    server = _Server(uvicorn.Config(app, log_config=None))
    server.ready = lambda: ready(f"http://{_dialled(host)}:{opened.getsockname()[1]}")
    try:
        server.run(sockets=[opened])
    finally:
        opened.close()


def serve_view(root: Path, *, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serves the pages of the runs below `root`. Only this machine can reach them, unless `host` says otherwise."""
    app = view_app(root) if host in _LOOPBACK else view_app(root, names=["*"])
    listen(app, host=host, port=port, ready=ready)


class _Server(uvicorn.Server):
    ready: Callable[[], None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.ready()


def _open(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        opened = socket.socket(found[0], found[1])
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(found[4])
        opened.listen(2048)
    except socket.gaierror as error:
        raise Invalid(f"{host!r} is not an address of this machine: {error.strerror}") from None
    except OverflowError:
        raise Invalid(f"{port} is not a port", hint="use one from 1 to 65535, or 0 for a free one") from None
    except OSError as error:
        raise Conflict(
            f"cannot listen at {host}:{port}: {error.strerror}", hint="another port: --port 0 takes a free one"
        ) from None
    return opened


def _dialled(host: str) -> str:
    """The address at which a server that listens on `host` is reached from this machine."""
    local = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
    return local.get(host, f"[{host}]" if ":" in host else host)
