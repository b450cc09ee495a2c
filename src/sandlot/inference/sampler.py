"""The port of a policy that is sampled: token in, token out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


class TokenSampling(msgspec.Struct, frozen=True, kw_only=True):
    """How to draw tokens. For training rollouts `top_p = 1, top_k = -1, min_p = 0`: then the log-probabilities are
    those of the whole distribution at `temperature`, which is what the trainer computes again."""

    max_tokens: int
    temperature: float = 1.0
    """0 takes the likeliest token; its log-probability is reported at temperature 1."""
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    stop_ids: tuple[int, ...] = ()
    """Ids that end the completion; the one drawn is part of it."""
    seed: int | None = None
    """Makes the draw reproducible for the same weights and prompt, whatever else is in the batch."""


class Sampled(msgspec.Struct, frozen=True, kw_only=True):
    """One completion, one entry in each list for every token that was drawn."""

    tokens: list[int]
    logprobs: list[float]
    """Natural logarithms under the distribution that was drawn from."""
    versions: list[int]
    """The policy version that drew each token."""
    finish: str
    """stop (a stop id was drawn) or length."""


class Sampler(ABC):
    """A policy that is served. One event loop, many calls at once."""

    version: int
    """The version of the weights that serve now. It moves only after `apply` has taken effect."""
    context_length: int
    """The most tokens that prompt and completion may have together."""

    @abstractmethod
    async def generate(self, prompt: Sequence[int], sampling: TokenSampling) -> Sampled:
        """One completion of `prompt`. `OverlongPromptError` if the prompt leaves no room for a token."""

    @abstractmethod
    async def score(self, tokens: Sequence[int], *, temperature: float = 1.0) -> list[float]:
        """The log-probability of each token given those before it; one fewer than there are tokens."""

    @abstractmethod
    async def apply(self, version: int, weights: Mapping[str, Any] | None = None) -> None:
        """Pause, swap, confirm, bump `version`, resume. `weights` is a state dict; None where the module is shared
        with the trainer and has moved already. What was cached under older weights is dropped."""

    async def close(self) -> None:
        """Ends calls that are waiting and gives the memory back."""
        return
