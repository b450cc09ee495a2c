"""People who signed in with a browser or a password.

Invariants: the cookie's token is kept as a hash; every session has its own CSRF text; an expired session is none.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import sqlalchemy as sa

from sandlot.errors import SandlotError
from sandlot.hub.accounts.credentials import new_session_token, password_fits, secret_hash
from sandlot.hub.accounts.service import viewer_of
from sandlot.hub.accounts.tables import accounts, sessions
from sandlot.hub.clock import Clock, later, stamp
from sandlot.hub.db import Database
from sandlot.hub.permissions import Viewer
from sandlot.hub.problems import problem

MOST_WRONG = 10
"""How many wrong passwords for one name are let pass within `WAIT_SECONDS`."""
WAIT_SECONDS = 300.0
_MOST_NAMES = 10_000


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that is signed in. `token` goes into the cookie, `csrf` into every form."""

    token: str
    csrf: str
    expires_at: str
    viewer: Viewer


class Attempts:
    """Counts wrong passwords by name, in memory: whoever guesses has to wait. Safe to use from threads."""

    def __init__(self, *, now: Clock) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._wrong: dict[str, list[float]] = {}

    def check(self, name: str) -> None:
        """`too_many_attempts` if there were `MOST_WRONG` wrong ones within `WAIT_SECONDS`."""
        with self._lock:
            if len(self._recent(name)) >= MOST_WRONG:
                detail = f"there were {MOST_WRONG} wrong passwords for this name"
                raise problem("too_many_attempts", detail, hint=f"wait {int(WAIT_SECONDS // 60)} minutes")

    def wrong(self, name: str) -> None:
        """Counts one."""
        with self._lock:
            if len(self._wrong) >= _MOST_NAMES:
                self._wrong = {known: recent for known in self._wrong if (recent := self._recent(known))}
            self._wrong[name] = [*self._recent(name), self._now()]

    def _recent(self, name: str) -> list[float]:
        since = self._now() - WAIT_SECONDS
        return [at for at in self._wrong.get(name, []) if at > since]


class Sessions:
    """The sessions of a hub."""

    def __init__(self, db: Database, *, now: Clock, days: int) -> None:
        self._attempts = Attempts(now=now)
        self._db = db
        self._now = now
        self._days = days

    def sign_in(self, name: str, password: str) -> Viewer:
        """Who has this name and password. `password_wrong`, whichever of the two is wrong; `too_many_attempts`."""
        self._attempts.check(name.lower())
        query = sa.select(accounts.c.id, accounts.c.password_hash).where(
            (accounts.c.name == name.lower()) & (accounts.c.kind == "user") & accounts.c.disabled_at.is_(None)
        )
        with self._db.read() as connection:
            row = connection.execute(query).first()
        if not password_fits(password, None if row is None else row.password_hash) or row is None:
            self._attempts.wrong(name.lower())
            raise problem("password_wrong", "the name or the password is wrong")
        with self._db.read() as connection:
            return viewer_of(connection, row.id)

    def start(self, viewer: Viewer) -> Session:
        """A new session of a user."""
        if viewer.account_id is None:
            raise problem("unauthorized", "somebody unknown cannot have a session")
        now = self._now()
        session = Session(new_session_token(), new_session_token(), later(now, days=self._days), viewer)
        row = {
            "token_hash": secret_hash(session.token),
            "account_id": viewer.account_id,
            "csrf": session.csrf,
            "created_at": stamp(now),
            "expires_at": session.expires_at,
        }
        with self._db.write() as connection:
            connection.execute(sessions.delete().where(sessions.c.expires_at <= stamp(now)))
            connection.execute(sessions.insert().values(**row))
        return session

    def get(self, token: str) -> Session | None:
        """The session of a cookie, or None if there is none (any more)."""
        with self._db.read() as connection:
            query = sa.select(sessions).where(sessions.c.token_hash == secret_hash(token))
            row = connection.execute(query).mappings().first()
            if row is None or row["expires_at"] <= stamp(self._now()):
                return None
            try:
                viewer = viewer_of(connection, row["account_id"])
            except SandlotError:
                return None
        return Session(token, row["csrf"], row["expires_at"], viewer)

    def end(self, token: str) -> None:
        """Signs out."""
        with self._db.write() as connection:
            connection.execute(sessions.delete().where(sessions.c.token_hash == secret_hash(token)))
