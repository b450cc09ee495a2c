"""One problem as data."""

from __future__ import annotations

from typing import Any

import msgspec

from sandlot.records.message import JsonObject


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One problem. Equal tasks have equal ids on every machine, whatever the order they come in."""

    id: str
    """The author's id, else the hash of the content and, for a repeated row, its occurrence."""
    prompt: list[JsonObject] = []
    """The messages that the model starts from."""
    answer: Any = ""
    """What a reward compares with; never shown to the model."""
    info: JsonObject = {}
    """What else the author keeps with the task."""
    fields: JsonObject = {}
    """The author's other columns, by name."""
    environment: str = ""
    """In a group of environments: the member that plays it."""


class Sampling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to draw from a model. What is None is left to the endpoint."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    max_tokens: int | None = None
    """The most tokens that one completion may have."""
    stop: list[str] = []
    seed: int | None = None
    logprobs: bool | None = None
    extra: JsonObject = {}
    """Further fields of the request's body, passed through as they are."""
