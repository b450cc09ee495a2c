"""Reading uploads without trusting them: wheels and source archives, entry by entry, never unpacked to disk.

Invariants: nothing in an upload is imported or executed; no more is read than the limits allow, whatever the archive
says; an entry that would land outside the archive's own folder, or is a link or a device, refuses the whole file.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from sandlot.hub.problems import problem

_PIECE = 1024 * 1024
_FREE_RATIO_BYTES = 16 * 1024 * 1024
"""An archive that unpacks to less is not asked how well it was packed."""
_MOST_RATIO = 200
_MOST_METADATA = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of an archive is read at most."""

    unpacked_bytes: int
    entries: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in an archive. `read` gives its bytes in pieces."""

    path: str
    size: int
    read: Callable[[], Iterator[bytes]]

    def bytes(self, limit: int | None = None) -> bytes:
        """The content, or its first `limit` bytes."""
        content = bytearray()
        for piece in self.read():
            content += piece
            if limit is not None and len(content) >= limit:
                return bytes(content[:limit])
        return bytes(content)


@dataclass(frozen=True, slots=True)
class WheelContents:
    """What a wheel was found to hold."""

    metadata: bytes
    """The METADATA file."""
    digest: str
    """`ids.content_digest` over all entries."""


def read_wheel(file: BinaryIO, name: str, *, dist_info: str, limits: Limits) -> WheelContents:
    """Checks a wheel whole: every entry's CRC and the hashes in RECORD. `dist_info` is the folder that it must have.

    Raises `wheel_malformed`, `archive_unsafe` or `archive_bomb`, each saying which entry of which file.
    """
    entries = {entry.path: entry for entry in wheel_entries(file, name, limits=limits)}
    folders = {path.split("/")[0] for path in entries if path.split("/")[0].endswith(".dist-info")}
    if {folder.lower() for folder in folders} != {dist_info.lower()}:
        found = ", ".join(sorted(folders)) or "none"
        raise problem("wheel_malformed", f"{name} must have the folder {dist_info}; it has {found}")
    folder = folders.pop()
    for required in ("METADATA", "WHEEL", "RECORD"):
        if f"{folder}/{required}" not in entries:
            raise problem("wheel_malformed", f"{name} has no {folder}/{required}")
    if entries[f"{folder}/METADATA"].size > _MOST_METADATA:
        raise problem("too_large", f"{name}: its METADATA is larger than {_MOST_METADATA} bytes")
    recorded = _recorded(entries[f"{folder}/RECORD"].bytes(), name)
    total = hashlib.sha256()
    for path in sorted(entries):
        _add(total, entries[path], name=name, recorded=None if path == f"{folder}/RECORD" else recorded)
    return WheelContents(entries[f"{folder}/METADATA"].bytes(), f"sha256:{total.hexdigest()}")


def wheel_entries(file: BinaryIO, name: str, *, limits: Limits) -> list[Entry]:
    """The files in a wheel, after its table of contents was found to be safe."""
    try:
        archive = zipfile.ZipFile(file)
        infos = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, UnicodeDecodeError, struct.error) as error:
        raise problem("wheel_malformed", f"{name} is not a zip archive: {error}") from None
    _check_totals(name, sizes=[(info.file_size, info.compress_size) for info in infos], limits=limits)
    entries, seen = [], set[str]()
    for info in infos:
        kind = stat.S_IFMT(info.external_attr >> 16)
        _check_path(info.orig_filename, name)
        if info.is_dir():
            continue
        if kind not in (0, stat.S_IFREG):
            raise problem("archive_unsafe", f"{name}: {info.filename} is a link or a device")
        if info.flag_bits & 1:
            raise problem("wheel_malformed", f"{name}: {info.filename} is encrypted")
        if info.filename in seen:
            raise problem("wheel_malformed", f"{name} has {info.filename} twice")
        seen.add(info.filename)
        entries.append(Entry(info.filename, info.file_size, _zip_reader(archive, info, name=name)))
    return entries


def sdist_entries(file: BinaryIO, name: str, *, limits: Limits) -> Iterator[Entry]:
    """The files in a source archive (`.tar.gz`), in its order; each must be read before the next is asked for.

    Raises `sdist_malformed`, `archive_unsafe` or `archive_bomb`.
    """
    bounded = _BoundedGzip(file, name, limit=limits.unpacked_bytes)
    total = count = 0
    try:
        with tarfile.open(mode="r|", fileobj=bounded, bufsize=_PIECE) as archive:
            for member in archive:
                count, total = count + 1, total + max(member.size, 0)
                if count > limits.entries or total > limits.unpacked_bytes:
                    raise problem("archive_bomb", f"{name} holds more than {limits.entries} files or is too large")
                _check_path(member.name, name)
                if member.isdir():
                    continue
                if not member.isreg():
                    raise problem("archive_unsafe", f"{name}: {member.name} is a link or a device")
                yield Entry(member.name, member.size, _tar_reader(archive, member))
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, UnicodeDecodeError) as error:
        raise problem("sdist_malformed", f"{name} is not a .tar.gz archive: {error}") from None


def _add(total: hashlib._Hash, entry: Entry, *, name: str, recorded: dict[str, str] | None) -> None:
    encoded, own, size = entry.path.encode(), hashlib.sha256(), 0
    total.update(struct.pack(">Q", len(encoded)) + encoded + struct.pack(">Q", entry.size))
    for piece in entry.read():
        size += len(piece)
        total.update(piece)
        own.update(piece)
    if size != entry.size:
        raise problem("wheel_malformed", f"{name}: {entry.path} has {size} bytes, not the {entry.size} it says")
    if recorded is None or entry.path.endswith((".dist-info/RECORD.jws", ".dist-info/RECORD.p7s")):
        return
    expected = recorded.get(entry.path)
    if expected is None:
        raise problem("wheel_malformed", f"{name}: {entry.path} is not listed in RECORD")
    if expected != base64.urlsafe_b64encode(own.digest()).decode().rstrip("="):
        raise problem("wheel_malformed", f"{name}: {entry.path} is not what RECORD says")


def _recorded(text: bytes, name: str) -> dict[str, str]:
    try:
        rows = list(csv.reader(io.StringIO(text.decode())))
    except (UnicodeDecodeError, csv.Error) as error:
        raise problem("wheel_malformed", f"{name}: RECORD cannot be read: {error}") from None
    return {row[0]: row[1].removeprefix("sha256=") for row in rows if len(row) >= 2}


def _check_totals(name: str, *, sizes: list[tuple[int, int]], limits: Limits) -> None:
    unpacked, packed = sum(size for size, _ in sizes), sum(size for _, size in sizes)
    if len(sizes) > limits.entries:
        raise problem("archive_bomb", f"{name} holds {len(sizes)} entries; at most {limits.entries} are taken")
    if unpacked > limits.unpacked_bytes:
        raise problem("archive_bomb", f"{name} unpacks to {unpacked} bytes; at most {limits.unpacked_bytes} are taken")
    if unpacked > _FREE_RATIO_BYTES and unpacked > _MOST_RATIO * max(packed, 1):
        raise problem("archive_bomb", f"{name} unpacks to {unpacked // max(packed, 1)} times its size")


def _check_path(path: str, name: str) -> None:
    parts = path.rstrip("/").split("/")
    odd = "\\" in path or ":" in parts[0] or any(ord(character) < 32 for character in path)
    if odd or any(part in ("", ".", "..") for part in parts):
        raise problem("archive_unsafe", f"{name}: the entry {path!r} is not a plain path inside the archive")


def _zip_reader(archive: zipfile.ZipFile, info: zipfile.ZipInfo, *, name: str) -> Callable[[], Iterator[bytes]]:
    def read() -> Iterator[bytes]:
        try:
            with archive.open(info) as file:
                while piece := file.read(_PIECE):
                    yield piece
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError) as error:
            raise problem("wheel_malformed", f"{name}: {info.filename} cannot be read: {error}") from None

    return read


def _tar_reader(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], Iterator[bytes]]:
    def read() -> Iterator[bytes]:
        file = archive.extractfile(member)
        while file is not None and (piece := file.read(_PIECE)):
            yield piece

    return read


class _BoundedGzip(io.RawIOBase):
    """The bytes in a gzip file, and an end to them: tar's own headers are not believed about sizes."""

    def __init__(self, file: BinaryIO, name: str, *, limit: int) -> None:
        self._file = file
        self._name = name
        self._left = limit + _PIECE
        self._packed = self._unpacked = 0
        self._expander = zlib.decompressobj(wbits=31)
        self._pending = b""

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; `archive_bomb` past the limit or when packed beyond belief."""
        out = bytearray()
        while len(out) < size and not self._expander.eof:
            if not self._pending:
                self._pending = self._file.read(_PIECE)
                self._packed += len(self._pending)
                if not self._pending:
                    raise EOFError("it ends too early")
            piece = self._expander.decompress(self._pending, size - len(out))
            self._pending = self._expander.unconsumed_tail
            self._count(len(piece))
            out += piece
        return bytes(out)

    def _count(self, size: int) -> None:
        self._left -= size
        self._unpacked += size
        beyond = self._unpacked > _FREE_RATIO_BYTES and self._unpacked > _MOST_RATIO * self._packed
        if self._left < 0 or beyond:
            raise problem("archive_bomb", f"{self._name} unpacks to more than is taken")
