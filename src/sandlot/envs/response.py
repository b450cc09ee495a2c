"""A completion in the shape that authors of the original API read, and the steps of their trajectory."""

from __future__ import annotations

from typing import Any

from sandlot.engine import State
from sandlot.models import Completion
from sandlot.records import AssistantMessage, Messages, Tokens, Usage


class Response:
    """What the model answered: `message`, `usage`, `finish_reason`, `model`, `tokens`, `id`, `created`."""

    __slots__ = ("completion", "model")

    def __init__(self, completion: Completion, *, model: str) -> None:
        self.completion = completion
        self.model = model
        # Beside the message's fields, not among them: the message stays the dict that is sent and stored.
        for name, value in (("finish_reason", self.finish_reason), ("tokens", self.tokens)):
            object.__setattr__(self.message, name, value)
        object.__setattr__(self.message, "is_truncated", self.finish_reason == "length")

    @property
    def id(self) -> str:
        """The endpoint's own name for the answer, or nothing."""
        return str((self.completion.raw or {}).get("id") or "")

    @property
    def created(self) -> int:
        """Seconds since 1970, as the endpoint says, or 0."""
        created = (self.completion.raw or {}).get("created")
        return created if isinstance(created, int) else 0

    @property
    def message(self) -> AssistantMessage:
        """The assistant's message; it also reads `finish_reason`, `is_truncated` and `tokens`."""
        return self.completion.message

    @property
    def usage(self) -> Usage:
        """Tokens of the call."""
        return self.completion.usage

    @property
    def finish_reason(self) -> str:
        """stop, length, tool_calls or content_filter."""
        return self.completion.finish

    @property
    def tokens(self) -> Tokens | None:
        """Token ids and log-probabilities, where the model gives them."""
        return self.completion.tokens


def trajectory_step(state: State, prompt: Messages, response: Response) -> dict[str, Any]:
    """One step of `state["trajectory"]`."""
    return {
        "prompt": prompt,
        "completion": [response.message],
        "response": response,
        "tokens": response.tokens,
        "reward": None,
        "advantage": None,
        "is_truncated": response.finish_reason == "length",
        "trajectory_id": state["trajectory_id"],
        "extras": {},
    }
