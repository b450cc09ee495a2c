"""A rollout as tokens: each one shaded by how unlikely it was, with the exact numbers beside it."""

from __future__ import annotations

import math

import msgspec

from sandlot.records import Rollout, Turn

MOST_TOKENS = 20_000
"""How many tokens one page shows; the machine form has them all."""

BANDS = (0.9, 0.5, 0.2, 0.05, 0.01)
"""A token's shade is how many of these its probability is below."""


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """One sampled token."""

    position: int
    id: int
    text: str | None
    logprob: float | None
    version: int | None

    @property
    def shade(self) -> str:
        """The class that colours it: `lp0` for the likely to `lp5` for those below one in a hundred."""
        if self.logprob is None:
            return "lp0"
        return f"lp{sum(self.logprob < math.log(band) for band in BANDS)}"

    @property
    def probability(self) -> float | None:
        """From 0 to 1."""
        return None if self.logprob is None else math.exp(self.logprob)


class TurnTokens(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of a turn: how many were given, and those that were sampled and so count in the loss."""

    number: int
    turn: Turn
    given: list[int]
    sampled: list[Token]
    left_out: int = 0
    """Sampled tokens that the page has no room for."""

    @property
    def logprob(self) -> float | None:
        """The sum over the turn."""
        known = [token.logprob for token in self.sampled if token.logprob is not None]
        return math.fsum(known) if known else None


def tokens_of(rollout: Rollout) -> list[TurnTokens]:
    """The turns that have tokens on record."""
    room = MOST_TOKENS
    out = []
    for number, turn in enumerate(rollout.turns, 1):
        if turn.tokens is None:
            continue
        sampled = _sampled(turn, room)
        room -= len(sampled)
        out.append(
            TurnTokens(
                number=number,
                turn=turn,
                given=turn.tokens.prompt,
                sampled=sampled,
                left_out=len(turn.tokens.sampled) - len(sampled),
            )
        )
    return out


def _sampled(turn: Turn, room: int) -> list[Token]:
    tokens = turn.tokens
    if tokens is None:
        return []
    count = len(tokens.sampled)
    texts = tokens.texts if len(tokens.texts) == count else [None] * count
    versions = tokens.versions if len(tokens.versions) == count else [None] * count
    logprobs = tokens.logprobs if len(tokens.logprobs) == count else [None] * count
    return [
        Token(
            position=index,
            id=tokens.sampled[index],
            text=texts[index],
            logprob=logprobs[index],
            version=versions[index],
        )
        for index in range(min(count, room))
    ]
