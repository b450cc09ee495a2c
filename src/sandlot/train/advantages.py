"""Advantages: what a rollout's reward is worth beside those of its group. Pure functions.

Invariants: statistics are a group's own, never the batch's; a group without signal (all rewards equal, or one rollout)
gets exactly 0, whatever the rounding; every result is finite.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from sandlot.train.algorithms import AdvantageKind

_EQUAL = 1e-8
"""Rewards nearer than this, relative to their size, are equal: weighted sums of floats differ in their last digits."""


def has_signal(rewards_G: Tensor) -> bool:
    """Whether the rewards of a group differ."""
    if rewards_G.numel() < 2:
        return False
    spread = float(rewards_G.max() - rewards_G.min())
    return spread > _EQUAL * max(1.0, float(rewards_G.abs().max()))


def group_advantages(rewards_G: Tensor, kind: AdvantageKind) -> Tensor:
    """The advantages of one group, float64, in the order of `rewards_G`. See `Algorithm.advantage` for the kinds."""
    rewards = rewards_G.to(torch.float64)
    if kind == "reward":
        return rewards
    return _KINDS[kind](rewards) if has_signal(rewards) else torch.zeros_like(rewards)


def advantages(rewards_N: Tensor, groups_N: Tensor, *, kind: AdvantageKind) -> Tensor:
    """The advantages of many groups, float64, in the order of `rewards_N`. `groups_N` says who belongs together."""
    result = torch.zeros(rewards_N.shape, dtype=torch.float64)
    for group in groups_N.unique():  # type: ignore[no-untyped-call]
        members = groups_N == group
        result[members] = group_advantages(rewards_N[members], kind)
    return result


def _mean(rewards: Tensor) -> Tensor:
    return rewards - rewards.mean()


def _zscore(rewards: Tensor) -> Tensor:
    # The population's deviation (divided by G), so that [1, 0, 0, 1] gives ±1. No epsilon: a group that comes here has
    # a spread, and an epsilon would make the result depend on the reward's scale.
    return (rewards - rewards.mean()) / rewards.std(correction=0)


def _leave_one_out(rewards: Tensor) -> Tensor:
    count = rewards.numel()
    return (rewards - rewards.mean()) * (count / (count - 1))


def _maxrl(rewards: Tensor) -> Tensor:
    mean = rewards.mean()
    return (rewards - mean) / mean if float(mean) > 0 else torch.zeros_like(rewards)


_KINDS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": _mean,
    "zscore": _zscore,
    "leave_one_out": _leave_one_out,
    "maxrl": _maxrl,
}
