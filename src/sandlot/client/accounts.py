"""Accounts and keys of a hub."""

from __future__ import annotations

from sandlot.api import KeyCreate, KeyCreated, Login, Me
from sandlot.client.connection import Connection


class Accounts:
    """Who one is at a hub, and one's keys."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def me(self) -> Me:
        """Whom the key speaks for. `Unauthorized` without a valid one."""
        return self._connection.get("/me", Me)

    def login(self, name: str, password: str, *, key: KeyCreate) -> KeyCreated:
        """A new key in exchange for a password. `Unauthorized` if that is wrong."""
        return self._connection.ask("POST", "/login", KeyCreated, body=Login(name=name, password=password, key=key))

    def create_key(self, wanted: KeyCreate) -> KeyCreated:
        """A new key of the caller. Its secret is in this answer only."""
        return self._connection.ask("POST", "/keys", KeyCreated, body=wanted)
