"""Reads an endpoint's answer: in one piece, or piece by piece.

Invariants: no more is read than the endpoint may send; an answer that breaks off is an error, never a short answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import aiohttp
import msgspec

from sandlot.models.dialects import Dialect
from sandlot.records import JsonObject

_EVENTS = "text/event-stream"
_DONE = b"[DONE]"
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What reading an answer raises that is not in its dialect's form: any value may stand where another one should."""


class TooLong(Exception):
    """The answer is longer than it may be."""


class BrokenOff(Exception):
    """A stream ended before the answer did."""


async def read_answer(response: aiohttp.ClientResponse, dialect: Dialect, *, most: int) -> bytes | JsonObject:
    """The body: bytes, or an object where it came as events. `TooLong` and `BrokenOff` as said there."""
    if response.status == 200 and response.content_type == _EVENTS:
        return await _assembled(response, dialect, most)
    length = response.content_length
    if length is not None and length <= most and "Content-Encoding" not in response.headers:
        return await response.read()
    if length is not None and length > most:
        raise TooLong
    pieces: list[bytes] = []
    async for piece in response.content.iter_any():
        pieces.append(piece)
        most -= len(piece)
        if most < 0:
            raise TooLong
    return b"".join(pieces)


def reason_of(error: Exception) -> str:
    """Why an answer could not be read, from what reading it raised."""
    return str(error) if isinstance(error, ValueError) else f"a value of another kind than expected: {error}"


def decoded(answer: bytes, dialect: Dialect) -> JsonObject:
    """An answer as an object. `ValueError`, or another of `MALFORMED`, says why it is none.

    Servers that write NaN for a number, which JSON does not have, are understood, and the number is None. So are
    those that send events under another content type.
    """
    try:
        value: Any = msgspec.json.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        value = _events_in(answer, dialect) if answer.startswith((b"data:", b"event:")) else _lenient(answer)
        if value is None:
            raise ValueError(str(error)) from error
    if not isinstance(value, dict):
        raise ValueError("JSON that is no object")
    return value


class EventReader:
    """Takes the bytes of a stream of events and gives each event's data."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The data of the events that are complete by now."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                yield b"\n".join(self._data)
                self._data = []


async def _assembled(response: aiohttp.ClientResponse, dialect: Dialect, most: int) -> JsonObject:
    reader, assembly = EventReader(), dialect.assembly()
    seen = 0
    try:
        async for piece in response.content.iter_any():
            most -= len(piece)
            if most < 0:
                raise TooLong
            for data in reader.feed(piece):
                if data == _DONE:
                    return _whole(assembly.body(), seen)
                assembly.add(_event(data))
                seen += 1
    except (aiohttp.ClientError, TimeoutError, OSError):
        # What comes after the answer's end, or does not come, is of no interest.
        if assembly.body() is None:
            raise
    return _whole(assembly.body(), seen)


def _whole(body: JsonObject | None, seen: int) -> JsonObject:
    if body is None:
        raise BrokenOff(f"after {seen} events")
    return body


def _event(data: bytes) -> JsonObject:
    try:
        event = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise ValueError(f"an event that is no JSON: {error}") from error
    if not isinstance(event, dict):
        raise ValueError("an event that is no object")
    return event


def _events_in(answer: bytes, dialect: Dialect) -> JsonObject:
    assembly = dialect.assembly()
    events = [data for data in EventReader().feed(answer + b"\n\n") if data != _DONE]
    for data in events:
        assembly.add(_event(data))
    return _whole(assembly.body(), len(events))


def _lenient(answer: bytes) -> Any:
    if b"NaN" not in answer and b"Infinity" not in answer:
        return None
    try:
        return json.loads(answer, parse_constant=lambda _: None)
    except ValueError:
        return None
