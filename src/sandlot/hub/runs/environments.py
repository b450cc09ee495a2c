"""Which package and release a run's environment is.

Invariants: a look-up never makes a package; an owner is never guessed beyond the viewer's own accounts; a run is pinned
only where the digest is that of a release or of one of its files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from sandlot.errors import Invalid, NotFound
from sandlot.hub.accounts.tables import accounts
from sandlot.hub.packages import find_package
from sandlot.hub.packages.tables import files, packages, releases
from sandlot.hub.permissions import Viewer
from sandlot.hub.problems import problem
from sandlot.ids import PackageRef, normal_name
from sandlot.records import EnvironmentRef


def attach(
    connection: sa.Connection, ref: EnvironmentRef, *, owner_id: str, viewer: Viewer, unpublished: bool
) -> dict[str, Any]:
    """The columns of `run_environments` for a reference. `environment_unknown` says how to name it.

    `owner_id` is the owner of the run, whose package is meant first where the reference names no owner.
    """
    name, owner = _named(ref)
    columns = {"owner": owner, "name": name, "version": ref.version, "digest": ref.digest}
    try:
        package = _package(connection, name, owner=owner, owner_id=owner_id, viewer=viewer)
    except NotFound:
        if not unpublished:
            raise
        return {**columns, "package_id": None, "release_id": None}
    columns["owner"] = package["owner"]
    release = _release(connection, package["id"], ref)
    if release is None:
        return {**columns, "package_id": package["id"], "release_id": None}
    columns |= {"version": release["version"], "digest": release["digest"]}
    return {**columns, "package_id": package["id"], "release_id": release["id"]}


def _release(connection: sa.Connection, package_id: str, ref: EnvironmentRef) -> Mapping[str, Any] | None:
    """The release that a digest is of: its own, or a file's, which is all that plain pip and uv put on record."""
    if not ref.digest:
        return None
    file = sa.select(files.c.release_id).where(files.c.sha256 == ref.digest.removeprefix("sha256:"))
    known = (releases.c.digest == ref.digest) | releases.c.id.in_(file)
    query = sa.select(releases).where((releases.c.package_id == package_id) & known & releases.c.deleted_at.is_(None))
    found = connection.execute(query.order_by(releases.c.created_at)).mappings().all()
    same = [row for row in found if ref.version in (None, row["version"])] or found
    return dict(same[0]) if same else None


def _named(ref: EnvironmentRef) -> tuple[str, str | None]:
    """The normal name and the owner that a reference gives."""
    try:
        parsed = PackageRef.parse(ref.id)
    except Invalid:
        parsed = None  # It was asked for by a path.
    if ref.name:
        return normal_name(ref.name), ref.owner or (parsed.owner if parsed and ref.source != "path" else None)
    if parsed is None:
        raise problem("run_invalid", f"the environment {ref.id!r} has no name")
    return parsed.name, ref.owner or parsed.owner


def _package(
    connection: sa.Connection, name: str, *, owner: str | None, owner_id: str, viewer: Viewer
) -> Mapping[str, Any]:
    if owner is not None:
        try:
            return dict(find_package(connection, owner, name, viewer=viewer))
        except NotFound:
            raise _unknown(f"there is no package {owner}/{name}, or you may not see it") from None
    query = sa.select(packages, accounts.c.name.label("owner")).join(accounts, packages.c.owner_id == accounts.c.id)
    query = query.where((packages.c.name == name) & packages.c.owner_id.in_(viewer.readable("package:read")))
    found = [dict(row) for row in connection.execute(query.order_by(accounts.c.name)).mappings()]
    own = [row for row in found if row["owner_id"] == owner_id] or found
    if len(own) == 1:
        return own[0]
    if own:
        several = ", ".join(f"{row['owner']}/{name}" for row in own)
        raise _unknown(f"the run says only {name!r}, which may be any of {several}")
    raise _unknown(f"the run says only {name!r}, and none of your accounts has a package of that name")


def _unknown(message: str) -> Exception:
    hint = "name it as owner/name, publish it with sandlot env push, or say that it is unpublished"
    return problem("environment_unknown", message, hint=hint)
