"""Where bytes are kept: by the SHA-256 of their content, never by name.

Invariants: what stands under a digest has that digest when it is written; a blob appears whole or not at all, also
through a crash or a full disk; nothing is ever overwritten.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sandlot.hub.problems import problem

CHUNK = 1024 * 1024
"""How many bytes are read or sent at once."""


_BROKEN_OFF_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Blob:
    """What a store says of the bytes that it took."""

    sha256: str
    size: int


class BlobStore(ABC):
    """Content-addressed storage. Digests are SHA-256 in lower-case hexadecimal digits."""

    @abstractmethod
    def put(self, chunks: Iterable[bytes], *, expect: Blob | None = None, limit: int | None = None) -> Blob:
        """Stores bytes. Raises `too_large` past `limit`, `size_mismatch` or `digest_mismatch` unless they are as
        expected; then nothing is stored."""

    @abstractmethod
    def has(self, sha256: str) -> bool:
        """Whether the bytes are there."""

    @abstractmethod
    def size(self, sha256: str) -> int:
        """How many bytes there are. `NotFound` if there are none."""

    @abstractmethod
    def read(self, sha256: str, *, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Bytes from `start`, `length` of them or all, in pieces. `NotFound`, at once, if they are not there."""

    @abstractmethod
    def open(self, sha256: str) -> BinaryIO:
        """A file to read and seek in. `NotFound` if it is not there."""

    def bytes(self, sha256: str, *, start: int = 0, length: int | None = None) -> bytes:
        """`read` in one piece."""
        return b"".join(self.read(sha256, start=start, length=length))


class FileStore(BlobStore):
    """A folder: `ab/cd/<digest>`. Written beside, flushed to the disk, renamed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._incoming = root / "incoming"
        self._incoming.mkdir(parents=True, exist_ok=True)
        self._forget_broken_off()

    def put(self, chunks: Iterable[bytes], *, expect: Blob | None = None, limit: int | None = None) -> Blob:
        most = limit if expect is None else min(expect.size, limit if limit is not None else expect.size)
        descriptor, name = tempfile.mkstemp(dir=self._incoming)
        try:
            with os.fdopen(descriptor, "wb") as file:
                blob = _copy(chunks, file, most=most, expect=expect)
                file.flush()
                os.fsync(file.fileno())
            self._keep(Path(name), blob.sha256)
        finally:
            Path(name).unlink(missing_ok=True)
        return blob

    def has(self, sha256: str) -> bool:
        return self._path(sha256).is_file()

    def size(self, sha256: str) -> int:
        try:
            return self._path(sha256).stat().st_size
        except FileNotFoundError:
            raise _missing(sha256) from None

    def read(self, sha256: str, *, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        return _pieces(self.open(sha256), start, length)

    def open(self, sha256: str) -> BinaryIO:
        try:
            return self._path(sha256).open("rb")
        except FileNotFoundError:
            raise _missing(sha256) from None

    def _forget_broken_off(self) -> None:
        """Deletes what writers that were killed have left behind; one that still writes is younger."""
        for path in self._incoming.iterdir():
            try:
                if path.stat().st_mtime < time.time() - _BROKEN_OFF_SECONDS:
                    path.unlink()
            except FileNotFoundError:
                continue  # Another process that opened the store was faster.

    def _path(self, sha256: str) -> Path:
        return self._root / sha256[:2] / sha256[2:4] / sha256

    def _keep(self, written: Path, sha256: str) -> None:
        target = self._path(sha256)
        if target.is_file():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        os.chmod(written, 0o644)
        os.replace(written, target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # Without it the rename itself may be lost with the power.
        finally:
            os.close(folder)


def _copy(chunks: Iterable[bytes], file: BinaryIO, *, most: int | None, expect: Blob | None) -> Blob:
    total, size = hashlib.sha256(), 0
    for chunk in chunks:
        size += len(chunk)
        if most is not None and size > most:
            if expect is not None and most == expect.size:
                raise problem("size_mismatch", f"more than the announced {expect.size} bytes were sent")
            raise problem("too_large", f"more than {most} bytes were sent")
        total.update(chunk)
        file.write(chunk)
    blob = Blob(total.hexdigest(), size)
    if expect is not None and blob.size != expect.size:
        raise problem("size_mismatch", f"{blob.size} bytes were sent and {expect.size} announced")
    if expect is not None and blob.sha256 != expect.sha256:
        raise problem("digest_mismatch", f"the bytes sent have the SHA-256 {blob.sha256}, not {expect.sha256}")
    return blob


def _pieces(file: BinaryIO, start: int, length: int | None) -> Iterator[bytes]:
    with file:
        file.seek(start)
        left = length
        while left is None or left > 0:
            piece = file.read(CHUNK if left is None else min(CHUNK, left))
            if not piece:
                return
            left = None if left is None else left - len(piece)
            yield piece


def _missing(sha256: str) -> Exception:
    return problem("not_found", f"the store has no bytes with the SHA-256 {sha256}")
