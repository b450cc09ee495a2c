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

DialectName = Literal[
    "openai_chat_completions",
    "openai_responses",
    "anthropic_messages",
    "openai_completions",
    "vllm_classify",
    "vllm_pooling",
    "vllm_score",
]

_SHORT_NAMES = {
    "chat": "openai_chat_completions",
    "responses": "openai_responses",
    "anthropic": "anthropic_messages",
    "messages": "anthropic_messages",
    "completions": "openai_completions",
    "classify": "vllm_classify",
    "pooling": "vllm_pooling",
    "score": "vllm_score",
}
_REPLACED_NAMES = frozenset({"openai_chat_completions_token", "renderer", "nemorl_chat_completions"})
"""Client types of the original that send tokens: here the server is asked for them instead."""
_ENDINGS = {
    "/chat/completions": "openai_chat_completions",
    "/responses": "openai_responses",
    "/messages": "anthropic_messages",
    "/completions": "openai_completions",
    "/classify": "vllm_classify",
    "/pooling": "vllm_pooling",
    "/score": "vllm_score",
}
"""What the address of a dialect ends in. A longer ending stands before one that it ends in."""


class Price(Config):
    """What an endpoint's tokens cost, in US dollars for a million."""

    model_config = ConfigDict(frozen=True)

    input: float = Field(default=0.0, ge=0)
    """For a million tokens of the prompt."""
    output: float = Field(default=0.0, ge=0)
    """For a million sampled tokens, reasoning included."""
    cached: float | None = Field(default=None, ge=0)
    """For a million tokens of the prompt that the endpoint had in its cache; None: as `input`."""
    cache_write: float | None = Field(default=None, ge=0)
    """For a million tokens of the prompt that the endpoint put into its cache; None: as `input`."""


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
    """The address of the API, such as https://api.openai.com/v1. One that ends in /chat/completions, /responses,
    /messages, /completions, /classify, /pooling or /score says the `type`, too."""
    key: str | None = None
    """The environment variable that holds the API key; None or "EMPTY": no key is sent."""
    type: DialectName = "openai_chat_completions"
    """The form of requests and answers: OpenAI's chat completions, OpenAI's Responses, Anthropic's Messages, OpenAI's
    completions of plain text, or a reward model as vLLM serves it. chat, responses, anthropic, completions, classify,
    pooling and score will do."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Further headers of each request. `${NAME}` in a value stands for that environment variable."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Further fields of each request's body, such as return_token_ids = true for a vLLM server."""
    timeout: float = Field(default=1800.0, gt=0)
    """Seconds that one request may take."""
    stream: bool = False
    """Have answers sent piece by piece, for proxies that cut off a connection on which nothing comes for long."""
    idle_timeout: float = Field(default=300.0, gt=0)
    """With `stream`: seconds for which nothing may come."""
    max_bytes: int = Field(default=64 * 1024 * 1024, ge=1024)
    """The most that one answer may have, unpacked. A longer one is given up and counts as a failure."""
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
    def _complete(cls, table: Any) -> Any:
        if not isinstance(table, Mapping):
            return table
        made = dict(table)
        if not made.get("model") and isinstance(made.get("id"), str):
            made["model"] = made["id"]
        made.update(_type_and_url(made.get("type"), made.get("url")))
        return made

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.username or parts.password:
            # An `Invalid`, because a ValueError's message would show the value.
            raise Invalid("url: an address must not hold a user or password", hint="use `key` or `headers`")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("an address like https://api.openai.com/v1 was expected")
        return url.rstrip("/")

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


def _type_and_url(type_: Any, url: Any) -> dict[str, Any]:
    """The two fields that say something of each other, made one. `Invalid` where they contradict."""
    if type_ in _REPLACED_NAMES:
        raise Invalid(
            f"type {type_!r} is not needed here: nothing is tokenised twice where the server gives its token ids",
            hint='type = "openai_chat_completions" and, for a vLLM server, extra = { return_token_ids = true }',
        )
    said = _SHORT_NAMES.get(type_, type_) if isinstance(type_, str) else type_
    if not isinstance(url, str):
        return {} if said is None else {"type": said}
    address, mark, query = url.partition("?")
    address = address.rstrip("/")
    ending = next((each for each in _ENDINGS if address.endswith(each)), None)
    if ending is not None:
        meant = _ENDINGS[ending]
        if said not in (None, meant):
            raise Invalid(f"type is {said}, but the address ends in {ending}, which is {meant}")
        said, address = meant, address.removesuffix(ending)
    if said is None and (urlsplit(address).hostname or "").lower() == "api.anthropic.com":
        said = "anthropic_messages"
    if said == "anthropic_messages" and not address.endswith("/v1"):
        address += "/v1"  # Anthropic's own clients add it, so their addresses are written without.
    return {"url": f"{address}{mark}{query}", **({} if said is None else {"type": said})}


def _secret(field: str) -> Invalid:
    # An `Invalid`, because a ValueError's message would show the value, which may be the key itself.
    return Invalid(
        f"{field} holds what may be a secret; it is not shown here",
        hint='put it in an environment variable and write key = "NAME", or ${NAME} in a header',
    )
