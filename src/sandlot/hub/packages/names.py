"""Which names a package may have.

Invariants: no package carries the name of a well-known distribution, so an owner's index cannot stand in for a
dependency; none carries a name that is a path under its owner.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib import resources

from sandlot.hub.problems import problem
from sandlot.ids import normal_name

RESERVED_NAMES = frozenset({"simple", "files", "sandlot", "settings", "runs", "packages", "members", "keys"})
"""Paths under an owner, and the SDK itself."""


@cache
def well_known() -> frozenset[str]:
    """The names of well-known distributions, in normal form."""
    text = resources.files("sandlot.hub.packages").joinpath("well_known.txt").read_text(encoding="utf-8")
    lines = (line.split("#")[0].split() for line in text.splitlines())
    return frozenset(normal_name(word) for words in lines for word in words)


def check_package_name(name: str, *, allowed: Collection[str] = ()) -> str:
    """The normal form of a name that a package may have. `invalid` or `name_reserved` else."""
    normal = normal_name(name)
    if normal in RESERVED_NAMES:
        raise problem("name_reserved", f"{normal!r} is reserved and cannot be a package's name")
    if normal in well_known() and normal not in {normal_name(item) for item in allowed}:
        raise problem(
            "name_reserved",
            f"{normal!r} is a well-known distribution; a package of that name would be installed in its place",
            hint=f"choose another name, such as {normal}-env",
        )
    return normal
