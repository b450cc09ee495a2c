"""What an endpoint's failure means: which error it is, whether another try makes sense, and when.

Invariants: a prompt that does not fit is recognised whatever the provider's wording and case, from the error's own
words and never from an echo of the request; an excerpt of an answer is short and holds no key.
"""

from __future__ import annotations

import email.utils
import errno
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from sandlot.errors import (
    EmptyModelResponseError,
    EndpointRefusedError,
    EndpointUnreachableError,
    InvalidModelResponseError,
    ModelError,
    OverlongPromptError,
)
from sandlot.models.endpoint import Endpoint
from sandlot.records import JsonObject

_EXCERPT = 400
_SHORTEST_SECRET = 8
_FEW = 3
"""Requests after which something that hardly ever heals by itself is given up."""

_REFUSES_ALL = frozenset({301, 302, 303, 307, 308, 401, 402, 403, 404, 405, 501})
"""Statuses that speak of the key, the model or the address, and so of every request alike."""

_OVERLONG_CODES = frozenset(
    {"context_length_exceeded", "exceed_context_size_error", "string_above_max_length", "request_too_large"}
)
_STATUS_OF_CODE = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "insufficient_quota": 429,
    "overloaded_error": 529,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "request_too_large": 413,
}
"""What an error that comes under 200, or in a stream, would have had for a status."""

OVERLONG_WORDINGS: tuple[str, ...] = (
    # One pattern for each family of wordings, matched in lower case with single spaces.
    r"maximum (context|prompt|sequence|input) length",  # OpenAI, vLLM, DeepSeek, Fireworks, Mistral, xAI, NIM
    r"\bmax(imum)? model length",  # vLLM, when the prompt alone is too long
    r"(exceed\w*|longer than|greater than|larger than|beyond|over)\b.{0,60}\bcontext (length|size|window|limit)",
    r"context (length|size|window|limit)\b.{0,60}\b(exceed\w*|is only|overflow\w*|too (small|long))",
    r"(prompt|input|inputs|conversation|messages?) (is|are) too long",  # Anthropic, Bedrock, Fireworks
    r"reduce the length of (the|your) (input|prompt|messages?|conversation)",  # OpenAI, vLLM, Groq
    r"(input|prompt) tokens? (count )?.{0,40}exceeds?\b.{0,40}\b(limit|maximum)",  # Gemini, OpenAI, Copilot
    r"`?inputs`? tokens \+ `?max_new_tokens`? must be <=",  # TGI
    r"too many tokens: .{0,60}\bprompt\b",  # Cohere
    r"exceeded model token limit",  # Moonshot
    r"range of input length should be",  # Alibaba
    r"prompt length .{0,60}(exceeds?|max_num_tokens|max_seq_len|max_input_len)",  # TensorRT-LLM
    r"(exceed\w*|longer than|greater than) .{0,40}\bmax_(seq|input|model)_len\b",  # TensorRT-LLM, vLLM
    r"prompt contains .{0,40}tokens.{0,60}too large for model",  # Mistral
)

_overlong = re.compile("|".join(f"(?:{wording})" for wording in OVERLONG_WORDINGS))
_QUOTES = str.maketrans("‘’“”", "''\"\"")
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)


class Setback(msgspec.Struct, frozen=True, kw_only=True):
    """A request that gave no completion."""

    error: ModelError
    tries: int | None = None
    """The most tries that make sense: 1 is none after this; None leaves it to the endpoint's `retries`."""
    after: float | None = None
    """Seconds that the endpoint asks to wait."""
    throttled: bool = False
    """Whether fewer requests at once may help."""


def refused(
    endpoint: Endpoint, status: int, body: bytes, *, headers: Mapping[str, str], secret: str | None, now: float
) -> Setback:
    """What an HTTP status other than 200 means. `now` is seconds since the epoch, for dates in `Retry-After`."""
    words, code = _words(body)
    overlong = is_overlong(status, words, code)
    words = excerpt(words, secret)
    if overlong:
        error = _with_status(OverlongPromptError(f"the prompt does not fit {endpoint}: {words}"), status)
        return Setback(error=error, tries=1)
    hopeless = code == "insufficient_quota"  # A 429 that means an unpaid bill: no wait will change it.
    kind = EndpointRefusedError if hopeless or status in _REFUSES_ALL else ModelError
    error = _with_status(kind(_explain(endpoint, status, words, has_key=secret is not None)), status)
    if hopeless or not (status in (408, 409, 425, 429) or (status >= 500 and status not in (501, 505))):
        return Setback(error=error, tries=1)
    return Setback(error=error, after=retry_after(headers, now), throttled=status in (429, 529))


def unreachable(
    endpoint: Endpoint, error: Exception, *, answered: bool, idle: bool = False, connected: bool = True
) -> Setback:
    """No answer at all, or one that broke off; `idle`: nothing was heard for too long, whatever time was left.

    `connected` is False where not even a connection came about.

    An endpoint that never answered is given up after a few tries.
    """
    if idle and endpoint.stream:
        words = f"{endpoint} sent nothing for {endpoint.idle_timeout:g} s, its idle_timeout"
        return Setback(error=ModelError(words), tries=_FEW)
    if isinstance(error, TimeoutError) and not connected:
        failed = EndpointUnreachableError(f"the connection to {endpoint} failed: none came about in time")
        return Setback(error=failed, tries=None if answered else 2)
    if isinstance(error, TimeoutError):
        words = f"{endpoint} did not answer within {endpoint.timeout:g} s"
        return Setback(error=ModelError(words), tries=2)
    reason = excerpt(str(error), None) or type(error).__name__
    failure = ModelError(f"the connection to {endpoint} failed: {reason}")
    if isinstance(error, OSError) and error.errno == errno.EMFILE:
        # This machine's own limit: fewer requests at once will do, as with a busy endpoint.
        failure = ModelError(f"{failure} (raise the limit of open files, `ulimit -n`, or lower max_concurrent)")
        return Setback(error=failure, throttled=True)
    if not connected:
        failure = EndpointUnreachableError(str(failure))
    return Setback(error=failure, tries=None if answered else _FEW)


def unreadable(endpoint: Endpoint, body: bytes, reason: str, *, secret: str | None) -> Setback:
    """The endpoint said 200 and what it sent is no completion: a proxy's page, half an answer."""
    shown = _html_title(body) or excerpt(body[: 4 * _EXCERPT].decode("utf-8", "replace"), secret)
    error = InvalidModelResponseError(f"{endpoint} answered with no completion ({reason}): {shown or 'an empty body'}")
    return Setback(error=_with_status(error, 200), tries=_FEW)


def broken_off(endpoint: Endpoint, where: str) -> Setback:
    """A stream that ended in good order, but before the answer did."""
    words = f"the stream of {endpoint} broke off {where}, before the end of the answer"
    return Setback(error=_with_status(InvalidModelResponseError(words), 200))


def too_long(endpoint: Endpoint) -> Setback:
    """An answer of which no more is read."""
    words = f"{endpoint} sent more than max_bytes, {endpoint.max_bytes:,}; set max_tokens, or max_bytes higher"
    return Setback(error=InvalidModelResponseError(words), tries=2)


def without_choices(endpoint: Endpoint, body: JsonObject, *, secret: str | None) -> Setback:
    """The endpoint said 200 and sent JSON with no choice: an error in an answer's clothes, or really nothing."""
    if body.get("error"):
        error = body["error"]
        known = _status_of(error) if isinstance(error, dict) else 500
        return refused(endpoint, known, msgspec.json.encode(body), headers={}, secret=secret, now=0.0)
    shown = excerpt(msgspec.json.encode(body).decode(), secret)
    empty = EmptyModelResponseError(f"{endpoint} answered without a choice: {shown}")
    return Setback(error=_with_status(empty, 200), tries=_FEW)


def is_overlong(status: int | None, words: str, code: str | None = None) -> bool:
    """Whether an error says that the prompt does not fit the model's context."""
    if status in (401, 403, 404, 429):
        return False
    if code is not None and code.lower() in _OVERLONG_CODES:
        return True
    return _overlong.search(" ".join(words.translate(_QUOTES).lower().split())) is not None


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds in a `Retry-After` (a number or an HTTP date) or `retry-after-ms`; None where there is neither."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("Retry-After", headers.get("retry-after"))
    seconds = _number(text)
    if seconds is not None or text is None:
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def excerpt(text: str, secret: str | None) -> str:
    """The beginning of `text` on one line, with `secret` taken out; a key such as `EMPTY` or `x`, as people give to
    servers that want none, is no secret, and to take its letters out would leave no readable word."""
    line = " ".join(text.split())
    if secret and len(secret) >= _SHORTEST_SECRET:
        line = line.replace(secret, "***")
    return line if len(line) <= _EXCERPT else line[:_EXCERPT] + "…"


def _status_of(error: JsonObject) -> int:
    status = error.get("code")
    if isinstance(status, int) and 400 <= status < 600:
        return status
    codes = (code for code in (status, error.get("type")) if isinstance(code, str))
    return next((_STATUS_OF_CODE[code] for code in codes if code in _STATUS_OF_CODE), 500)


def _with_status(error: ModelError, status: int) -> ModelError:
    error.status = status
    return error


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and math.isfinite(value) and value >= 0 else None


def _explain(endpoint: Endpoint, status: int, words: str, *, has_key: bool) -> str:
    said = f": {words}" if words else ""
    match status:
        case 401 if endpoint.key is not None and not has_key:
            return f"{endpoint} wants the API key in {endpoint.key}, which is not set (401){said}"
        case 401 if endpoint.key is not None:
            return f"{endpoint} refused the API key in {endpoint.key} (401){said}"
        case 401 if not has_key:
            return (
                f"{endpoint} wants an API key and none was sent (401){said}; put it in an environment variable and "
                "name that with --key-var, or as `key` in endpoints.toml"
            )
        case 403:
            return f"{endpoint} does not allow this (403){said}; check what the key may do"
        case 404:
            return f"{endpoint} was not found (404){said}; check the model's name, and that the address ends as in …/v1"
        case 429 | 529:
            return f"{endpoint} gets too many requests ({status}){said}"
        case _ if 300 <= status < 400:
            return f"{endpoint} has moved ({status}); give the address that it redirects to{said}"
        case _ if status >= 500:
            return f"{endpoint} failed ({status}){said}"
        case _:
            return f"{endpoint} refused the request ({status}){said}"


def _words(body: bytes) -> tuple[str, str | None]:
    """What an error's body says, and its code. Only the error's own words: some servers echo the whole request."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _html_title(body) or body[: 8 * _EXCERPT].decode("utf-8", "replace"), None
    while isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return str(value), None
    error = value.get("error")
    inner = error if isinstance(error, dict) else value
    words = "; ".join(dict.fromkeys(_texts(inner))) or (error if isinstance(error, str) else "")
    codes = (inner.get(name) for name in ("code", "type"))
    return words, next((code for code in codes if isinstance(code, str)), None)


def _texts(error: JsonObject) -> Iterator[str]:
    for name in ("message", "detail", "msg", "error", "error_description"):
        value: Any = error.get(name)
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from _texts(value)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, dict):
                    yield from _texts(item)
    # Aggregators put the provider's own words one level down, as text.
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("raw"), str):
        yield _words(metadata["raw"].encode())[0]


def _html_title(body: bytes) -> str | None:
    text = body[:4096].decode("utf-8", "replace").lstrip()
    if not text.startswith("<"):
        return None
    title = _TITLE.search(text)
    return f"an HTML page titled {' '.join(title[1].split())!r}" if title else "an HTML page"
