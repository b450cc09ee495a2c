"""Secrets: how they are made and what is kept of them.

Invariants: an API key is 256 random bits, so a plain hash keeps it safe; a password is kept as argon2id only. Nothing
here can be turned back into the secret.
"""

from __future__ import annotations

import secrets

import argon2

from sandlot.hub.problems import problem
from sandlot.ids import sha256_hex

KEY_PREFIX = "slk_"
SHOWN = len(KEY_PREFIX) + 8
"""How many characters of a key are kept in clear, to tell it from others."""
LEAST_PASSWORD = 8

_passwords = argon2.PasswordHasher()
_DECOY = _passwords.hash("a password that nobody has")


def new_secret() -> str:
    """A new API key."""
    return KEY_PREFIX + secrets.token_urlsafe(32)


def new_session_token() -> str:
    """A new random text for a cookie or a form."""
    return secrets.token_urlsafe(32)


def secret_hash(secret: str) -> str:
    """What is stored of a key or a session's token."""
    return sha256_hex(secret.encode())


def password_hash(password: str) -> str:
    """What is stored of a password. `password_weak` if it is shorter than `LEAST_PASSWORD` characters."""
    if len(password) < LEAST_PASSWORD:
        raise problem("password_weak", f"a password needs {LEAST_PASSWORD} characters, this one has {len(password)}")
    return _passwords.hash(password)


def password_fits(password: str, stored: str | None) -> bool:
    """Whether it is the password. It takes as long for an account that is not there, so that names cannot be tried."""
    try:
        return _passwords.verify(stored or _DECOY, password) and stored is not None
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False
