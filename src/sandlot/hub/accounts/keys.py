"""API keys: hashed, scoped, expiring, perhaps bound to one owner.

Invariants: a key never does more than its user may; the secret is shown once; an expired or revoked key is refused with
its own code on the API.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from sandlot import api
from sandlot.hub.accounts.credentials import SHOWN, new_secret, secret_hash
from sandlot.hub.accounts.service import Deed, find_account, record, viewer_of
from sandlot.hub.accounts.tables import accounts, api_keys
from sandlot.hub.clock import Clock, later, stamp
from sandlot.hub.db import Database
from sandlot.hub.permissions import LOCAL, Viewer
from sandlot.hub.problems import problem
from sandlot.ids import new_id

_SEEN_EVERY = 60.0
"""How exact `last_used_at` is, in seconds: a write for each request would cost more than the request."""


class Keys:
    """The API keys of a hub."""

    def __init__(self, db: Database, *, now: Clock) -> None:
        self._db = db
        self._now = now

    def create(self, user: str, wanted: api.KeyCreate | None = None, *, viewer: Viewer = LOCAL) -> api.KeyCreated:
        """A new key of a user. A key that makes another can only give scopes that it has itself."""
        wanted = wanted or api.KeyCreate()
        _check_scopes(wanted, viewer)
        now, secret = self._now(), new_secret()
        with self._db.write() as connection:
            account = find_account(connection, user)
            if account["kind"] != "user":
                raise problem("invalid", f"{user} is an organisation; keys belong to users")
            viewer.require("account:admin", account["id"], owner=user)
            owner_id = self._bound_to(connection, wanted, account_id=account["id"])
            if viewer.only_owner is not None and owner_id != viewer.only_owner:
                raise problem("owner_restricted", "a key that is bound to an owner can only make keys bound to it")
            row = {
                "id": new_id(now=now),
                "account_id": account["id"],
                "owner_id": owner_id,
                "name": wanted.name,
                "prefix": secret[:SHOWN],
                "secret_hash": secret_hash(secret),
                "scopes": sorted(set(wanted.scopes)),
                "created_at": stamp(now),
                "created_by": viewer.account_id or account["id"],
                "expires_at": None if wanted.expires_in_days is None else later(now, days=wanted.expires_in_days),
                "last_used_at": None,
                "revoked_at": None,
            }
            connection.execute(api_keys.insert().values(**row))
            deed = Deed("key.create", wanted.name, owner_id=account["id"], detail={"scopes": row["scopes"]})
            record(connection, viewer, deed=deed, at=stamp(now))
        return api.KeyCreated(**_info({**row, "owner": wanted.owner}).model_dump(), secret=secret)

    def list(self, viewer: Viewer) -> list[api.KeyInfo]:
        """The viewer's keys that are not revoked, the newest first."""
        joined = api_keys.outerjoin(accounts, api_keys.c.owner_id == accounts.c.id)
        query = sa.select(api_keys, accounts.c.name.label("owner")).select_from(joined)
        query = query.where((api_keys.c.account_id == _own(viewer)) & api_keys.c.revoked_at.is_(None))
        with self._db.read() as connection:
            return [_info(dict(row)) for row in connection.execute(query.order_by(api_keys.c.id.desc())).mappings()]

    def revoke(self, viewer: Viewer, key_id: str) -> None:
        """Ends a key of the viewer for good. A key may always end itself."""
        at = stamp(self._now())
        own = (api_keys.c.id == key_id) & (api_keys.c.account_id == _own(viewer)) & api_keys.c.revoked_at.is_(None)
        with self._db.write() as connection:
            if connection.execute(api_keys.update().where(own).values(revoked_at=at)).rowcount == 0:
                raise problem("not_found", f"you have no key {key_id}")
            record(connection, viewer, deed=Deed("key.revoke", key_id, owner_id=viewer.account_id), at=at)

    def authenticate(self, secret: str) -> Viewer:
        """Who holds a key. `key_invalid` if there is no such key (any more), `key_expired`."""
        now = self._now()
        with self._db.read() as connection:
            query = sa.select(api_keys).where(api_keys.c.secret_hash == secret_hash(secret))
            row = connection.execute(query).mappings().first()
            if row is None or row["revoked_at"] is not None:
                raise problem("key_invalid", "the key is not valid", hint="sandlot login")
            if row["expires_at"] is not None and row["expires_at"] <= stamp(now):
                raise problem("key_expired", f"the key expired at {row['expires_at']}", hint="sandlot login")
            user = viewer_of(connection, row["account_id"])
        if row["last_used_at"] is None or row["last_used_at"] < stamp(now - _SEEN_EVERY):
            self._saw(row["id"], stamp(now))
        return Viewer(
            account_id=user.account_id,
            name=user.name,
            roles=user.roles,
            admin=user.admin,
            scopes=frozenset(row["scopes"]),
            only_owner=row["owner_id"],
        )

    def _saw(self, key_id: str, at: str) -> None:
        with self._db.write() as connection:
            connection.execute(api_keys.update().where(api_keys.c.id == key_id).values(last_used_at=at))

    def _bound_to(self, connection: sa.Connection, wanted: api.KeyCreate, *, account_id: str) -> str | None:
        if wanted.owner is None:
            return None
        owner: str = find_account(connection, wanted.owner)["id"]
        if owner not in viewer_of(connection, account_id).roles:
            raise problem("forbidden", f"a key cannot be bound to {wanted.owner}: its user does not belong to it")
        return owner


def _check_scopes(wanted: api.KeyCreate, viewer: Viewer) -> None:
    unknown = [scope for scope in wanted.scopes if scope not in api.SCOPES]
    if unknown:
        raise problem("scope_unknown", f"{unknown[0]!r} is not a scope", hint=f"use some of {', '.join(api.SCOPES)}")
    more = [] if viewer.scopes is None else sorted(set(wanted.scopes) - viewer.scopes)
    if more:
        raise problem("scope_missing", f"this key lacks {', '.join(more)} and cannot give it to another")


def _own(viewer: Viewer) -> str:
    if viewer.account_id is None:
        raise problem("unauthorized", "keys belong to a user", hint="sandlot login")
    return viewer.account_id


def _info(row: dict[str, Any]) -> api.KeyInfo:
    return api.KeyInfo.model_validate(row)
