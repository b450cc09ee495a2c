"""Reads events of every schema there ever was: a chain of functions, one for each step from a schema to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sandlot.errors import Invalid

SCHEMA = 1
"""The schema that this sandlot writes."""

_STEPS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""From a schema to the next one. Empty while there has been only one."""


def upgrade(event: dict[str, Any]) -> dict[str, Any]:
    """`event` in today's schema. `Invalid` if it has none, or one that is newer."""
    schema = event.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise Invalid("an event without an integer schema")
    if schema > SCHEMA:
        raise Invalid(
            f"an event of schema {schema}; this sandlot reads up to {SCHEMA}",
            hint="pip install --upgrade sandlot",
        )
    while schema < SCHEMA:
        event = _STEPS[schema](event)
        schema += 1
    return {**event, "schema": SCHEMA}
