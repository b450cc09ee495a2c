"""Batches of events as bytes: lines out of a gzip stream, and the form in which they are kept.

Invariants: no more is unpacked than the limits allow; only whole lines are taken; in a kept chunk every line is a gzip
member of its own, so that one event is read by one seek, and the whole chunk is still an ordinary gzip file.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from sandlot.hub.problems import problem

_GZIP = 31
_PIECE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Place:
    """Where an event stands: bytes from `offset` in a chunk."""

    offset: int
    length: int


class LineReader:
    """Splits a batch into its lines; `size` and `sha256` are of the uncompressed bytes read so far."""

    def __init__(self, *, gzipped: bool, max_batch: int, max_line: int) -> None:
        self._gzipped = gzipped
        self._max_batch = max_batch
        self._max_line = max_line
        self._total = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        """Of everything read, in hexadecimal digits."""
        return self._total.hexdigest()

    def lines(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The lines, without their newlines. `batch_invalid` or `too_large` says what is wrong."""
        rest = b""
        for piece in unpacked(chunks) if self._gzipped else chunks:
            self._take(piece)
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield self._checked(line)
            self._checked(rest or b" ")
        if rest:
            raise problem("batch_invalid", "the batch does not end with a newline", hint="send whole lines only")

    def _take(self, piece: bytes) -> None:
        self.size += len(piece)
        if self.size > self._max_batch:
            raise problem("too_large", f"a batch has at most {self._max_batch} bytes", hint="send smaller batches")
        self._total.update(piece)

    def _checked(self, line: bytes) -> bytes:
        if not line:
            raise problem("batch_invalid", "the batch has an empty line")
        if len(line) > self._max_line:
            raise problem("too_large", f"an event has at most {self._max_line} bytes")
        return line


class ChunkWriter:
    """Writes events to a file in the form in which they are kept."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._offset = 0

    def write(self, line: bytes) -> Place:
        """Appends an event and says where it is."""
        packer = zlib.compressobj(level=6, wbits=_GZIP)
        packed = packer.compress(line + b"\n") + packer.flush()
        place = Place(self._offset, len(packed))
        self._file.write(packed)
        self._offset += len(packed)
        return place


def unpack_line(packed: bytes) -> bytes:
    """The event at a place of a chunk, without its newline."""
    return zlib.decompress(packed, wbits=_GZIP).removesuffix(b"\n")


def file_pieces(file: BinaryIO) -> Iterator[bytes]:
    """A file from its beginning, in pieces."""
    file.seek(0)
    while piece := file.read(_PIECE):
        yield piece


def unpacked(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The content of a gzip stream of one or more members, never more than a piece at a time."""
    expander, begun = zlib.decompressobj(wbits=_GZIP), False
    try:
        for chunk in chunks:
            pending = chunk
            while pending:
                begun = True
                if expander.eof:
                    expander = zlib.decompressobj(wbits=_GZIP)
                piece = expander.decompress(pending, _PIECE)
                pending = expander.unused_data if expander.eof else expander.unconsumed_tail
                if piece:
                    yield piece
                elif not expander.eof and not pending:
                    break
    except zlib.error as error:
        raise problem("batch_invalid", f"the batch is not gzip: {error}") from None
    if begun and not expander.eof:
        raise problem("batch_invalid", "the batch's gzip stream ends too early")
