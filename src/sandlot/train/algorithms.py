"""Reinforcement-learning algorithms as rows of a table: advantage × ratio × trust region × aggregation × KL.

A row is data without torch, so that a config can be checked before anything heavy is imported. What the words do stands
in `advantages` and `losses`. Notation: π is the trainer's probability of a token, μ the sampler's, r = π/μ, A the
advantage, R a rollout's reward.
"""

from __future__ import annotations

from typing import Literal

from sandlot.config import Config
from sandlot.errors import Invalid

AdvantageKind = Literal["mean", "zscore", "leave_one_out", "maxrl", "reward"]
RatioKind = Literal["token", "sequence_mean", "sequence_sum"]
TrustKind = Literal["none", "clip", "dual_clip", "tv", "tv_symmetric", "mask", "cispo"]
AggregationKind = Literal["token", "sequence", "constant"]
KlKind = Literal["none", "squared", "k3"]

GROUP_RELATIVE: frozenset[str] = frozenset({"mean", "zscore", "leave_one_out", "maxrl"})
"""Advantages that are always 0 where a group has one rollout."""


class Algorithm(Config):
    """One algorithm, all of whose parts can be set by themselves."""

    preset: str = "dppo"
    """The row of the table that the other keys start from."""
    advantage: AdvantageKind = "mean"
    """What a rollout is compared with: mean (R − mean), zscore (over the population's deviation as well),
    leave_one_out (R − mean of the others), maxrl ((R − mean) / mean), reward (R itself)."""
    ratio: RatioKind = "token"
    """r for each token, or for each sequence: the exponential of its mean, or sum, of log r."""
    trust: TrustKind = "tv"
    """What holds an update near the sampling policy. clip and dual_clip: PPO. tv and tv_symmetric: a token is dropped
    once π − μ has moved too far. mask: dropped once r is outside. cispo: r is capped and carries no gradient."""
    low: float = 0.2
    """How far down: 1 − low is the least r of clip, dual_clip and mask; low is the most that π falls below μ in tv."""
    high: float = 0.2
    """How far up: 1 + high is the greatest r of clip, mask and cispo; high is the most that π rises above μ in tv."""
    dual: float = 3.0
    """dual_clip: the greatest r that counts against a token of negative advantage."""
    aggregation: AggregationKind = "token"
    """What a token weighs: token (all tokens of the batch alike), sequence (all samples alike), constant (as token, but
    over samples × max_tokens, so that length carries no weight)."""
    kl: KlKind = "squared"
    """The penalty for leaving the sampling policy: squared is (log r)², k3 is r − log r − 1."""
    kl_weight: float = 1e-3
    """What multiplies the penalty."""


PRESETS: dict[str, dict[str, object]] = {
    # DPPO's binary total-variation mask with Kimi's (log r)²: the default.
    "dppo": {},
    # Shao et al. 2024, arXiv:2402.03300, eq. 3, without the reference model (β = 0).
    "grpo": {"advantage": "zscore", "trust": "clip", "aggregation": "sequence", "kl": "none"},
    # Liu et al. 2025, arXiv:2503.20783: neither deviation nor length in the denominator.
    "dr_grpo": {"trust": "clip", "aggregation": "constant", "kl": "none"},
    # Yu et al. 2025, arXiv:2503.14476: clip higher, token mean.
    "dapo": {"advantage": "zscore", "trust": "clip", "high": 0.28, "kl": "none"},
    # Zheng et al. 2025, arXiv:2507.18071, eq. 5 and section 5.1 for the range.
    "gspo": {
        "advantage": "zscore",
        "ratio": "sequence_mean",
        "trust": "clip",
        "low": 3e-4,
        "high": 4e-4,
        "aggregation": "sequence",
        "kl": "none",
    },
    # MiniMax 2025, arXiv:2506.13585, eq. 4: only the upper bound is in use.
    "cispo": {"advantage": "zscore", "trust": "cispo", "high": 4.0, "kl": "none"},
    # Ahmadian et al. 2024, arXiv:2402.14740.
    "rloo": {
        "advantage": "leave_one_out",
        "ratio": "sequence_sum",
        "trust": "clip",
        "aggregation": "sequence",
        "kl": "none",
    },
    # INTELLECT's symmetric mask.
    "ipo": {"trust": "tv_symmetric", "low": 0.1, "high": 0.1},
    "maxrl": {"advantage": "maxrl"},
}


def resolve(table: dict[str, object]) -> dict[str, object]:
    """`table` with every key of its preset that it does not set itself. `Invalid` if there is no such preset."""
    name = table.get("preset", "dppo")
    if name not in PRESETS:
        raise Invalid(f"there is no algorithm {name!r}", hint="choose one of " + ", ".join(sorted(PRESETS)))
    return {**PRESETS[str(name)], **table}
