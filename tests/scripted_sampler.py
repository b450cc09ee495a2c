"""A sampler that says what a function of the prompt says: the port without a model behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sandlot.errors import ModelError, OverlongPromptError
from sandlot.inference import Sampled, Sampler, TokenSampling

LOGPROB = -0.5


class ScriptedSampler(Sampler):
    """`answer` maps the ids of a prompt to the ids that follow. Every token has the log-probability -0.5."""

    def __init__(self, answer: Callable[[list[int]], Sequence[int]], *, context_length: int = 512) -> None:
        self.version = 0
        self.context_length = context_length
        self.prompts: list[list[int]] = []
        self._answer = answer
        self._closed = asyncio.Event()

    async def generate(self, prompt: Sequence[int], sampling: TokenSampling) -> Sampled:
        room = self.context_length - len(prompt)
        if room < 1:
            raise OverlongPromptError(f"{len(prompt)} tokens do not fit {self.context_length}")
        self.prompts.append(list(prompt))
        tokens: list[int] = []
        versions: list[int] = []
        for token in self._answer(list(prompt)):
            await asyncio.sleep(0.0001)
            if self._closed.is_set():
                raise ModelError("the sampler was closed")
            tokens.append(token)
            versions.append(self.version)
            if token in sampling.stop_ids or len(tokens) >= min(room, sampling.max_tokens):
                break
        stopped = tokens[-1] in sampling.stop_ids
        return Sampled(
            tokens=tokens,
            logprobs=[LOGPROB] * len(tokens),
            versions=versions,
            finish="stop" if stopped else "length",
        )

    async def score(self, tokens: Sequence[int], *, temperature: float = 1.0) -> list[float]:
        return [LOGPROB] * (len(tokens) - 1)

    async def apply(self, version: int, weights: Mapping[str, Any] | None = None) -> None:
        self.version = version

    async def close(self) -> None:
        self._closed.set()
