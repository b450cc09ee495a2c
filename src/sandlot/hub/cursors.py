"""Where a list goes on: an opaque text that holds the sort key of the last item shown."""

from __future__ import annotations

import base64
import binascii

import msgspec

from sandlot.hub.problems import problem


def encode_cursor(*parts: str | int | float | None) -> str:
    """The cursor for a position."""
    return base64.urlsafe_b64encode(msgspec.json.encode(parts)).decode().rstrip("=")


def decode_cursor(cursor: str, *kinds: type) -> list[object]:
    """The position of a cursor, one part of each kind. `bad_cursor` if it is none."""
    try:
        parts = msgspec.json.decode(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, msgspec.DecodeError, ValueError):
        parts = None
    fits = isinstance(parts, list) and len(parts) == len(kinds)
    if not fits or not all(isinstance(part, kind) for part, kind in zip(parts, kinds, strict=True)):
        raise problem("bad_cursor", "the cursor is not one that this list gave", hint="start without a cursor")
    return list(parts)
