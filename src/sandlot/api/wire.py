"""The two bases of all wire classes: what is asked is strict, what is answered may grow."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Request(BaseModel):
    """A body that a client sends. An unknown field is refused, so that a misspelt one is not lost in silence."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Answer(BaseModel):
    """A body that the hub sends. A client ignores fields that it does not know."""

    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True)
