"""What can be asked and changed about packages that are published.

Invariants: a release's files and digest never change; a deleted release leaves a tombstone, so its version is never
given out again; a package's latest release is computed anew in the transaction that changes any of its releases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from sandlot import api
from sandlot.hub.accounts import Deed, record
from sandlot.hub.accounts.tables import accounts
from sandlot.hub.blobs import BlobStore
from sandlot.hub.clock import Clock, stamp
from sandlot.hub.db import Database, lock
from sandlot.hub.packages import queries
from sandlot.hub.packages.archives import Limits
from sandlot.hub.packages.browse import list_source, read_source
from sandlot.hub.packages.links import install_lines, requirement
from sandlot.hub.packages.metadata import canonical_version
from sandlot.hub.packages.queries import PackageQuery, Row
from sandlot.hub.packages.sdk import Sdk
from sandlot.hub.packages.tables import packages, releases
from sandlot.hub.packages.versions import latest_of, newest_first
from sandlot.hub.permissions import Viewer
from sandlot.hub.problems import problem


class Packages:
    """The packages of a hub."""

    def __init__(self, db: Database, blobs: BlobStore, *, sdk: Sdk, limits: Limits, now: Clock) -> None:
        self._db = db
        self._blobs = blobs
        self._sdk = sdk
        self._limits = limits
        self._now = now

    def search(self, query: PackageQuery, *, viewer: Viewer) -> api.Page[api.PackageSummary]:
        """The packages that match and that the viewer may see."""
        with self._db.read() as connection:
            return queries.list_packages(connection, query, viewer=viewer)

    def get(self, owner: str, name: str, *, viewer: Viewer) -> api.PackageInfo:
        """A package with its latest release and all of its versions. `not_found`."""
        with self._db.read() as connection:
            package = queries.find_package(connection, owner, name, viewer=viewer)
            rows = queries.release_rows(connection, package["id"])
            latest = next((row for row in rows if row["id"] == package["latest_id"]), None)
            info = None if latest is None else self._release(connection, package, row=latest, origin=viewer.origin)
        ordered = newest_first((row["version"], row) for row in rows)
        return api.PackageInfo(
            **queries.summary_of(package).model_dump(),
            created_at=package["created_at"],
            latest=info,
            releases=[queries.release_summary(row) for row in ordered],
        )

    def release(self, owner: str, name: str, *, version: str = "latest", viewer: Viewer) -> api.ReleaseInfo:
        """One release; `version` may be `latest`. `not_found` says which is the newest."""
        with self._db.read() as connection:
            package, row = self._find(connection, (owner, name, version), viewer=viewer)
            return self._release(connection, package, row=row, origin=viewer.origin)

    def patch(self, owner: str, name: str, *, changes: api.PackagePatch, viewer: Viewer) -> api.PackageInfo:
        """Changes a package's visibility."""
        with self._db.write() as connection:
            package = queries.find_package(connection, owner, name, viewer=viewer)
            viewer.require("package:admin", package["owner_id"], owner=owner)
            values = changes.model_dump(exclude_none=True)
            if values:
                self._touch(connection, package, viewer=viewer, values=values)
                self._record(connection, viewer, action="package.patch", package=package, detail=values)
        return self.get(owner, name, viewer=viewer)

    def yank(self, owner: str, name: str, *, version: str, reason: str, viewer: Viewer) -> api.ReleaseInfo:
        """Takes a release out of what is chosen by default."""
        values = {"yanked_at": stamp(self._now()), "yanked_reason": reason, "yanked_by": viewer.account_id}
        return self._mark((owner, name, version), "release.yank", values=values, viewer=viewer)

    def unyank(self, owner: str, name: str, *, version: str, viewer: Viewer) -> api.ReleaseInfo:
        """Puts a yanked release back."""
        values = {"yanked_at": None, "yanked_reason": None, "yanked_by": None}
        return self._mark((owner, name, version), "release.unyank", values=values, viewer=viewer)

    def delete_release(self, owner: str, name: str, *, version: str, viewer: Viewer) -> None:
        """Deletes a release for good. Its version can never be published again, whatever its content."""
        with self._db.write() as connection:
            package, row = self._find(connection, (owner, name, version), viewer=viewer)
            viewer.require("package:delete", package["owner_id"], owner=package["owner"])
            values = {"deleted_at": stamp(self._now()), "deleted_by": viewer.account_id}
            connection.execute(releases.update().where(releases.c.id == row["id"]).values(**values))
            self._touch(connection, package, viewer=viewer, values={})
            self._record(
                connection, viewer, action="release.delete", package=package, detail={"version": row["version"]}
            )

    def source_tree(self, owner: str, name: str, *, version: str, viewer: Viewer) -> list[api.SourceEntry]:
        """The files in a release's source archive, or in its wheel where it has none, by path."""
        file = self._source_file((owner, name, version), viewer)
        with self._blobs.open(file["sha256"]) as content:
            return list_source(content, file["name"], limits=self._limits)

    def source_file(self, owner: str, name: str, *, version: str, path: str, viewer: Viewer) -> api.SourceFile:
        """The text of one of `source_tree`, cut where it is very long. `not_found`."""
        file = self._source_file((owner, name, version), viewer)
        with self._blobs.open(file["sha256"]) as content:
            return read_source(content, file["name"], path=path, limits=self._limits)

    def _source_file(self, ref: tuple[str, str, str], viewer: Viewer) -> Row:
        with self._db.read() as connection:
            _, row = self._find(connection, ref, viewer=viewer)
            rows = queries.file_rows(connection, row["id"])
        return next((file for file in rows if file["kind"] == "sdist"), rows[0])

    def _find(self, connection: sa.Connection, ref: tuple[str, str, str], *, viewer: Viewer) -> tuple[Row, Row]:
        owner, name, version = ref
        package = queries.find_package(connection, owner, name, viewer=viewer)
        rows = queries.release_rows(connection, package["id"])
        if version == "latest":
            row = next((row for row in rows if row["id"] == package["latest_id"]), None)
        else:
            wanted = canonical_version(version)
            row = next((row for row in rows if row["version"] == wanted), None)
        if row is None:
            newest = package["latest_version"]
            known = f"the newest is {newest}" if newest else "every release of it is yanked or deleted"
            hint = f"sandlot env info {owner}/{package['name']}"
            raise problem("not_found", f"{owner}/{package['name']} has no release {version}; {known}", hint=hint)
        return package, row

    def _release(self, connection: sa.Connection, package: Row, *, row: Row, origin: str) -> api.ReleaseInfo:
        owner, name, version = package["owner"], package["name"], row["version"]
        found = [queries.file_info(file, owner, origin=origin) for file in queries.file_rows(connection, row["id"])]
        wheel = next(file for file in found if file.kind == "wheel")
        direct = requirement(name, wheel.url, sha256=wheel.sha256)
        sdk = self._sdk.requirement(connection, owner, origin=origin)
        return api.ReleaseInfo(
            **queries.release_summary(row).model_dump(),
            owner=owner,
            name=name,
            files=found,
            manifest=row["manifest"],
            install=install_lines(f"{owner}/{name}@{version}", direct, sdk=sdk),
        )

    def _mark(
        self, ref: tuple[str, str, str], action: str, *, values: dict[str, Any], viewer: Viewer
    ) -> api.ReleaseInfo:
        with self._db.write() as connection:
            package, row = self._find(connection, ref, viewer=viewer)
            viewer.require("package:yank", package["owner_id"], owner=package["owner"])
            connection.execute(releases.update().where(releases.c.id == row["id"]).values(**values))
            self._touch(connection, package, viewer=viewer, values={})
            detail = {"version": row["version"], "reason": values["yanked_reason"]}
            self._record(connection, viewer, action=action, package=package, detail=detail)
        return self.release(ref[0], ref[1], version=row["version"], viewer=viewer)

    def _touch(self, connection: sa.Connection, package: Row, *, viewer: Viewer, values: dict[str, Any]) -> None:
        lock(connection, accounts.c.id, value=package["owner_id"])
        latest = refresh_latest(connection, dict(package))
        changes = {"updated_at": stamp(self._now()), "updated_by": viewer.account_id or package["updated_by"]}
        connection.execute(
            packages.update().where(packages.c.id == package["id"]).values(**latest, **changes, **values)
        )

    def _record(
        self, connection: sa.Connection, viewer: Viewer, *, action: str, package: Row, detail: dict[str, Any]
    ) -> None:
        subject = f"{package['owner']}/{package['name']}"
        deed = Deed(action, subject, owner_id=package["owner_id"], detail=detail)
        record(connection, viewer, deed=deed, at=stamp(self._now()))


def refresh_latest(connection: sa.Connection, package: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a package that follow from its releases: which is the latest, and what that says."""
    query = sa.select(releases).where(
        (releases.c.package_id == package["id"]) & releases.c.deleted_at.is_(None) & releases.c.yanked_at.is_(None)
    )
    rows = connection.execute(query).mappings().all()
    latest = latest_of((row["version"], row) for row in rows)
    if latest is None:
        return {"latest_id": None, "latest_version": None}
    return {
        "latest_id": latest["id"],
        "latest_version": latest["version"],
        **described(latest["manifest"], owner=package["owner"], name=package["name"]),
    }


def described(manifest: dict[str, Any], *, owner: str, name: str) -> dict[str, Any]:
    """The columns of a package that repeat its latest release's manifest, for lists and searches."""
    project = manifest["project"]
    summary, tags = project.get("summary", ""), project.get("tags", [])
    return {
        "summary": summary,
        "tags": tags,
        "kind": (manifest.get("probe") or {}).get("kind", ""),
        "license": project.get("license", ""),
        "search_text": queries.search_text(owner, name, summary=summary, tags=tags),
    }
