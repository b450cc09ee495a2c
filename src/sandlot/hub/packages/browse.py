"""Looks into the files of a release: names, and the text of one, straight from the archive."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

from sandlot import api
from sandlot.hub.packages.archives import Entry, Limits, sdist_entries, wheel_entries
from sandlot.hub.problems import problem

MOST_TEXT = 512 * 1024
"""How many bytes of a file are shown."""


def list_source(file: BinaryIO, name: str, *, limits: Limits) -> list[api.SourceEntry]:
    """What an archive holds, by path. The one folder that a source archive has at its top is left out."""
    entries = (
        api.SourceEntry(path=_shown(entry, name), size=entry.size) for entry in _entries(file, name, limits=limits)
    )
    return sorted(entries, key=lambda entry: entry.path)


def read_source(file: BinaryIO, name: str, *, path: str, limits: Limits) -> api.SourceFile:
    """One file of `list_source`. `not_found` if there is no such file."""
    for entry in _entries(file, name, limits=limits):
        if _shown(entry, name) == path:
            return _text(path, entry)
    raise problem("not_found", f"{name} has no file {path}")


def _entries(file: BinaryIO, name: str, *, limits: Limits) -> Iterable[Entry]:
    return (
        wheel_entries(file, name, limits=limits) if name.endswith(".whl") else sdist_entries(file, name, limits=limits)
    )


def _shown(entry: Entry, name: str) -> str:
    return entry.path if name.endswith(".whl") else entry.path.partition("/")[2]


def _text(path: str, entry: Entry) -> api.SourceFile:
    content = entry.bytes(MOST_TEXT)
    truncated = entry.size > len(content)
    try:
        text = content.decode("utf-8", errors="ignore" if truncated else "strict")
    except UnicodeDecodeError:
        return api.SourceFile(path=path, size=entry.size, binary=True)
    if "\x00" in text:
        return api.SourceFile(path=path, size=entry.size, binary=True)
    return api.SourceFile(path=path, size=entry.size, text=text, truncated=truncated)
