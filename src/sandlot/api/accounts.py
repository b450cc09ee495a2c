"""Accounts and credentials on the wire."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sandlot.api.wire import Answer, Request

SCOPES = (
    "package:read",
    "package:publish",
    "package:yank",
    "package:delete",
    "package:admin",
    "run:read",
    "run:write",
    "account:read",
    "account:admin",
)
"""Everything that a key may be allowed: `noun:verb`."""

DEFAULT_SCOPES = ("account:read", "package:read", "package:publish", "package:yank", "run:read", "run:write")
"""What a key may do when nothing else was asked for."""


class Account(Answer):
    """Whatever can own: a user or an organisation."""

    name: str
    kind: Literal["user", "organisation"]
    display_name: str = ""
    created_at: str
    """ISO 8601 in UTC."""


class KeyCreate(Request):
    """Asks for a new API key of the caller."""

    name: str = Field(default="key", min_length=1, max_length=100)
    """What the key is for, to tell it from others."""
    scopes: list[str] = Field(default_factory=lambda: list(DEFAULT_SCOPES))
    owner: str | None = None
    """If given, the key acts only on what this account owns."""
    expires_in_days: int | None = Field(default=None, ge=1, le=3650)
    """After how many days it stops to work; never if null."""


class KeyInfo(Answer):
    """An API key without its secret."""

    id: str
    name: str
    prefix: str
    """The first characters of the key, by which its owner knows it."""
    scopes: list[str]
    owner: str | None = None
    created_at: str
    expires_at: str | None = None
    last_used_at: str | None = None


class KeyCreated(KeyInfo):
    """A new key. `secret` is shown this once; the hub keeps only its hash."""

    secret: str


class Login(Request):
    """Trades a name and a password for an API key."""

    name: str
    password: str = Field(repr=False)
    key: KeyCreate = KeyCreate(name="login")


class Me(Answer):
    """Who the credential speaks for, and what it may do."""

    account: Account
    scopes: list[str]
    owners: list[str]
    """The accounts that packages and runs can be put under: one's own first."""


class OrganisationCreate(Request):
    """Makes an organisation; the caller becomes its owner."""

    name: str
    display_name: str = ""


class Member(Answer):
    """One user of an organisation."""

    account: str
    role: Literal["owner", "maintainer", "member", "reader"]


class MemberPut(Request):
    """Adds a user to an organisation or changes the role."""

    role: Literal["owner", "maintainer", "member", "reader"] = "member"
