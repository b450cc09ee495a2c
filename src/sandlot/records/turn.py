"""One model call, as it happened."""

from __future__ import annotations

import msgspec

from sandlot.records.message import JsonObject


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens of one call or of many. None means that the endpoint did not say; it is never read as 0."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None

    @property
    def total_tokens(self) -> int | None:
        """Those of the prompt and of the completion together, where one of the two is known."""
        known = [count for count in (self.prompt_tokens, self.completion_tokens) if count is not None]
        return sum(known) if known else None


class Tokens(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The token ids of a call. `sampled`, `logprobs` and `versions` have one entry for each sampled token.

    Joining `prompt + sampled` from a root turn to a leaf gives the exact sequence that the model saw and said:
    nothing is ever tokenised again.
    """

    prompt: list[int]
    """Ids that stand between the parent turn's last token and this turn's first: template and new messages."""
    sampled: list[int]
    logprobs: list[float | None]
    """Natural logarithms, under the distribution that was sampled from. None where the sampler gave no number."""
    versions: list[int] = []
    """The policy version that drew each token; empty where there is no policy that moves."""
    texts: list[str] = []
    """What each sampled token reads as, for people to look at; empty where the sampler did not say."""


class Turn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model call: what was new in the prompt, and what the model said."""

    prompt: list[JsonObject]
    """Messages since the parent turn's completion; for a root turn, the whole prompt."""
    completion: JsonObject
    parent: int = -1
    """The index of the turn that this one continues; -1 for a root. A fork has a parent that is not the last turn."""
    finish: str = "stop"
    """Why the model ended: stop, length, tool_calls, content_filter."""
    usage: Usage = Usage()
    tokens: Tokens | None = None
    start: float = 0.0
    """Seconds from the rollout's start to this call."""
    seconds: float = 0.0
    """How long the call took."""
    cost: float | None = None
    """US dollars, where the endpoint has a price."""
