"""Statements over packages, releases and files, and their rows as wire models.

Invariant: what the viewer may not see is never selected, so it cannot be counted, listed or told from what is absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import sqlalchemy as sa

from sandlot import api
from sandlot.hub.accounts.tables import accounts
from sandlot.hub.cursors import decode_cursor, encode_cursor
from sandlot.hub.packages.links import file_path
from sandlot.hub.packages.tables import downloads, files, packages, releases
from sandlot.hub.permissions import Viewer
from sandlot.hub.problems import problem
from sandlot.ids import normal_name, owner_name

Row: TypeAlias = sa.RowMapping
Sort = Literal["updated", "name", "downloads"]

_creator = accounts.alias("creator")


@dataclass(frozen=True, slots=True)
class PackageQuery:
    """Which packages, in which order. Every condition given must hold."""

    text: str = ""
    """Words; each must be in name, owner, summary or tags."""
    owner: str | None = None
    tag: str | None = None
    sort: Sort = "updated"
    cursor: str | None = None
    limit: int = 50


def visible(viewer: Viewer) -> sa.ColumnElement[bool]:
    """The condition that a package may be seen."""
    if viewer.sees_all("package:read"):
        return sa.true()
    return (packages.c.visibility == "public") | packages.c.owner_id.in_(viewer.readable("package:read"))


def find_package(connection: sa.Connection, owner: str, name: str, *, viewer: Viewer) -> Row:
    """A package with its owner's name as `owner`. `not_found` if there is none that the viewer may see."""
    query = sa.select(packages, accounts.c.name.label("owner")).join(accounts, packages.c.owner_id == accounts.c.id)
    query = query.where((accounts.c.name == owner.lower()) & (packages.c.name == normal_name(name)) & visible(viewer))
    row = connection.execute(query).mappings().first()
    if row is None:
        raise problem("not_found", f"there is no package {owner}/{name}, or you may not see it")
    return row


def list_packages(connection: sa.Connection, query: PackageQuery, *, viewer: Viewer) -> api.Page[api.PackageSummary]:
    """The packages that match and may be seen. `bad_cursor`, or `invalid` for a limit that is none."""
    if not 1 <= query.limit <= 200:
        raise problem("invalid", f"limit is {query.limit}", hint="use a number from 1 to 200")
    statement = sa.select(packages, accounts.c.name.label("owner"))
    statement = statement.join(accounts, packages.c.owner_id == accounts.c.id)
    statement = statement.where(visible(viewer) & matching(query))
    statement, sort = _sorted(statement, query)
    rows = connection.execute(statement.limit(query.limit + 1)).mappings().all()
    shown = rows[: query.limit]
    cursor = encode_cursor(query.sort, shown[-1][sort], shown[-1]["id"]) if len(rows) > query.limit else None
    return api.Page(items=[summary_of(row) for row in shown], next_cursor=cursor)


def matching(query: PackageQuery) -> sa.ColumnElement[bool]:
    """The condition of a search. The one place to put a full-text index in."""
    conditions: list[sa.ColumnElement[bool]] = [
        packages.c.search_text.contains(word, autoescape=True) for word in query.text.lower().split()
    ]
    if query.owner is not None:
        conditions.append(accounts.c.name == owner_name(query.owner.lower()))
    if query.tag is not None:
        conditions.append(packages.c.search_text.contains(tag_marker(query.tag), autoescape=True))
    return sa.and_(sa.true(), *conditions)


def search_text(owner: str, name: str, *, summary: str, tags: list[str]) -> str:
    """What a search looks in. Tags stand between marks, so that a tag is found whole."""
    plain = summary.translate({ord("["): " ", ord("]"): " "})
    return f"{owner}/{name} {plain} {' '.join(tag_marker(tag) for tag in tags)}".lower()


def tag_marker(tag: str) -> str:
    """A tag as it stands in `search_text`."""
    return f"[{tag.strip().lower()}]"


def release_rows(connection: sa.Connection, package_id: str) -> list[Row]:
    """A package's releases that are not deleted, with their downloads and the name of who published them."""
    counts = sa.select(files.c.release_id, sa.func.sum(downloads.c.count).label("downloads"))
    counts = counts.join(downloads, downloads.c.file_id == files.c.id).group_by(files.c.release_id)
    counted = counts.subquery()
    query = (
        sa.select(
            releases, _creator.c.name.label("creator"), sa.func.coalesce(counted.c.downloads, 0).label("downloads")
        )
        .join(_creator, releases.c.created_by == _creator.c.id)
        .outerjoin(counted, counted.c.release_id == releases.c.id)
        .where((releases.c.package_id == package_id) & releases.c.deleted_at.is_(None))
    )
    return list(connection.execute(query).mappings())


def file_rows(connection: sa.Connection, release_id: str) -> list[Row]:
    """A release's files with their downloads, the wheel first."""
    count = sa.select(sa.func.coalesce(sa.func.sum(downloads.c.count), 0)).where(downloads.c.file_id == files.c.id)
    query = sa.select(files, count.scalar_subquery().label("downloads")).where(files.c.release_id == release_id)
    return list(connection.execute(query.order_by(files.c.kind.desc())).mappings())


def summary_of(row: Row) -> api.PackageSummary:
    """A row of `list_packages` as a wire model."""
    return api.PackageSummary(**{name: row[name] for name in api.PackageSummary.model_fields})


def release_summary(row: Row) -> api.ReleaseSummary:
    """A row of `release_rows` as a wire model."""
    return api.ReleaseSummary(
        version=row["version"],
        digest=row["digest"],
        created_at=row["created_at"],
        created_by=row["creator"],
        prerelease=row["prerelease"],
        yanked=row["yanked_at"] is not None,
        yanked_reason=row["yanked_reason"] or "",
        downloads=int(row["downloads"]),
    )


def file_info(row: Row, owner: str, *, origin: str) -> api.FileInfo:
    """A row of `file_rows` as a wire model."""
    return api.FileInfo(
        name=row["name"],
        kind=row["kind"],
        size=row["size"],
        sha256=row["sha256"],
        url=origin + file_path(owner, row["sha256"], name=row["name"]),
        uploaded_at=row["created_at"],
        downloads=int(row["downloads"]),
    )


def _sorted(statement: sa.Select[Any], query: PackageQuery) -> tuple[sa.Select[Any], str]:
    column = {"updated": packages.c.updated_at, "name": packages.c.name, "downloads": packages.c.downloads}[query.sort]
    down = query.sort != "name"
    if query.cursor is not None:
        sort, value, last = decode_cursor(query.cursor, str, int if query.sort == "downloads" else str, str)
        if sort != query.sort:
            raise problem("bad_cursor", f"the cursor is of a list by {sort}, not by {query.sort}")
        here = sa.tuple_(column, packages.c.id)
        there = sa.tuple_(sa.literal(value), sa.literal(last))
        statement = statement.where(here < there if down else here > there)
    order = (column.desc(), packages.c.id.desc()) if down else (column, packages.c.id)
    return statement.order_by(*order), column.name
