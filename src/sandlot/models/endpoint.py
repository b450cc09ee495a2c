"""Where a model is, which key it needs and how it is to be called, as config.

Invariants: an endpoint holds the *name* of the variable with its key, never a key; a value that looks like a key itself
is refused without being shown, so an endpoint may be stored and printed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, field_validator, model_validator

from sandlot.config import Config
from sandlot.errors import Invalid

_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_SECRET_PREFIXES = ("sk-", "sk_", "gsk_", "xai-", "hf_", "key-", "bearer ", "AIza")
_SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "api-key", "x-api-key", "x-goog-api-key", "cookie"}
)
_NO_KEY = frozenset({"", "EMPTY", "NONE", "none", "empty"})

DialectName = Literal["openai_chat_completions"]


class Price(Config):
    """What an endpoint's tokens cost, in US dollars for a million."""

    model_config = ConfigDict(frozen=True)

    input: float = Field(default=0.0, ge=0)
    """For a million tokens of the prompt."""
    output: float = Field(default=0.0, ge=0)
    """For a million sampled tokens, reasoning included."""
    cached: float | None = Field(default=None, ge=0)
    """For a million tokens of the prompt that the endpoint had in its cache; None: as `input`."""


class Retries(Config):
    """How often and how long a call is tried again. Waits grow as base · 2ⁿ up to `longest`, with full jitter."""

    model_config = ConfigDict(frozen=True)

    tries: int = Field(default=10, ge=1)
    """The most requests that one call may make, the first included."""
    seconds: float = Field(default=900.0, ge=0)
    """How long after its start a call may still begin another try."""
    base: float = Field(default=0.5, ge=0)
    """Seconds that the first wait lasts at most."""
    longest: float = Field(default=60.0, ge=0)
    """Seconds that any wait lasts at most, unless the endpoint names a longer one in `Retry-After`."""


class Endpoint(Config):
    """One place that answers for a model."""

    model_config = ConfigDict(frozen=True)

    id: str = Field(min_length=1)
    """The name it is asked for by. Several endpoints with one id are replicas and take turns."""
    model: str = ""
    """The model's name as the endpoint knows it; empty: the id."""
    url: str
    """The address of the API, such as https://api.openai.com/v1."""
    key: str | None = None
    """The environment variable that holds the API key; None or "EMPTY": no key is sent."""
    type: DialectName = "openai_chat_completions"
    """The form of requests and answers."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Further headers of each request. `${NAME}` in a value stands for that environment variable."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Further fields of each request's body, such as return_token_ids = true for a vLLM server."""
    timeout: float = Field(default=1800.0, gt=0)
    """Seconds that one request may take."""
    max_concurrent: int = Field(default=1024, ge=1)
    """The most requests in flight. It adapts downwards while the endpoint answers 429."""
    retries: Retries = Retries()
    """How failures of the endpoint are tried again."""
    price: Price | None = None
    """What its tokens cost; None: unknown."""
    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] | None = None
    """How the body names the limit of a completion; None: max_completion_tokens at OpenAI, max_tokens elsewhere."""

    @model_validator(mode="before")
    @classmethod
    def _default_model(cls, table: Any) -> Any:
        if isinstance(table, Mapping) and not table.get("model") and isinstance(table.get("id"), str):
            return {**table, "model": table["id"]}
        return table

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.username or parts.password:
            # An `Invalid`, because a ValueError's message would show the value.
            raise Invalid("url: an address must not hold a user or password", hint="use `key` or `headers`")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("an address like https://api.openai.com/v1 was expected")
        return url.rstrip("/").removesuffix("/chat/completions")

    @field_validator("key")
    @classmethod
    def _check_key(cls, key: str | None) -> str | None:
        if key is None or key in _NO_KEY:
            return None
        if key.startswith(_SECRET_PREFIXES) or not _VARIABLE.match(key):
            raise _secret("key")
        return key

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if name.lower() in _SECRET_HEADERS and "${" not in value:
                raise _secret(f"headers.{name}")
        return headers

    @property
    def host(self) -> str:
        """The host of the address, in lower case."""
        return (urlsplit(self.url).hostname or "").lower()

    @property
    def is_local(self) -> bool:
        """Whether the address is this machine's own."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")

    def __str__(self) -> str:
        return f"{self.model} at {self.url.partition('?')[0]}"


def _secret(field: str) -> Invalid:
    # An `Invalid`, because a ValueError's message would show the value, which may be the key itself.
    return Invalid(
        f"{field} holds what may be a secret; it is not shown here",
        hint='put it in an environment variable and write key = "NAME", or ${NAME} in a header',
    )
