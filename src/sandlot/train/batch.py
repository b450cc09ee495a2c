"""Groups of rollouts as a batch of weighted samples.

Invariants: a rollout without a verdict is neither trained on nor part of its group's baseline; a rollout that is
withheld, overlong or stale keeps its reward in the baseline; the denominator of the loss is counted once over the whole
batch and stands in each token's `weight`, so the loss is a plain sum whatever the split into micro-batches or devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from sandlot.records import Rollout
from sandlot.train.advantages import group_advantages, has_signal
from sandlot.train.algorithms import GROUP_RELATIVE, AggregationKind, Algorithm
from sandlot.train.samples import Sample, samples_of


@dataclass(frozen=True, eq=False)
class Batch:
    """What one update learns from. The weights of all trained tokens hold the loss's denominator."""

    samples: list[Sample]
    counts: Counter[str]
    """samples, tokens (trained ones), sampled, overlong, missing_logprob, stale_tokens, withheld, unscored, lag (summed
    over trained tokens: how many versions old they are)."""


def build_batch(
    groups: Sequence[Sequence[Rollout]],
    *,
    algorithm: Algorithm,
    limits: BatchLimits,
    version: int = 0,
    withheld: Collection[str] = (),
) -> Batch:
    """The batch of `groups`, to be trained on while the policy stands at `version`.

    `withheld` are ids of rollouts whose reward counts for the baseline and whose tokens are not trained.
    """
    counts: Counter[str] = Counter()
    samples: list[Sample] = []
    for group in groups:
        scored = [rollout for rollout in group if rollout.reward is not None]
        counts["unscored"] += len(group) - len(scored)
        rewards = torch.tensor([rollout.reward for rollout in scored], dtype=torch.float64)
        for rollout, advantage in zip(scored, group_advantages(rewards, algorithm.advantage).tolist(), strict=True):
            if rollout.id in withheld:
                counts["withheld"] += 1
                continue
            found, more = samples_of(rollout, max_length=limits.sample_tokens)
            counts.update(more)
            samples += [sample.replace(advantage=advantage) for sample in found]
    fresh = [_without_stale(sample, version - limits.staleness, counts) for sample in samples]
    shipped = [sample for sample in fresh if sample.trained]
    counts["samples"] = len(shipped)
    counts["tokens"] = sum(sample.trained for sample in shipped)
    counts["lag"] = sum(int((version - s.streams["version"][s.streams["mask"]]).sum()) for s in shipped)
    return Batch(weigh(shipped, algorithm.aggregation, max_tokens=limits.completion_tokens), counts)


@dataclass(frozen=True)
class BatchLimits:
    """What may be trained on."""

    sample_tokens: int
    """The longest sample."""
    completion_tokens: int
    """The most tokens of a completion: the constant aggregation's length."""
    staleness: int = 0
    """How many versions old a token may be."""


def informative(group: Sequence[Rollout], algorithm: Algorithm) -> bool:
    """Whether training on the group can teach anything: its scored rewards differ, where the algorithm compares."""
    rewards = [rollout.reward for rollout in group if rollout.reward is not None]
    if algorithm.advantage not in GROUP_RELATIVE:
        return bool(rewards)
    return has_signal(torch.tensor(rewards, dtype=torch.float64))


def weigh(samples: Sequence[Sample], aggregation: AggregationKind, *, max_tokens: int) -> list[Sample]:
    """`samples` with each trained token's share of the loss as `weight`, 0 elsewhere; denominators are the batch's."""
    tokens = sum(sample.trained for sample in samples)
    weighted = []
    for sample in samples:
        denominator = {
            "token": tokens,
            "sequence": len(samples) * sample.trained,
            "constant": len(samples) * max_tokens,
        }[aggregation]
        weighted.append(sample.replace(weight=sample.streams["mask"] / np.float32(max(1, denominator))))
    return weighted


def _without_stale(sample: Sample, oldest: int, counts: Counter[str]) -> Sample:
    mask = sample.streams["mask"]
    fresh = mask & (sample.streams["version"] >= oldest)
    counts["stale_tokens"] += int(mask.sum() - fresh.sum())
    return sample if fresh.sum() == mask.sum() else sample.replace(mask=fresh)
