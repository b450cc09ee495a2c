"""What an agent sends back of the conversation, as it is on record.

Invariants: a message of the model that comes back unchanged in meaning is the very message that was recorded, with what
the agent's form of it lost (the spelling of arguments, reasoning, an endpoint's own items); what the agent changed
stays as the agent sent it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from sandlot.records import Message, Messages, text_of

_Place: TypeAlias = tuple[bytes, str]


class History:
    """The model's messages of one rollout, by the conversation that each of them ended."""

    def __init__(self) -> None:
        self._said: dict[_Place, Message] = {}

    def add(self, messages: Sequence[Message], said: Message) -> None:
        """Notes that `said` answered `messages`, as `restored` gave them."""
        chain = b""
        for message in messages:
            chain = _linked(chain, message)
        self._said[chain, _meaning(said)] = said

    def restored(self, messages: Sequence[Message]) -> Messages:
        """`messages` with the recorded message in place of each that says the same."""
        chain = b""
        restored: Messages = []
        for message in messages:
            if message.get("role") == "assistant":
                message = self._said.get((chain, _meaning(message)), message)
            restored.append(message)
            chain = _linked(chain, message)
        return restored


def _linked(chain: bytes, message: Message) -> bytes:
    """The digest of a conversation that goes on with `message`. Empty fields and missing ones are the same."""
    fields = {name: value for name, value in message.items() if value}
    return hashlib.sha256(chain + json.dumps(fields, sort_keys=True, default=str).encode()).digest()


def _meaning(message: Mapping[str, Any]) -> str:
    calls = [
        (call.get("id"), call["function"].get("name"), _value(call["function"].get("arguments")))
        for call in message.get("tool_calls") or []
    ]
    return json.dumps([text_of(message.get("content")), calls], sort_keys=True, default=str)


def _value(arguments: Any) -> Any:
    """Arguments without their spelling; text that is no JSON is itself."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments
