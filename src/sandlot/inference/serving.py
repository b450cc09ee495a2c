"""One choice of an answer while it is drawn: text that is safe to send, stop strings, and what it came to.

Invariants: text that was sent is never taken back; nothing of a stop string is sent; a choice that is over, or whose
client has gone, draws nothing more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence

from sandlot.inference.policy import cut_at
from sandlot.inference.sampler import Sampled, Sampler, TokenSampling
from sandlot.inference.tokens import ChatTokens
from sandlot.inference.torch_sampler import TorchSampler

_CALL_TAG = "<tool_call>"


class Choice:
    """Draws one completion. `pieces` yields its text as it comes; then `sampled`, `text` and `finish` are set.

    With `calls` text from the first tool call on is held back: calls are sent whole.
    """

    def __init__(self, sampler: Sampler, tokens: ChatTokens, *, stops: Sequence[str] = (), calls: bool = False) -> None:
        self.sampled = Sampled(tokens=[], logprobs=[], versions=[], finish="length")
        self.text = ""
        self.finish = "length"
        self._sampler = sampler
        self._tokens = tokens
        self._stops = [stop for stop in stops if stop]
        self._held = [*self._stops, *([_CALL_TAG] if calls else [])]
        self._ids: list[int] = []
        self._logprobs: list[float] = []

    async def pieces(self, prompt: Sequence[int], sampling: TokenSampling) -> AsyncGenerator[str]:
        """The text, piece by piece. Raises what the sampler raises; closing the iterator frees the sampler."""
        drawn: asyncio.Queue[None] = asyncio.Queue()
        call = asyncio.ensure_future(self._draw(prompt, sampling, drawn))
        call.add_done_callback(lambda _: drawn.put_nowait(None))
        sent = 0
        try:
            while True:
                await drawn.get()
                if call.done():
                    self._complete(call.result())
                    break
                self.text, cut = cut_at(self._tokens.said(self._ids), self._stops)
                if cut:
                    self._complete(None)
                    break
                safe = self._safe()
                if safe > sent:
                    yield self.text[sent:safe]
                    sent = safe
        finally:
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await call
        end = self.text.find(_CALL_TAG) if _CALL_TAG in self._held else -1
        rest = self.text[sent : end if end >= 0 else len(self.text)]
        if rest:
            yield rest

    async def whole(self, prompt: Sequence[int], sampling: TokenSampling) -> None:
        """Draws to the end."""
        async for _ in self.pieces(prompt, sampling):
            pass

    async def _draw(self, prompt: Sequence[int], sampling: TokenSampling, drawn: asyncio.Queue[None]) -> Sampled:
        if not isinstance(self._sampler, TorchSampler):
            return await self._sampler.generate(prompt, sampling)

        def heard(token: int, logprob: float) -> None:
            self._ids.append(token)
            self._logprobs.append(logprob)
            drawn.put_nowait(None)

        return await self._sampler.generate(prompt, sampling, on_token=heard)

    def _complete(self, sampled: Sampled | None) -> None:
        if sampled is None:
            sampled = Sampled(tokens=self._ids, logprobs=self._logprobs, versions=[], finish="stop")
        self.sampled = sampled
        self.text, cut = cut_at(self._tokens.said(sampled.tokens), self._stops)
        self.finish = "stop" if cut else sampled.finish

    def _safe(self) -> int:
        """How many characters of the text stand, whatever is drawn next."""
        text = self.text
        # The last character may be the first bytes of another one, or the beginning of what must not be sent.
        safe = len(text.rstrip("\ufffd"))
        for held in self._held:
            at = text.find(held)
            if at >= 0:
                safe = min(safe, at)
            for length in range(min(len(held) - 1, len(text)), 0, -1):
                if text.endswith(held[:length]):
                    safe = min(safe, len(text) - length)
                    break
        return safe
