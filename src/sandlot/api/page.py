"""One page of a list."""

from __future__ import annotations

from typing import Generic, TypeVar

from sandlot.api.wire import Answer

Item = TypeVar("Item")


class Page(Answer, Generic[Item]):
    """Some items in order, and where the next ones begin."""

    items: list[Item]
    next_cursor: str | None = None
    """Pass it as `cursor` to read on; null on the last page."""
