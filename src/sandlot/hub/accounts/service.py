"""Users, organisations and who belongs to them.

Invariants: a name is never given twice, whatever became of its account; an organisation always has an owner; looking up
an account never makes one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from sandlot import api
from sandlot.hub.accounts.credentials import password_hash
from sandlot.hub.accounts.tables import accounts, audit, members
from sandlot.hub.clock import Clock, stamp
from sandlot.hub.db import Database, upsert
from sandlot.hub.permissions import Role, Viewer
from sandlot.hub.problems import problem
from sandlot.ids import new_id, owner_name

# fmt: off
RESERVED_OWNERS = frozenset({
    "about", "account", "accounts", "admin", "api", "assets", "blog", "boards", "bounties", "compare", "docs",
    "environments", "explore", "favicon", "files", "help", "health", "healthz", "home", "hub", "index", "jobs",
    "keys", "legal", "login", "logout", "me", "metrics", "new", "none", "null", "openapi", "org", "organisation",
    "organisations", "organizations", "orgs", "package", "packages", "people", "privacy", "requests", "robots",
    "root", "run", "runs", "search", "secrets", "security", "settings", "signin", "signout", "signup", "simple",
    "static", "status", "support", "system", "team", "teams", "terms", "undefined", "user", "users", "web", "www",
})
# fmt: on
"""Names that accounts cannot have, because they are, or may become, paths of the hub."""


@dataclass(frozen=True, slots=True)
class Deed:
    """A line of the audit log: what was done to what."""

    action: str
    subject: str
    owner_id: str | None
    detail: Mapping[str, Any] = field(default_factory=dict)


class Accounts:
    """The accounts of a hub."""

    def __init__(self, db: Database, *, now: Clock) -> None:
        self._db = db
        self._now = now

    def create_user(
        self, name: str, *, password: str | None = None, display_name: str = "", admin: bool = False
    ) -> api.Account:
        """A new user; without a password it has keys only. `account_exists`, `name_reserved`, `password_weak`."""
        row = self._new(name, "user", display_name=display_name)
        hashed = None if password is None else password_hash(password)
        row |= {"password_hash": hashed, "admin": admin, "created_by": None}
        with self._db.write() as connection:
            _insert_account(connection, row)
        return _account(row)

    def create_organisation(self, viewer: Viewer, wanted: api.OrganisationCreate) -> api.Account:
        """A new organisation that the viewer owns."""
        if viewer.account_id is None:
            raise problem("unauthorized", "an organisation is made by a user", hint="sandlot login")
        viewer.require("account:admin", viewer.account_id, owner=viewer.name or "")
        row = self._new(wanted.name, "organisation", display_name=wanted.display_name)
        row |= {"password_hash": None, "admin": False, "created_by": viewer.account_id}
        with self._db.write() as connection:
            _insert_account(connection, row)
            self._set_role(connection, row["id"], viewer.account_id, role="owner", by=viewer.account_id)
            deed = Deed("organisation.create", row["name"], owner_id=row["id"])
            record(connection, viewer, deed=deed, at=row["created_at"])
        return _account(row)

    def get(self, name: str) -> api.Account:
        """The account of a name, or `not_found`."""
        with self._db.read() as connection:
            return _account(find_account(connection, name))

    def viewer(self, account_id: str) -> Viewer:
        """A user as a viewer without a key's limits."""
        with self._db.read() as connection:
            return viewer_of(connection, account_id)

    def owners(self, viewer: Viewer) -> list[str]:
        """The names of the accounts that the viewer can publish or run under, its own first."""
        ids = [
            owner for owner in viewer.roles if viewer.may("run:write", owner) or viewer.may("package:publish", owner)
        ]
        with self._db.read() as connection:
            found = connection.execute(sa.select(accounts.c.name).where(accounts.c.id.in_(ids))).scalars()
            return sorted(found, key=lambda name: (name != viewer.name, name))

    def members(self, viewer: Viewer, organisation: str) -> list[api.Member]:
        """Who belongs to an organisation; only its members may know."""
        with self._db.read() as connection:
            row = _organisation(connection, organisation)
            if not viewer.may("account:read", row["id"]):
                raise _no_account(organisation)
            joined = members.join(accounts, members.c.user_id == accounts.c.id)
            query = sa.select(accounts.c.name, members.c.role).select_from(joined)
            found = connection.execute(query.where(members.c.organisation_id == row["id"]).order_by(accounts.c.name))
            return [api.Member(account=name, role=role) for name, role in found]

    def put_member(self, viewer: Viewer, organisation: str, *, user: str, role: Role) -> api.Member:
        """Adds a user to an organisation, or changes the role."""
        with self._db.write() as connection:
            row = self._administered(connection, viewer, organisation)
            account = find_account(connection, user)
            if account["kind"] != "user":
                raise problem("invalid", f"{user} is an organisation; members are users")
            self._set_role(connection, row["id"], account["id"], role=role, by=viewer.account_id)
            _keep_an_owner(connection, row["id"], organisation)
            deed = Deed("member.put", organisation, owner_id=row["id"], detail={"user": user, "role": role})
            record(connection, viewer, deed=deed, at=stamp(self._now()))
        return api.Member(account=account["name"], role=role)

    def remove_member(self, viewer: Viewer, organisation: str, *, user: str) -> None:
        """Takes a user out of an organisation. Users may leave by themselves; the last owner may not."""
        with self._db.write() as connection:
            leaving = viewer.name == user
            row = _organisation(connection, organisation) if leaving else None
            row = row or self._administered(connection, viewer, organisation)
            account = find_account(connection, user)
            where = (members.c.organisation_id == row["id"]) & (members.c.user_id == account["id"])
            if connection.execute(members.delete().where(where)).rowcount == 0:
                raise problem("not_found", f"{user} is not a member of {organisation}")
            _keep_an_owner(connection, row["id"], organisation)
            deed = Deed("member.remove", organisation, owner_id=row["id"], detail={"user": user})
            record(connection, viewer, deed=deed, at=stamp(self._now()))

    def _administered(self, connection: sa.Connection, viewer: Viewer, organisation: str) -> dict[str, Any]:
        row = _organisation(connection, organisation)
        viewer.require("account:admin", row["id"], owner=organisation)
        return row

    def _set_role(
        self, connection: sa.Connection, organisation_id: str, user_id: str, *, role: Role, by: str | None
    ) -> None:
        at = stamp(self._now())
        values = {"organisation_id": organisation_id, "user_id": user_id, "role": role, "updated_at": at}
        upsert(connection, members, values={**values, "created_at": at, "created_by": by})

    def _new(self, name: str, kind: str, *, display_name: str) -> dict[str, Any]:
        owner_name(name)
        if name in RESERVED_OWNERS:
            raise problem("name_reserved", f"{name!r} is a path of the hub and cannot be an account name")
        now = self._now()
        at = stamp(now)
        row = {"id": new_id(now=now), "name": name, "kind": kind, "display_name": display_name}
        return {**row, "created_at": at, "updated_at": at, "disabled_at": None}


def find_account(connection: sa.Connection, name: str) -> dict[str, Any]:
    """The row of an account by its name, or `not_found`."""
    query = sa.select(accounts).where((accounts.c.name == name.lower()) & accounts.c.disabled_at.is_(None))
    row = connection.execute(query).mappings().first()
    if row is None:
        raise _no_account(name)
    return dict(row)


def viewer_of(connection: sa.Connection, account_id: str) -> Viewer:
    """A user as a viewer, with the roles it has now. `key_invalid` if the account is disabled."""
    row = connection.execute(sa.select(accounts).where(accounts.c.id == account_id)).mappings().one()
    if row["disabled_at"] is not None:
        raise problem("key_invalid", f"the account {row['name']} is disabled")
    query = sa.select(members.c.organisation_id, members.c.role).where(members.c.user_id == account_id)
    roles: dict[str, Role] = {account_id: "owner"}
    roles.update({row.organisation_id: row.role for row in connection.execute(query)})
    return Viewer(account_id=account_id, name=row["name"], roles=roles, admin=row["admin"])


def record(connection: sa.Connection, viewer: Viewer, *, deed: Deed, at: str) -> None:
    """Writes to the audit log who did what to what, in the same transaction as the deed."""
    values = {"id": new_id(), "at": at, "actor_id": viewer.account_id, "owner_id": deed.owner_id}
    what = {"action": deed.action, "subject": deed.subject, "detail": dict(deed.detail)}
    connection.execute(audit.insert().values(**values, **what))


def _insert_account(connection: sa.Connection, row: Mapping[str, Any]) -> None:
    if connection.execute(sa.select(accounts.c.id).where(accounts.c.name == row["name"])).first():
        raise problem("account_exists", f"there is an account {row['name']} already")
    connection.execute(accounts.insert().values(**row))


def _organisation(connection: sa.Connection, name: str) -> dict[str, Any]:
    row = find_account(connection, name)
    if row["kind"] != "organisation":
        raise problem("not_found", f"{name} is a user, not an organisation")
    return row


def _keep_an_owner(connection: sa.Connection, organisation_id: str, organisation: str) -> None:
    where = (members.c.organisation_id == organisation_id) & (members.c.role == "owner")
    if not connection.execute(sa.select(members.c.user_id).where(where)).first():
        raise problem("last_owner", f"{organisation} would have no owner", hint="make another member an owner first")


def _account(row: Mapping[str, Any]) -> api.Account:
    return api.Account.model_validate(dict(row))


def _no_account(name: str) -> Exception:
    return problem("not_found", f"there is no account {name}")
