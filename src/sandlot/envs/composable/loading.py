"""Rows of published data sets, read when they are first needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sandlot.errors import MissingDependency


def published(name: str, subset: str | None, split: str, **options: Any) -> Any:
    """A split of a data set of the Hugging Face hub."""
    try:
        from datasets import load_dataset  # heavy: only where a published data set is read
    except ImportError:
        raise MissingDependency(f"{name} is read with the package datasets", hint="pip install datasets") from None
    return load_dataset(name, subset, split=split, **options)


def within(rows: Any, key: str | None, least: float, most: float) -> Any:
    """The rows whose number at `key` lies between the two; all of them where there is no such column."""
    if not key or key not in (rows.column_names or []):
        return rows
    return rows.filter(lambda row: least <= (row.get(key) or 0) <= most)


def made(rows: Any, make: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Every row replaced by what `make` makes of it."""
    return rows.map(make, remove_columns=rows.column_names)
