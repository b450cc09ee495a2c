"""A policy as a Model: messages in and out for whoever calls, token in and token out towards the sampler.

Invariants: a turn that continues another begins with exactly the tokens on record; where that is not possible the
prompt is whole, and the fork is counted; the tokens of a completion are those that were sampled, whatever is cut from
its text.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sandlot.errors import ModelError, OverlongPromptError, SandlotError
from sandlot.inference.sampler import Sampler, TokenSampling
from sandlot.inference.tokens import ChatTokens, Rendered
from sandlot.models import Completion, Model, Prior
from sandlot.records import Message, Sampling, Tokens, Tool, Usage

_log = logging.getLogger("sandlot.inference")
_WITHOUT_EFFECT = frozenset({"return_token_ids", "logprobs", "top_logprobs", "n", "stream", "user"})
"""Fields of a request that ask for what a policy always gives, or that mean nothing to it."""


class PolicyModel(Model):
    """Calls `sampler` with conversations rendered by `tokens`.

    `max_tokens` bounds a completion that sets no limit of its own; None leaves it what the context leaves.
    """

    def __init__(self, sampler: Sampler, tokens: ChatTokens, *, name: str, max_tokens: int | None = None) -> None:
        self.name = name
        self.sampler = sampler
        self.tokens = tokens
        self.calls = 0
        """Calls that were given the tokens of an earlier turn to continue."""
        self.forks = 0
        """Those among them that could not continue it, because the template makes other text of the history now."""
        self._max_tokens = max_tokens

    async def generate(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        sampling: Sampling,
        prior: Prior | None = None,
    ) -> Completion:
        """One completion, with its tokens. `OverlongPromptError` if the prompt leaves no room for a token, `ModelError`
        for messages, tools or settings that this model cannot take, and for a sampler that fails."""
        try:
            prompt = self._rendered(messages, tools, prior)
            ids = [*prior.ids, *prompt.ids] if prior is not None and prompt.continues else prompt.ids
            sampled = await self.sampler.generate(ids, self._token_sampling(sampling, len(ids)))
        except SandlotError as error:
            raise ModelError(str(error) + (f" ({error.hint})" if error.hint else "")) from error
        text, cut = cut_at(self.tokens.said(sampled.tokens), sampling.stop)
        message = self.tokens.message(text, tools=tools, call_prefix=f"call-{len(messages)}")
        return Completion(
            message=message,
            finish="tool_calls" if message.tool_calls else "stop" if cut else sampled.finish,
            usage=Usage(prompt_tokens=prompt.length, completion_tokens=len(sampled.tokens)),
            tokens=Tokens(
                prompt=prompt.ids,
                sampled=sampled.tokens,
                logprobs=list(sampled.logprobs),
                versions=sampled.versions,
                texts=self.tokens.pieces(sampled.tokens),
            ),
            continues=prompt.continues,
        )

    async def close(self) -> None:
        """Closes the sampler."""
        await self.sampler.close()

    def _rendered(self, messages: Sequence[Message], tools: Sequence[Tool], prior: Prior | None) -> Rendered:
        if prior is None or not prior.ids:
            ids = self.tokens.render(messages, tools)
            return Rendered(ids=ids, continues=False, length=len(ids))
        prompt = self.tokens.extend(prior, messages, tools)
        self.calls += 1
        if not prompt.continues:
            self.forks += 1
            level = logging.WARNING if self.forks == 1 else logging.DEBUG
            _log.log(
                level,
                "%s: a conversation could not be continued from its tokens: the chat template makes other text of its "
                "earlier turns now. It goes on as a new sequence; forks are counted (%d of %d calls)",
                self.name,
                self.forks,
                self.calls,
            )
        return prompt

    def _token_sampling(self, sampling: Sampling, prompt_length: int) -> TokenSampling:
        room = self.sampler.context_length - prompt_length
        if room < 1:
            raise OverlongPromptError(
                f"the prompt has {prompt_length} tokens, and the context of {self.sampler.context_length} leaves no "
                "room for another"
            )
        unknown = sorted(set(sampling.extra) - _WITHOUT_EFFECT)
        if unknown:
            raise ModelError(f"a local policy cannot be sampled with {', '.join(unknown)}")
        return token_sampling(sampling, max_tokens=self._max_tokens or room, end_ids=self.tokens.end_ids)


def token_sampling(sampling: Sampling, *, max_tokens: int, end_ids: tuple[int, ...]) -> TokenSampling:
    """`sampling` for tokens. What it leaves open is temperature 1, no truncation, and at most `max_tokens` tokens."""
    return TokenSampling(
        max_tokens=max_tokens if sampling.max_tokens is None else sampling.max_tokens,
        temperature=1.0 if sampling.temperature is None else sampling.temperature,
        top_p=1.0 if sampling.top_p is None else sampling.top_p,
        top_k=-1 if sampling.top_k is None else sampling.top_k,
        min_p=0.0 if sampling.min_p is None else sampling.min_p,
        stop_ids=end_ids,
        seed=sampling.seed,
    )


def cut_at(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """`text` before the first of `stops` in it, and whether there was one."""
    found = [index for index in (text.find(stop) for stop in stops if stop) if index >= 0]
    return (text[: min(found)], True) if found else (text, False)
