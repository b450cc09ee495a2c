"""Names and identities: run ids, package references, normal forms, digests. Pure functions."""

from __future__ import annotations

import hashlib
import re
import secrets
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass

from sandlot.errors import Invalid

_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
_NAME = re.compile(r"^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$")
_OWNER = re.compile(r"^[a-z0-9](?:[a-z0-9-]{0,37}[a-z0-9])?$")


def new_id(*, now: float | None = None, entropy: bytes | None = None) -> str:
    """A 26-character ULID in lower case: sorts by time of creation, safe in URLs and file names.

    `now` is seconds since the epoch (default: the clock), `entropy` ten random bytes (default: the system's).
    """
    milliseconds = int((time.time() if now is None else now) * 1000)
    number = (milliseconds << 80) | int.from_bytes(entropy if entropy is not None else secrets.token_bytes(10), "big")
    characters = []
    for _ in range(26):
        characters.append(_CROCKFORD[number & 31])
        number >>= 5
    return "".join(reversed(characters))


def normal_name(name: str) -> str:
    """The PEP 503 normal form: `GSM_Env`, `gsm.env` and `gsm-env` are one project. `Invalid` if it is no name."""
    if not _NAME.match(name):
        raise Invalid(f"{name!r} is not a package name", hint="use letters, digits, '-', '_' and '.', such as my-env")
    return re.sub(r"[-_.]+", "-", name).lower()


def module_name(name: str) -> str:
    """The import name of a package: `my-env` is `my_env`."""
    return normal_name(name).replace("-", "_")


def owner_name(name: str) -> str:
    """`name`, checked to be an account name: lower-case letters, digits and inner dashes, at most 39."""
    if not _OWNER.match(name):
        raise Invalid(
            f"{name!r} is not an account name",
            hint="use lower-case letters, digits and dashes, at most 39 characters, such as ada",
        )
    return name


@dataclass(frozen=True, slots=True)
class PackageRef:
    """`owner/name@version`. `owner` and `version` are None where they were not given; `latest` means no version."""

    name: str
    owner: str | None = None
    version: str | None = None

    @classmethod
    def parse(cls, text: str) -> PackageRef:
        """Reads `name`, `owner/name`, either with `@version`. `Invalid` says what is wrong."""
        body, at, version = text.partition("@")
        owner, slash, name = body.rpartition("/")
        if (at and not version) or (slash and not owner) or not name:
            raise Invalid(f"{text!r} is not a package reference", hint="write owner/name or owner/name@1.2.0")
        return cls(
            name=normal_name(name),
            owner=owner_name(owner.lower()) if owner else None,
            version=None if version in ("", "latest") else version,
        )

    def __str__(self) -> str:
        return (f"{self.owner}/" if self.owner else "") + self.name + (f"@{self.version}" if self.version else "")


def sha256_hex(content: bytes) -> str:
    """The SHA-256 of `content` in lower-case hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def content_digest(entries: Iterable[tuple[str, bytes]]) -> str:
    """The digest of a set of files, `sha256:…`: over (path, content) sorted by path, every part length-framed.

    Framing means that no two different sets give the same bytes; sorting, that the order of an archive is no matter.
    """
    total = hashlib.sha256()
    for path, content in sorted(entries):
        encoded = path.encode()
        total.update(struct.pack(">Q", len(encoded)) + encoded + struct.pack(">Q", len(content)) + content)
    return f"sha256:{total.hexdigest()}"
