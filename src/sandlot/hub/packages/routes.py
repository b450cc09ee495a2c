"""Packages, releases and publishing over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field

from sandlot import api
from sandlot.hub.http import ApiViewer, HubOf, body_pieces
from sandlot.hub.packages.queries import PackageQuery, Sort

router = APIRouter(prefix="/api/v1", tags=["packages"])

_RELEASE = "/packages/{owner}/{name}/releases/{version}"


class PackageList(BaseModel):
    """The conditions of a list of packages."""

    model_config = ConfigDict(extra="forbid")

    text: str = ""
    owner: str | None = None
    tag: str | None = None
    sort: Sort = "updated"
    cursor: str | None = None
    limit: int = Field(default=50, ge=1, le=200)


@router.get("/packages")
def list_packages(
    query: Annotated[PackageList, Query()], *, hub: HubOf, viewer: ApiViewer
) -> api.Page[api.PackageSummary]:
    """Packages that match and that the caller may see."""
    return hub.packages.search(PackageQuery(**query.model_dump()), viewer=viewer)


@router.get("/packages/{owner}/{name}")
def get_package(owner: str, name: str, *, hub: HubOf, viewer: ApiViewer) -> api.PackageInfo:
    """A package with its latest release and all of its versions."""
    return hub.packages.get(owner, name, viewer=viewer)


@router.patch("/packages/{owner}/{name}")
def patch_package(owner: str, name: str, *, body: api.PackagePatch, hub: HubOf, viewer: ApiViewer) -> api.PackageInfo:
    """Changes a package."""
    return hub.packages.patch(owner, name, changes=body, viewer=viewer)


@router.get(_RELEASE)
def get_release(owner: str, name: str, *, version: str, hub: HubOf, viewer: ApiViewer) -> api.ReleaseInfo:
    """One release; the version may be `latest`."""
    return hub.packages.release(owner, name, version=version, viewer=viewer)


@router.delete(_RELEASE, status_code=204)
def delete_release(owner: str, name: str, *, version: str, hub: HubOf, viewer: ApiViewer) -> None:
    """Deletes a release for good; its version can never be published again."""
    hub.packages.delete_release(owner, name, version=version, viewer=viewer)


@router.put(_RELEASE + "/yank")
def yank(request: Request, body: api.YankRequest, *, version: str, hub: HubOf, viewer: ApiViewer) -> api.ReleaseInfo:
    """Takes a release out of what is chosen by default."""
    path = request.path_params
    return hub.packages.yank(path["owner"], path["name"], version=version, reason=body.reason, viewer=viewer)


@router.delete(_RELEASE + "/yank")
def unyank(owner: str, name: str, *, version: str, hub: HubOf, viewer: ApiViewer) -> api.ReleaseInfo:
    """Puts a yanked release back."""
    return hub.packages.unyank(owner, name, version=version, viewer=viewer)


@router.get(_RELEASE + "/tree")
def source_tree(owner: str, name: str, *, version: str, hub: HubOf, viewer: ApiViewer) -> api.Page[api.SourceEntry]:
    """The files of a release's source."""
    return api.Page(items=hub.packages.source_tree(owner, name, version=version, viewer=viewer))


@router.get(_RELEASE + "/source")
def source_file(request: Request, path: str, *, hub: HubOf, viewer: ApiViewer) -> api.SourceFile:
    """The text of one file of a release's source."""
    ref = request.path_params
    return hub.packages.source_file(ref["owner"], ref["name"], version=ref["version"], path=path, viewer=viewer)


@router.post("/packages/{owner}/{name}/uploads", status_code=201, responses={200: {"model": api.UploadInfo}})
def begin_upload(
    request: Request,
    response: Response,
    *,
    body: api.UploadCreate,
    hub: HubOf,
    viewer: ApiViewer,
    idempotency_key: Annotated[str | None, Header(max_length=255)] = None,
) -> api.UploadInfo:
    """Announces a release. 200, with `release` set, if the same content is published already."""
    path = request.path_params
    info = hub.publishing.begin(path["owner"], path["name"], wanted=body, viewer=viewer, key=idempotency_key)
    response.status_code = 201 if info.release is None else 200
    return info


@router.put("/uploads/{upload_id}/files/{sha256}", status_code=204)
async def put_file(request: Request, upload_id: str, *, sha256: str, hub: HubOf, viewer: ApiViewer) -> None:
    """Sends the bytes of an announced file, as they are."""

    def take() -> None:
        hub.publishing.put_file(upload_id, sha256, chunks=body_pieces(request), viewer=viewer)

    await run_in_threadpool(take)


@router.post("/uploads/{upload_id}/commit", status_code=201, responses={200: {"model": api.Published}})
def commit_upload(upload_id: str, response: Response, *, hub: HubOf, viewer: ApiViewer) -> api.Published:
    """Shows the release, all or nothing. 200 if the same content had been published in the meantime."""
    published = hub.publishing.commit(upload_id, viewer=viewer)
    response.status_code = 201 if published.created else 200
    return published
