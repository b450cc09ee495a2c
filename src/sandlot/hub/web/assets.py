"""The style sheet, the scripts and the icon, from memory, under names that change with their content."""

from __future__ import annotations

import hashlib
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from sandlot.errors import NotFound

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

FOR_EVER = "public, max-age=31536000, immutable"


def _load() -> dict[str, tuple[bytes, str, str]]:
    loaded = {}
    for entry in files("sandlot.hub.web").joinpath("static").iterdir():
        kind = _TYPES.get(entry.name.rpartition(".")[2])
        if kind:
            content = entry.read_bytes()
            loaded[entry.name] = (content, kind, hashlib.sha256(content).hexdigest()[:12])
    return loaded


_FILES = _load()


def address(name: str) -> str:
    """Where the page finds the file `name`; other content has another address. `KeyError` if there is no such file."""
    return f"/static/{name}?v={_FILES[name][2]}"


def serve(request: Request) -> Response:
    """One of the files. It may be kept for ever by whoever asked for this very content."""
    name = request.path_params["name"]
    found = _FILES.get(name)
    if found is None:
        raise NotFound(f"there is no file {name}")
    content, kind, version = found
    fresh = request.query_params.get("v") == version
    headers = {
        "Cache-Control": FOR_EVER if fresh else "no-cache",
        "ETag": f'"{version}"',
        "X-Content-Type-Options": "nosniff",
    }
    if request.headers.get("if-none-match") == f'"{version}"':
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=kind, headers=headers)
