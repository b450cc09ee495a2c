"""Publishing a release: announce, send what is missing, commit.

Invariants: a release appears whole or not at all, in one transaction; what it says of itself was read from its wheel by
the hub; a version that was published is never given other content, not even after it was deleted; publishing the same
content again changes nothing. Bytes are never granted for knowing their digest: only what the same owner has already,
or what was sent in this very upload, counts as present.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from sandlot import api
from sandlot.hub.accounts import Deed, find_account, record
from sandlot.hub.accounts.tables import accounts
from sandlot.hub.blobs import Blob, BlobStore
from sandlot.hub.clock import Clock, later, stamp
from sandlot.hub.db import Database, lock
from sandlot.hub.packages.announced import Announced, read_manifest
from sandlot.hub.packages.archives import Limits, read_wheel, sdist_entries
from sandlot.hub.packages.metadata import compare, dist_info_folder, read_project
from sandlot.hub.packages.service import Packages, refresh_latest
from sandlot.hub.packages.tables import files, packages, releases, upload_files, uploads
from sandlot.hub.permissions import LOCAL, Viewer
from sandlot.hub.problems import problem
from sandlot.hub.settings import Settings
from sandlot.ids import new_id
from sandlot.records import Manifest, ReleaseFile


class Publishing:
    """Uploads of a hub."""

    def __init__(self, db: Database, blobs: BlobStore, *, packages: Packages, settings: Settings, now: Clock) -> None:
        self._db = db
        self._blobs = blobs
        self._packages = packages
        self._settings = settings
        self._limits = Limits(settings.max_unpacked_bytes, settings.max_archive_entries)
        self._now = now

    def begin(
        self, owner: str, name: str, *, wanted: api.UploadCreate, viewer: Viewer, key: str | None = None
    ) -> api.UploadInfo:
        """Announces a release. With the same idempotency `key` again, it is the same upload.

        Raises `name_reserved`, `manifest_invalid`, `version_invalid`, `name_mismatch`, `too_large`,
        `visibility_conflict`, `release_exists`, `release_deleted` and what `Viewer.require` raises.
        """
        with self._db.write() as connection:
            account = find_account(connection, owner)
            viewer.require("package:publish", account["id"], owner=owner)
            announced = read_manifest(wanted.manifest, name=name, settings=self._settings)
            release = self._published(connection, account, announced)
            _check_visibility(_package(connection, account["id"], announced.name), wanted.visibility)
            row = self._same_request(connection, key, announced=announced, viewer=viewer)
            more = {"visibility": wanted.visibility, "idempotency_key": key}
            row = row or self._open(connection, announced, account=account, more=more, viewer=viewer)
        info = self._info(row, owner=account["name"], viewer=viewer)
        if release is None:
            return info
        seen = LOCAL.at(viewer.origin)  # Whoever may publish may see what is published, also without package:read.
        known = self._packages.release(owner, announced.name, version=announced.version, viewer=seen)
        return info.model_copy(update={"release": known})

    def put_file(self, upload_id: str, sha256: str, *, chunks: Iterable[bytes], viewer: Viewer) -> None:
        """Takes the bytes of an announced file. `size_mismatch`, `digest_mismatch`, or `not_found` if not announced."""
        with self._db.read() as connection:
            row = self._upload(connection, upload_id, viewer=viewer)
        manifest = msgspec.convert(row["manifest"], Manifest)
        announced = next((file for file in manifest.files if file.sha256 == sha256), None)
        if announced is None:
            raise problem("not_found", f"this upload announced no file with the SHA-256 {sha256}")
        self._blobs.put(chunks, expect=Blob(sha256, announced.size))
        with self._db.write() as connection:
            mine = (upload_files.c.upload_id == upload_id) & (upload_files.c.sha256 == sha256)
            connection.execute(upload_files.update().where(mine).values(received=True))

    def commit(self, upload_id: str, *, viewer: Viewer) -> api.Published:
        """Shows the release. Committing again gives the same answer. Raises as `begin`, and `file_missing`,
        `wheel_malformed`, `sdist_malformed`, `archive_unsafe`, `archive_bomb`, `manifest_mismatch`."""
        with self._db.read() as connection:
            row = self._upload(connection, upload_id, viewer=viewer)
            owner = _owner_name(connection, row["owner_id"])
            missing = [file for file in self._files(connection, row) if not file.present]
        if row["release_id"] is None:
            if missing:
                raise problem("file_missing", f"{missing[0].name} has not been sent", hint="send it, then commit again")
            manifest, metadata_sha256 = self._derive(msgspec.convert(row["manifest"], Manifest))
            row = self._show(row, manifest, metadata_sha256=metadata_sha256, viewer=viewer)
        release = self._packages.release(owner, row["name"], version=row["version"], viewer=LOCAL.at(viewer.origin))
        return api.Published(created=row["created_release"], release=release)

    def _derive(self, declared: Manifest) -> tuple[Manifest, str]:
        """The manifest as the files have it, and the digest under which the wheel's metadata was stored."""
        wheel = next(file for file in declared.files if file.kind == "wheel")
        with self._blobs.open(wheel.sha256) as content:
            folder = dist_info_folder(wheel.name)
            contents = read_wheel(content, wheel.name, dist_info=folder, limits=self._limits)
        project = read_project(contents.metadata, file=wheel.name)
        compare(declared.project, project, file=wheel.name)
        if contents.digest != declared.digest:
            detail = f"the manifest's digest is {declared.digest or 'empty'}, that of {wheel.name} is {contents.digest}"
            raise problem("manifest_mismatch", detail, hint="build and push again: sandlot env push")
        for file in declared.files:
            if file.kind == "sdist":
                self._check_sdist(file, declared)
        tags = declared.project.tags or project.tags
        derived = msgspec.structs.replace(declared, project=msgspec.structs.replace(project, tags=tags))
        return derived, self._blobs.put([contents.metadata]).sha256

    def _check_sdist(self, file: ReleaseFile, declared: Manifest) -> None:
        found = None
        with self._blobs.open(file.sha256) as content:
            for entry in sdist_entries(content, file.name, limits=self._limits):
                if entry.path.count("/") == 1 and entry.path.endswith("/PKG-INFO"):
                    found = read_project(entry.bytes(), file=file.name)
        if found is None:
            raise problem("sdist_malformed", f"{file.name} has no PKG-INFO", hint="build it with a PEP 517 backend")
        same = msgspec.structs.replace(declared.project, name=found.name, version=found.version)
        compare(declared.project, same, file=file.name)

    def _show(
        self, row: Mapping[str, Any], manifest: Manifest, *, metadata_sha256: str, viewer: Viewer
    ) -> dict[str, Any]:
        with self._db.write() as connection:
            lock(connection, accounts.c.id, value=row["owner_id"])
            account = {"id": row["owner_id"], "name": _owner_name(connection, row["owner_id"])}
            viewer.require("package:publish", account["id"], owner=account["name"])
            announced = Announced(row["name"], row["version"], manifest)
            release_id = self._published(connection, account, announced)
            created = release_id is None
            if release_id is None:
                package = self._package_for(connection, announced, account=account, row=row, viewer=viewer)
                release_id = self._insert(connection, announced, package=package, sha256=metadata_sha256, viewer=viewer)
                deed = Deed(
                    "release.publish",
                    f"{account['name']}/{row['name']}@{row['version']}",
                    owner_id=account["id"],
                    detail={"digest": manifest.digest},
                )
                record(connection, viewer, deed=deed, at=stamp(self._now()))
            outcome = {"release_id": release_id, "created_release": created}
            connection.execute(uploads.update().where(uploads.c.id == row["id"]).values(**outcome))
        return {**row, **outcome}

    def _package_for(
        self, connection: sa.Connection, announced: Announced, *, account: Mapping[str, Any], row: Any, viewer: Viewer
    ) -> dict[str, Any]:
        known = _package(connection, account["id"], announced.name)
        _check_visibility(known, row["visibility"])
        if known is not None:
            return {**known, "owner": account["name"]}
        now = self._now()
        by, at = viewer.account_id or account["id"], stamp(now)
        values = {
            "id": new_id(now=now),
            "owner_id": account["id"],
            "name": announced.name,
            "visibility": row["visibility"] or "private",
            "tags": [],
            "created_at": at,
            "created_by": by,
            "updated_at": at,
            "updated_by": by,
        }
        connection.execute(packages.insert().values(**values))
        return {**values, "owner": account["name"]}

    def _insert(
        self, connection: sa.Connection, announced: Announced, *, package: dict[str, Any], sha256: str, viewer: Viewer
    ) -> str:
        now, manifest = self._now(), announced.manifest
        release_id, at, by = new_id(now=now), stamp(now), viewer.account_id or package["owner_id"]
        made = {"owner_id": package["owner_id"], "created_at": at, "created_by": by}
        values = {
            "id": release_id,
            "package_id": package["id"],
            "version": announced.version,
            "prerelease": announced.prerelease,
            "digest": manifest.digest,
            "manifest": msgspec.to_builtins(manifest),
            "requires_python": manifest.project.requires_python,
        }
        connection.execute(releases.insert().values(**values, **made))
        for file in manifest.files:
            columns = {"id": new_id(now=now), "release_id": release_id, **msgspec.to_builtins(file)}
            metadata_sha256 = sha256 if file.kind == "wheel" else None
            connection.execute(files.insert().values(**columns, **made, metadata_sha256=metadata_sha256))
        changes = {**refresh_latest(connection, package), "updated_at": at, "updated_by": by}
        connection.execute(packages.update().where(packages.c.id == package["id"]).values(**changes))
        return release_id

    def _published(self, connection: sa.Connection, account: Mapping[str, Any], announced: Announced) -> str | None:
        """The id of the release of this version, if it has the same content; None if there is none."""
        query = sa.select(releases).join(packages, releases.c.package_id == packages.c.id)
        query = query.where((packages.c.owner_id == account["id"]) & (packages.c.name == announced.name))
        row = connection.execute(query.where(releases.c.version == announced.version)).mappings().first()
        if row is None:
            return None
        ref = f"{account['name']}/{announced.name} {announced.version}"
        hint = "raise the version in pyproject.toml and push again"
        if row["deleted_at"] is not None:
            raise problem("release_deleted", f"{ref} was deleted; its version cannot be used again", hint=hint)
        if row["digest"] != announced.manifest.digest:
            detail = f"{ref} is published with other content ({row['digest']}); a release never changes"
            raise problem("release_exists", detail, hint=hint)
        found: str = row["id"]
        return found

    def _same_request(
        self, connection: sa.Connection, key: str | None, *, announced: Announced, viewer: Viewer
    ) -> dict[str, Any] | None:
        if key is None:
            return None
        mine = (uploads.c.created_by == viewer.account_id) & (uploads.c.idempotency_key == key)
        row = connection.execute(sa.select(uploads).where(mine)).mappings().first()
        if row is None:
            return None
        if row["release_id"] is None and row["expires_at"] <= stamp(self._now()):
            connection.execute(uploads.update().where(uploads.c.id == row["id"]).values(idempotency_key=None))
            return None
        if row["manifest"] != msgspec.to_builtins(announced.manifest) or row["name"] != announced.name:
            raise problem("idempotency_mismatch", f"the Idempotency-Key {key!r} was used for another release")
        return dict(row)

    def _open(
        self,
        connection: sa.Connection,
        announced: Announced,
        *,
        account: Mapping[str, Any],
        more: Mapping[str, Any],
        viewer: Viewer,
    ) -> dict[str, Any]:
        now = self._now()
        row = {
            "id": new_id(now=now),
            "owner_id": account["id"],
            "name": announced.name,
            "version": announced.version,
            "manifest": msgspec.to_builtins(announced.manifest),
            "release_id": None,
            "created_release": False,
            "created_at": stamp(now),
            "created_by": viewer.account_id or account["id"],
            "expires_at": later(now, hours=self._settings.upload_hours),
            **more,
        }
        connection.execute(uploads.insert().values(**row))
        expected = [
            {"upload_id": row["id"], "sha256": file.sha256, "received": False} for file in announced.manifest.files
        ]
        connection.execute(upload_files.insert(), expected)
        return row

    def _upload(self, connection: sa.Connection, upload_id: str, *, viewer: Viewer) -> dict[str, Any]:
        row = connection.execute(sa.select(uploads).where(uploads.c.id == upload_id)).mappings().first()
        if row is None or not (viewer.everything or row["created_by"] == viewer.account_id):
            raise problem("not_found", f"there is no upload {upload_id} of yours")
        viewer.require("package:publish", row["owner_id"], owner="this owner")
        if row["release_id"] is None and row["expires_at"] <= stamp(self._now()):
            raise problem("upload_expired", f"the upload expired at {row['expires_at']}", hint="push again")
        return dict(row)

    def _info(self, row: Mapping[str, Any], *, owner: str, viewer: Viewer) -> api.UploadInfo:
        with self._db.read() as connection:
            found = self._files(connection, row)
        base = f"{viewer.origin}/api/v1/uploads/{row['id']}/files/"
        return api.UploadInfo(
            id=row["id"],
            owner=owner,
            name=row["name"],
            version=row["version"],
            expires_at=row["expires_at"],
            files=[file.model_copy(update={"url": base + file.sha256}) for file in found],
        )

    def _files(self, connection: sa.Connection, row: Mapping[str, Any]) -> list[api.UploadFile]:
        got = sa.select(upload_files.c.sha256).where(
            (upload_files.c.upload_id == row["id"]) & upload_files.c.received.is_(True)
        )
        present = set(connection.execute(got).scalars())
        wanted = [file["sha256"] for file in row["manifest"]["files"]]
        own = sa.select(files.c.sha256).where((files.c.owner_id == row["owner_id"]) & files.c.sha256.in_(wanted))
        present.update(sha256 for sha256 in connection.execute(own).scalars() if self._blobs.has(sha256))
        return [
            api.UploadFile(**{**file, "present": file["sha256"] in present, "url": ""})
            for file in row["manifest"]["files"]
        ]


def _package(connection: sa.Connection, owner_id: str, name: str) -> dict[str, Any] | None:
    query = sa.select(packages).where((packages.c.owner_id == owner_id) & (packages.c.name == name))
    row = connection.execute(query).mappings().first()
    return None if row is None else dict(row)


def _check_visibility(package: Mapping[str, Any] | None, wanted: str | None) -> None:
    if package is not None and wanted is not None and package["visibility"] != wanted:
        detail = f"{package['name']} is {package['visibility']} and {wanted} was asked for"
        raise problem("visibility_conflict", detail, hint="leave it out, or change the package's visibility first")


def _owner_name(connection: sa.Connection, owner_id: str) -> str:
    return str(connection.execute(sa.select(accounts.c.name).where(accounts.c.id == owner_id)).scalar_one())
