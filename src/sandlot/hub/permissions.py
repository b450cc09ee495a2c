"""Who asks, and what they may do. Pure: services load a `Viewer` once and ask it.

Invariants: a permission is `noun:verb` on an owner. It needs both the role that the viewer has with that owner and, for
a key, the scope; a key that is bound to an owner may do nothing elsewhere. What may not be read does not exist: readers
of services answer `not_found`, never `forbidden`, for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from sandlot.hub.problems import problem

Role: TypeAlias = Literal["owner", "maintainer", "member", "reader"]

_READ = frozenset({"package:read", "run:read", "account:read"})
_MEMBER = _READ | {"run:write"}
_MAINTAINER = _MEMBER | {"package:publish", "package:yank"}
_OWNER = _MAINTAINER | {"package:delete", "package:admin", "account:admin"}

GRANTS: dict[Role, frozenset[str]] = {
    "owner": _OWNER,
    "maintainer": _MAINTAINER,
    "member": _MEMBER,
    "reader": _READ,
}
"""What each role may do with what the owner has."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who asks. Without an account it is somebody unknown, who sees what is public."""

    account_id: str | None = None
    name: str | None = None
    roles: Mapping[str, Role] = field(default_factory=dict)
    """By the id of the owner: the account itself and its organisations."""
    scopes: frozenset[str] | None = None
    """Of the key; None for a person who signed in, whom no key limits."""
    only_owner: str | None = None
    """The id of the one owner that the key is bound to."""
    admin: bool = False
    """Has the role of an owner with everybody; a key's scopes limit it all the same."""
    everything: bool = False
    """For whoever runs the hub and works on its files directly."""
    origin: str = ""
    """The hub's address as the viewer sees it; absolute URLs begin with it."""

    def at(self, origin: str) -> Viewer:
        """The same viewer, who sees the hub at `origin`."""
        return replace(self, origin=origin)

    def may(self, permission: str, owner_id: str) -> bool:
        """Whether the viewer has `permission` on what `owner_id` owns."""
        if self.everything:
            return True
        role = "owner" if self.admin else self.roles.get(owner_id)
        return role is not None and permission in GRANTS[role] and self._key_allows(permission, owner_id)

    def sees_all(self, permission: str) -> bool:
        """Whether the viewer may read everybody's private things."""
        return self.everything or (self.admin and self.only_owner is None and self._key_allows(permission, ""))

    def readable(self, permission: str) -> tuple[str, ...]:
        """The ids of the owners whose private things the viewer may read."""
        return tuple(owner for owner in self.roles if self.may(permission, owner))

    def require(self, permission: str, owner_id: str, *, owner: str) -> None:
        """Raises `unauthorized`, `scope_missing`, `owner_restricted` or `forbidden` unless `may`."""
        if self.may(permission, owner_id):
            return
        if self.account_id is None:
            raise problem("unauthorized", f"{permission} needs a key", hint="sandlot login")
        if self.scopes is not None and permission not in self.scopes:
            held = ", ".join(sorted(self.scopes)) or "none"
            hint = f"make a key with the scope {permission}"
            raise problem("scope_missing", f"this key lacks the scope {permission}; it has {held}", hint=hint)
        if self.only_owner is not None and owner_id != self.only_owner:
            raise problem("owner_restricted", f"this key is bound to another owner than {owner}")
        raise problem("forbidden", f"{self.name} may not {permission} for {owner}")

    def _key_allows(self, permission: str, owner_id: str) -> bool:
        if self.only_owner is not None and owner_id != self.only_owner:
            return False
        return self.scopes is None or permission in self.scopes


ANYBODY = Viewer()
"""Somebody unknown."""
LOCAL = Viewer(everything=True, name="local")
"""Whoever runs commands on the hub's own files."""
