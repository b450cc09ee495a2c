"""How a policy is served over HTTP."""

from __future__ import annotations

from pydantic import Field

from sandlot.config import Config


class ServeConfig(Config):
    """The settings of `sandlot serve`."""

    model: str
    """A folder with a model, a name that `sandlot model pull` knows, or an id on the Hugging Face hub."""
    host: str = "127.0.0.1"
    """The address to listen at; 0.0.0.0 takes requests from other machines, and asks nobody for a key."""
    port: int = Field(default=8000, ge=0, le=65535)
    """The port to listen at; 0 takes a free one."""
    name: str | None = None
    """What clients call the model; by default the model's own name."""
    context_length: int | None = Field(default=None, ge=2)
    """The most tokens of prompt and completion together; by default the model's own."""
    max_rows: int = Field(default=64, ge=1)
    """How many completions are drawn together; further ones wait."""
    cache_megabytes: int = Field(default=2048, ge=1)
    """The most memory for the key-value cache."""
    max_body_megabytes: int = Field(default=16, ge=1)
    """The largest request body that is read."""
