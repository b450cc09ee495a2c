"""Which release is the latest. Pure.

Invariants: it is what `pip install name` picks: the newest that is neither yanked nor a pre-release by PEP 440, else
the newest pre-release; never the one uploaded last, never by the order of letters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from packaging.version import Version

Item = TypeVar("Item")


def latest_of(candidates: Iterable[tuple[str, Item]]) -> Item | None:
    """The item of the latest version; `candidates` are (version, item) and not yanked. None if there are none."""
    ranked = [((not version.is_prerelease, version), item) for version, item in _parsed(candidates)]
    return max(ranked, key=lambda pair: pair[0])[1] if ranked else None


def newest_first(candidates: Iterable[tuple[str, Item]]) -> list[Item]:
    """The items by version, the newest first."""
    return [item for _, item in sorted(_parsed(candidates), key=lambda pair: pair[0], reverse=True)]


def _parsed(candidates: Iterable[tuple[str, Item]]) -> list[tuple[Version, Item]]:
    return [(Version(text), item) for text, item in candidates]
