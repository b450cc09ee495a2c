"""Packages, releases, files and publishing on the wire.

Publishing has three steps: `POST /packages/{owner}/{name}/uploads` announces the manifest and is told which files the
hub lacks; each of those is sent with `PUT` to its `url`; `POST /uploads/{id}/commit` shows the release, all or nothing.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from sandlot.api.wire import Answer, Request
from sandlot.records import JsonObject

Visibility: TypeAlias = Literal["public", "private"]


class FileInfo(Answer):
    """An artefact of a release."""

    name: str
    kind: Literal["wheel", "sdist"]
    size: int
    """Bytes."""
    sha256: str
    url: str
    """Absolute. With `#sha256=` and the digest it can be given to pip and uv."""
    uploaded_at: str
    downloads: int = 0


class Install(Answer):
    """How to install a release, for each tool one line that can be pasted."""

    requirement: str
    """A PEP 508 direct reference with its hash: `name @ url#sha256=…`."""
    sdk_requirement: str
    """The same for sandlot itself, which every environment needs."""
    sandlot: str
    pip: str
    uv: str


class ReleaseSummary(Answer):
    """An immutable version of a package."""

    version: str
    digest: str
    created_at: str
    created_by: str
    """The user who published it."""
    prerelease: bool = False
    yanked: bool = False
    yanked_reason: str = ""
    downloads: int = 0


class ReleaseInfo(ReleaseSummary):
    """A release with its files, its manifest and the lines that install it."""

    owner: str
    name: str
    files: list[FileInfo]
    manifest: JsonObject
    """A `records.Manifest`: its static part as the hub derived it from the files, its probe as declared."""
    install: Install


class PackageSummary(Answer):
    """One row of a list of packages."""

    owner: str
    name: str
    """In normal form."""
    summary: str = ""
    tags: list[str] = Field(default_factory=list)
    visibility: Visibility
    latest_version: str | None = None
    """The newest that is neither yanked nor a pre-release, else the newest pre-release; null if all are yanked."""
    kind: str = ""
    """Of the environment, as declared: single-turn, multi-turn, tool or harness."""
    license: str = ""
    updated_at: str
    downloads: int = 0


class PackageInfo(PackageSummary):
    """A package with its latest release and all of its versions, the newest first."""

    created_at: str
    latest: ReleaseInfo | None = None
    releases: list[ReleaseSummary] = Field(default_factory=list)


class PackagePatch(Request):
    """Changes a package. What is absent stays."""

    visibility: Visibility | None = None


class UploadCreate(Request):
    """Announces a release."""

    manifest: JsonObject
    """A `records.Manifest` as JSON."""
    visibility: Visibility | None = None
    """Of a new package (default: private). For a package that exists it must agree with what is set, or be null."""


class UploadFile(Answer):
    """A file that the announced release consists of."""

    name: str
    size: int
    sha256: str
    present: bool
    """Whether the hub has these bytes already; then they need not be sent."""
    url: str
    """Absolute; where to PUT the bytes."""


class UploadInfo(Answer):
    """An upload that has begun."""

    id: str
    owner: str
    name: str
    version: str
    expires_at: str
    files: list[UploadFile]
    release: ReleaseInfo | None = None
    """The release, if it is published already with the same content: there is nothing left to do."""


class Published(Answer):
    """The outcome of a commit."""

    created: bool
    """False where the same content had been published before; nothing was changed then."""
    release: ReleaseInfo


class YankRequest(Request):
    """Takes a release out of what is chosen by default. It stays installable by its exact version."""

    reason: str = Field(default="", max_length=1000)


class SourceEntry(Answer):
    """A file inside a release."""

    path: str
    size: int


class SourceFile(Answer):
    """The text of a file inside a release."""

    path: str
    size: int
    binary: bool = False
    """Then there is no text."""
    text: str = ""
    truncated: bool = False
