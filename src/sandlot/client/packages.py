"""Packages of a hub: finding, reading, publishing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from sandlot.api import (
    PackageInfo,
    PackageSummary,
    Page,
    Published,
    ReleaseInfo,
    SourceEntry,
    SourceFile,
    UploadCreate,
    UploadInfo,
    Visibility,
    YankRequest,
)
from sandlot.client.connection import Connection
from sandlot.errors import Invalid
from sandlot.ids import PackageRef, sha256_hex
from sandlot.records import Manifest


class Packages:
    """The packages that the key may see."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def search(self, **query: Any) -> Iterator[PackageSummary]:
        """All packages that fit, page by page: `text` (words), `owner`, `tag`, `sort`."""
        cursor: str | None = None
        while True:
            page = self._connection.get("/packages", Page[PackageSummary], cursor=cursor, **query)
            yield from page.items
            cursor = page.next_cursor
            if cursor is None:
                return

    def get(self, ref: PackageRef) -> PackageInfo:
        """A package with its releases. `NotFound` also where it may not be seen."""
        return self._connection.get(_path(ref), PackageInfo)

    def release(self, ref: PackageRef) -> ReleaseInfo:
        """The release that a reference means: the latest one where it names no version."""
        return self._connection.get(_release_path(ref), ReleaseInfo)

    def sources(self, ref: PackageRef) -> list[SourceEntry]:
        """The files inside a release."""
        return self._connection.get(f"{_release_path(ref)}/tree", Page[SourceEntry]).items

    def source(self, ref: PackageRef, file: str) -> SourceFile:
        """The text of one file inside a release."""
        return self._connection.get(f"{_release_path(ref)}/source", SourceFile, path=file)

    def publish(
        self,
        owner: str,
        manifest: Manifest,
        files: Mapping[str, Path],
        *,
        visibility: Visibility | None = None,
    ) -> Published:
        """Publishes a release, all or nothing. `files` are its artefacts by name.

        Publishing unchanged content again changes nothing; other content for a version that exists is a `Conflict`.
        """
        ref = PackageRef.parse(f"{owner}/{manifest.project.name}")
        body = UploadCreate(manifest=msgspec.to_builtins(manifest), visibility=visibility)
        begun = self._connection.ask(
            "POST",
            f"{_path(ref)}/uploads",
            UploadInfo,
            body=body,
            idempotency_key=f"sha256:{sha256_hex(body.model_dump_json().encode())}",
        )
        if begun.release is not None:
            return Published(created=False, release=begun.release)
        for file in begun.files:
            if not file.present:
                content = files[file.name].read_bytes()
                self._connection.send("PUT", file.url, content=content)
        return self._connection.ask("POST", f"/uploads/{begun.id}/commit", Published, idempotency_key=begun.id)

    def yank(self, ref: PackageRef, *, reason: str = "") -> ReleaseInfo:
        """Takes a release out of what is chosen by default."""
        return self._connection.ask("PUT", _yank_path(ref), ReleaseInfo, body=YankRequest(reason=reason))

    def unyank(self, ref: PackageRef) -> ReleaseInfo:
        """Takes a yank back."""
        return self._connection.ask("DELETE", _yank_path(ref), ReleaseInfo)


def _path(ref: PackageRef) -> str:
    if ref.owner is None:
        raise Invalid(f"{ref} does not say whose package it is", hint=f"write owner/{ref.name}")
    return f"/packages/{ref.owner}/{ref.name}"


def _release_path(ref: PackageRef) -> str:
    return f"{_path(ref)}/releases/{quote(ref.version or 'latest', safe='')}"


def _yank_path(ref: PackageRef) -> str:
    if ref.version is None:
        raise Invalid(f"{ref} names no version, and only a release can be yanked", hint=f"write {ref}@1.2.0")
    return f"{_release_path(ref)}/yank"
