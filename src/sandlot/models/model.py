"""The port of everything that can be called as a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec

from sandlot.records import AssistantMessage, JsonObject, Message, Sampling, Tokens, Tool, Usage


class Prior(msgspec.Struct, frozen=True, kw_only=True):
    """What is already fixed of a prompt: its first `messages` messages are exactly the tokens `ids`.

    A policy that takes tokens continues from them, so nothing is tokenised twice; other models ignore it.
    """

    messages: int
    ids: Sequence[int]


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one call."""

    message: AssistantMessage
    finish: str = "stop"
    """stop, length, tool_calls or content_filter."""
    usage: Usage = Usage()
    tokens: Tokens | None = None
    """Token ids and log-probabilities, where the model gives them."""
    continues: bool = False
    """Whether `tokens.prompt` is only what follows the given `Prior`. False: it is the whole prompt (a fork)."""
    cost: float | None = None
    raw: JsonObject | None = None


class Model(ABC):
    """Something you call with messages. Safe to call many times at once from one event loop."""

    name: str
    """How it is named in records."""
    trouble: str | None = None
    """Why the last try of a call failed, while that call waits to try again; None since something was answered."""

    @abstractmethod
    async def generate(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        sampling: Sampling,
        prior: Prior | None = None,
    ) -> Completion:
        """One completion.

        Raises `OverlongPromptError` when the prompt does not fit, `InvalidModelResponseError` when the answer is no
        completion, `ModelError` for every other failure after the model's own retries. Cancelling the call ends it.
        """

    def check(self, sampling: Sampling) -> None:
        """`Invalid` if the model can never be sampled like that, so that it is known before anything is played."""
        return

    async def close(self) -> None:
        """Gives back connections. The model cannot be called afterwards."""
        return
