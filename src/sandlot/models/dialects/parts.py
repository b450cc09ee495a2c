"""What the dialects share in reading a message: its parts, its calls, and the names that sampling has in chat.

Invariants: nothing of a message is left out silently; arguments stay the text that the model wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from sandlot.errors import Invalid
from sandlot.models.endpoint import Endpoint
from sandlot.records import JsonObject, Message, Sampling

_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,(.*)\Z", re.DOTALL)
INVALID_JSON = "INVALID_JSON"
"""Under which arguments that are no JSON object stand where an object must: Anthropic's own proposal."""


class Data(NamedTuple):
    """What a data address holds, still in base64."""

    media_type: str
    base64: str


def parts_of(message: Message) -> Iterator[JsonObject]:
    """The parts of a message's content; text is one part, and an empty one is none."""
    content = message.get("content")
    if isinstance(content, str):
        if content:
            yield {"type": "text", "text": content}
    elif isinstance(content, list):
        for part in content:
            yield {"type": "text", "text": part} if isinstance(part, str) else part
    elif content is not None:
        yield {"type": "text", "text": str(content)}


def calls_of(message: Message) -> Iterator[tuple[str, str, str]]:
    """Id, name and arguments of each call that a message asks for."""
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        yield str(call.get("id") or ""), str(function.get("name") or ""), arguments_text(function.get("arguments"))


def arguments_text(arguments: Any) -> str:
    """A call's arguments as text, also where they came as the object that the text stands for."""
    if isinstance(arguments, str):
        return arguments
    return "{}" if arguments is None else msgspec.json.encode(arguments).decode()


def image_url(part: Mapping[str, Any]) -> str:
    """The address of an image part."""
    image = part.get("image_url")
    return str(image.get("url") or "") if isinstance(image, Mapping) else str(image or "")


def inlined(address: str) -> Data | None:
    """What is in a data address; None where it is another one."""
    found = _DATA.match(address)
    return Data(found[1] or "application/octet-stream", found[2]) if found else None


def object_in(arguments: str) -> JsonObject:
    """Arguments as the object that they stand for, for a dialect that takes no text."""
    try:
        value = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, ValueError):
        value = None
    return value if isinstance(value, dict) else {INVALID_JSON: arguments}


def further_fields(endpoint: Endpoint, sampling: Sampling) -> JsonObject:
    """The endpoint's and the sampling's `extra` fields, an `extra_body` inside opened."""
    fields: JsonObject = {}
    for extra in (endpoint.extra, sampling.extra):
        for name, value in extra.items():
            if name == "extra_body":
                fields.update(value or {})
            else:
                fields[name] = value
    return fields


def refuse_sampling(endpoint: Endpoint, names: list[str]) -> None:
    """`Invalid` if there is anything in `names`: what was asked for and the dialect cannot say."""
    if names:
        raise Invalid(
            f"{endpoint} is spoken to as {endpoint.type}, which has no {' and no '.join(names)}",
            hint="leave it out, or pass what the endpoint itself knows in sampling.extra",
        )
