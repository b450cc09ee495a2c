"""The index and its files over HTTP: negotiation, redirects to normal names, ETags, HEAD and ranges."""

from __future__ import annotations

import hashlib
from typing import Literal

from fastapi import APIRouter, BackgroundTasks, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse

from sandlot.hub.blobs import CHUNK
from sandlot.hub.http import HubOf, IndexViewer
from sandlot.hub.packages import index
from sandlot.hub.packages.index import Found
from sandlot.hub.problems import problem
from sandlot.ids import normal_name

router = APIRouter(include_in_schema=False)

_READ = ["GET", "HEAD"]
_BROWSER = "text/html; charset=utf-8"
_OFFERS = {
    index.JSON: index.JSON,
    "application/vnd.pypi.simple.latest+json": index.JSON,
    index.HTML: index.HTML,
    "application/vnd.pypi.simple.latest+html": index.HTML,
    "text/html": _BROWSER,
    "text/*": _BROWSER,
    "*/*": _BROWSER,
}
"""From what a client may accept to what it gets, the best first."""


@router.api_route("/{owner}/simple/", methods=_READ)
def projects(request: Request, owner: str, *, hub: HubOf, viewer: IndexViewer) -> Response:
    """All of an owner's projects."""
    media = _negotiate(request)
    names = hub.index.projects(owner, viewer=viewer)
    body = index.projects_json(names) if media == index.JSON else index.projects_html(names)
    return _page(request, body, media=media)


@router.api_route("/{owner}/simple", methods=_READ)
def projects_without_slash(owner: str) -> Response:
    """The list is at the path with the slash."""
    return RedirectResponse(f"/{owner}/simple/", status_code=301)


@router.api_route("/{owner}/simple/{project}/", methods=_READ)
def project_files(request: Request, owner: str, *, project: str, hub: HubOf, viewer: IndexViewer) -> Response:
    """The files of one project; another spelling of its name leads to the normal one."""
    normal = normal_name(project)
    if normal != project:
        return RedirectResponse(f"/{owner}/simple/{normal}/", status_code=301)
    media = _negotiate(request)
    found = hub.index.files(owner, normal, viewer=viewer)
    write = index.files_json if media == index.JSON else index.files_html
    return _page(request, write(owner, normal, found=found), media=media)


@router.api_route("/{owner}/simple/{project}", methods=_READ)
def project_without_slash(owner: str, project: str) -> Response:
    """The files are at the path with the slash, under the normal name."""
    return RedirectResponse(f"/{owner}/simple/{normal_name(project)}/", status_code=301)


@router.api_route("/{owner}/files/{digest}/{name}", methods=_READ)
def file(request: Request, background: BackgroundTasks, *, hub: HubOf, viewer: IndexViewer) -> Response:
    """A file, or with `.metadata` behind its name its metadata."""
    path = request.path_params
    found = hub.index.find(path["owner"], path["digest"], name=path["name"], viewer=viewer)
    size = hub.blobs.size(found.sha256)
    headers = _file_headers(found)
    if headers["ETag"] in _tags(request, "if-none-match"):
        return Response(status_code=304, headers=headers)
    span = _span(request, size, etag=headers["ETag"])
    if span == "unsatisfiable":
        return Response(status_code=416, headers={"Content-Range": f"bytes */{size}", "Accept-Ranges": "bytes"})
    start, end = (0, size) if span is None else span
    headers["Content-Length"] = str(end - start)
    if span is not None:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    status = 200 if span is None else 206
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers)
    if span is None:
        background.add_task(hub.index.count_download, found)
    if end - start <= CHUNK:
        return Response(hub.blobs.bytes(found.sha256, start=start, length=end - start), status, headers)
    return StreamingResponse(hub.blobs.read(found.sha256, start=start, length=end - start), status, headers)


def _negotiate(request: Request) -> str:
    """The media type that the client likes best. A browser, or a client that does not say, gets HTML."""
    wanted = request.query_params.get("format") or request.headers.get("accept") or "*/*"
    accepted: dict[str, float] = {}
    for part in wanted.split(","):
        name, _, parameters = part.strip().lower().partition(";")
        accepted[name.strip()] = _quality(parameters)
    ranked = [(accepted[name], -rank, media) for rank, (name, media) in enumerate(_OFFERS.items()) if name in accepted]
    quality, _, media = max(ranked, default=(0.0, 0, ""))
    if quality <= 0.0:
        hint = f"accept one of {', '.join(_OFFERS)}"
        raise problem("not_acceptable", f"the index has no form {wanted!r}", hint=hint)
    return media


def _quality(parameters: str) -> float:
    for parameter in parameters.split(";"):
        name, _, value = parameter.strip().partition("=")
        if name == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0


def _page(request: Request, body: bytes, *, media: str) -> Response:
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": etag, "Vary": "Accept, Authorization", "Cache-Control": "no-cache", "Content-Type": media}
    if etag in _tags(request, "if-none-match"):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers)


def _file_headers(found: Found) -> dict[str, str]:
    return {
        "ETag": f'"{found.sha256}"',
        "Accept-Ranges": "bytes",
        "Cache-Control": f"{'private' if found.private else 'public'}, max-age=31536000, immutable",
        "Vary": "Authorization",
        "Content-Type": "text/plain; charset=utf-8" if found.name.endswith(".metadata") else "application/octet-stream",
        "Content-Disposition": f'attachment; filename="{found.name}"',
        "X-Content-Type-Options": "nosniff",
    }


def _tags(request: Request, header: str) -> set[str]:
    return {tag.strip().removeprefix("W/") for tag in request.headers.get(header, "").split(",")}


def _span(request: Request, size: int, *, etag: str) -> tuple[int, int] | Literal["unsatisfiable"] | None:
    """The half-open range asked for; None for the whole, which also answers several ranges or a malformed one."""
    unit, _, ranges = request.headers.get("range", "").partition("=")
    condition = request.headers.get("if-range")
    if unit.strip() != "bytes" or "," in ranges or (condition is not None and condition != etag):
        return None
    first, dash, last = ranges.strip().partition("-")
    if not dash or not (first or last) or not (first + last).isdigit():
        return None
    start, end = (max(size - int(last), 0), size) if not first else (int(first), int(last) + 1 if last else size)
    end = min(end, size)
    return (start, end) if start < end else "unsatisfiable"
