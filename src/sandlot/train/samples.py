"""Rollouts as training samples: every branch of turns from a root to a leaf is one sample of named per-token streams.

Invariants: token ids are those on record, never tokenised again; only tokens that the policy sampled carry loss, each
exactly once, however many branches share it; a sample is whole or dropped, never cut; the streams of a sample have one
length. All streams stand in one dict, so whatever is done to a sample is a loop over its keys.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sandlot.errors import Invalid
from sandlot.records import Rollout, Tokens, Turn

Streams = dict[str, np.ndarray]

STREAMS: dict[str, tuple[type, float]] = {
    "tokens": (np.int64, 0),
    "mask": (np.bool_, False),
    "logprob": (np.float32, 0.0),
    "advantage": (np.float32, 0.0),
    "weight": (np.float32, 0.0),
    "version": (np.int64, -1),
    "position": (np.int64, 0),
    "segment": (np.int64, -1),
}
"""Every stream: its type, and what stands where there is no token."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One training sequence. `streams` has every key of `STREAMS`, each an array with an entry for each token."""

    streams: Streams
    rollout: str
    """The id of the rollout that it is a branch of."""
    leaf: int
    """The index of the branch's last turn."""

    def __len__(self) -> int:
        return len(self.streams["tokens"])

    @property
    def trained(self) -> int:
        """How many of its tokens carry loss."""
        return int(self.streams["mask"].sum())

    def replace(self, **streams: np.ndarray | float) -> Sample:
        """The sample with other streams; a number stands for every token. `ValueError` for another length."""
        merged = dict(self.streams)
        for name, value in streams.items():
            merged[name] = np.full(len(self), value, STREAMS[name][0]) if np.isscalar(value) else np.asarray(value)
            if len(merged[name]) != len(self):
                raise ValueError(f"stream {name} has {len(merged[name])} entries for {len(self)} tokens")
        return Sample(merged, self.rollout, self.leaf)


def samples_of(rollout: Rollout, *, max_length: int) -> tuple[list[Sample], Counter[str]]:
    """The samples of a rollout, one for each branch that has something to train, and counts of what was left out.

    Counted: `overlong` (samples of more than `max_length` tokens, dropped), `missing_logprob` (tokens without a finite
    log-probability: no loss), `sampled` (tokens that the policy drew). `Invalid` if a turn has no token ids.
    """
    counts: Counter[str] = Counter()
    samples: list[Sample] = []
    taken: set[int] = set()
    for leaf in _leaves(rollout.turns):
        path = _path(rollout.turns, leaf)
        parts = [_turn_streams(rollout, index, trained=index not in taken) for index in path]
        streams = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        if len(streams["tokens"]) > max_length:
            counts["overlong"] += 1
            continue
        fresh = [index for index in path if index not in taken]
        counts["sampled"] += sum(len(_tokens(rollout, index).sampled) for index in fresh)
        counts["missing_logprob"] += int(streams.pop("missing").sum())
        taken.update(path)
        sample = Sample(_complete(streams), rollout.id, leaf)
        if sample.trained:
            samples.append(sample)
    return samples, counts


def _leaves(turns: Sequence[Turn]) -> list[int]:
    parents = {turn.parent for turn in turns}
    return [index for index in range(len(turns)) if index not in parents]


def _path(turns: Sequence[Turn], leaf: int) -> list[int]:
    path = []
    index = leaf
    while index >= 0:
        path.append(index)
        index = turns[index].parent
    return path[::-1]


def _tokens(rollout: Rollout, index: int) -> Tokens:
    tokens = rollout.turns[index].tokens
    if tokens is None:
        raise Invalid(
            f"turn {index} of rollout {rollout.id} has no token ids, so it cannot be trained on",
            hint="train with a policy that gives token ids and log-probabilities, such as a local model",
        )
    if len(tokens.logprobs) != len(tokens.sampled) or len(tokens.versions) not in (0, len(tokens.sampled)):
        raise Invalid(
            f"turn {index} of rollout {rollout.id} has {len(tokens.sampled)} sampled tokens, {len(tokens.logprobs)} "
            f"log-probabilities and {len(tokens.versions)} versions; they must be as many"
        )
    return tokens


def _turn_streams(rollout: Rollout, index: int, *, trained: bool) -> Streams:
    tokens = _tokens(rollout, index)
    before, drawn = len(tokens.prompt), len(tokens.sampled)
    logprobs = np.array([math.nan if value is None else value for value in tokens.logprobs], np.float64)
    finite = np.isfinite(logprobs)
    nothing = np.zeros(before, bool)
    return {
        "tokens": np.array([*tokens.prompt, *tokens.sampled], np.int64),
        "mask": np.concatenate([nothing, finite & trained]),
        "missing": np.concatenate([nothing, ~finite & trained]),
        "logprob": np.concatenate([np.zeros(before), np.where(finite, logprobs, 0.0)]).astype(np.float32),
        "version": np.array([-1] * before + (tokens.versions or [0] * drawn), np.int64),
    }


def _complete(streams: Streams) -> Streams:
    length = len(streams["tokens"])
    streams["mask"][0] = False  # Nothing comes before the first token, so nothing predicts it.
    filled: Streams = {name: np.full(length, fill, dtype) for name, (dtype, fill) in STREAMS.items()}
    filled |= {"position": np.arange(length), "segment": np.zeros(length, np.int64)}
    filled["weight"] = np.ones(length, np.float32)
    return filled | streams
