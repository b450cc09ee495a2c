"""Per-token losses of policy gradients, and the KL estimators. Pure functions on tensors.

Invariants: one value for each token, so that micro-batches and devices add up to the batch whatever the split; the
gradient flows through the trainer's log-probabilities alone; an advantage stays with its own token, never broadcast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from sandlot.train.algorithms import Algorithm, RatioKind

_LOG_RATIO_LIMIT = 20.0
"""Log ratios are held within ± this before they are exponentiated: e²⁰ is far outside every trust region, and what lies
beyond overflows a float in a sum over a sequence."""


class TokenLosses(NamedTuple):
    """One entry for each trained token."""

    losses_N: Tensor
    kept_N: Tensor
    """Whether the trust region let the token's gradient through."""
    log_ratios_N: Tensor
    """log π − log μ, for each token, without gradient."""


def token_losses(
    logprobs_N: Tensor, old_N: Tensor, advantages_N: Tensor, *, samples_N: Tensor, algorithm: Algorithm
) -> TokenLosses:
    """The losses of N trained tokens.

    `logprobs_N` are the trainer's log-probabilities (with gradient), `old_N` the sampler's, both natural and at the
    sampling temperature; `samples_N` says which tokens are of one sequence.
    """
    if not logprobs_N.shape == old_N.shape == advantages_N.shape == samples_N.shape:
        raise ValueError("every stream has one entry for each token")
    log_ratios = logprobs_N - old_N
    ratios = _level(log_ratios, samples_N, algorithm.ratio).clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT).exp()
    shift = logprobs_N.detach().exp() - old_N.exp()
    losses, kept = _TRUST[algorithm.trust](_Inputs(ratios, shift, logprobs_N, advantages_N, algorithm))
    if algorithm.kl != "none":
        losses = losses + algorithm.kl_weight * _PENALTY[algorithm.kl](log_ratios)
    return TokenLosses(losses, kept, log_ratios.detach())


def kl_estimate(log_p: Tensor, log_q: Tensor, *, kind: Literal["k1", "k2", "k3"]) -> Tensor:
    """Estimates of KL(p‖q), one for each draw from p. Schulman 2020, "Approximating KL divergence".

    k1 is log p − log q; k2 is half its square; k3 is q/p − 1 − log(q/p), which is never negative.
    """
    difference = log_q - log_p
    if kind == "k1":
        return -difference
    if kind == "k2":
        return difference.square() / 2
    # expm1 keeps the digits that e^x − 1 loses near 0, where a healthy run is.
    return torch.expm1(difference) - difference


class _Inputs(NamedTuple):
    ratios: Tensor
    shift: Tensor
    """π − μ, without gradient."""
    logprobs: Tensor
    advantages: Tensor
    algorithm: Algorithm


def _level(log_ratios: Tensor, samples: Tensor, kind: RatioKind) -> Tensor:
    if kind == "token":
        return log_ratios
    _, index = torch.unique(samples, return_inverse=True)
    count = int(index.max()) + 1 if index.numel() else 0
    sums = log_ratios.new_zeros(count).index_add(0, index, log_ratios)
    if kind == "sequence_mean":
        sums = sums / log_ratios.new_zeros(count).index_add(0, index, torch.ones_like(log_ratios))
    return sums[index]


def _free(inputs: _Inputs) -> tuple[Tensor, Tensor]:
    losses = -inputs.ratios * inputs.advantages
    return losses, torch.ones_like(losses, dtype=torch.bool)


def _clip(inputs: _Inputs) -> tuple[Tensor, Tensor]:
    low, high = 1 - inputs.algorithm.low, 1 + inputs.algorithm.high
    free = inputs.ratios * inputs.advantages
    clipped = inputs.ratios.clamp(low, high) * inputs.advantages
    return -torch.minimum(free, clipped), (free <= clipped).detach()


def _dual_clip(inputs: _Inputs) -> tuple[Tensor, Tensor]:
    losses, kept = _clip(inputs)
    ceiling = -inputs.algorithm.dual * inputs.advantages
    capped = (inputs.advantages < 0) & (losses.detach() > ceiling)
    return torch.where(capped, ceiling, losses), kept & ~capped


def _tv(inputs: _Inputs) -> tuple[Tensor, Tensor]:
    low, high = inputs.algorithm.low, inputs.algorithm.high
    dropped = torch.where(inputs.advantages > 0, inputs.shift > high, inputs.shift < -low)
    return _dropping(inputs, dropped)


def _tv_symmetric(inputs: _Inputs) -> tuple[Tensor, Tensor]:
    return _dropping(inputs, (inputs.shift > inputs.algorithm.high) | (inputs.shift < -inputs.algorithm.low))


def _mask(inputs: _Inputs) -> tuple[Tensor, Tensor]:
    ratios = inputs.ratios.detach()
    return _dropping(inputs, (ratios > 1 + inputs.algorithm.high) | (ratios < 1 - inputs.algorithm.low))


def _dropping(inputs: _Inputs, dropped: Tensor) -> tuple[Tensor, Tensor]:
    losses = -inputs.ratios * inputs.advantages
    return torch.where(dropped, torch.zeros_like(losses), losses), ~dropped


def _cispo(inputs: _Inputs) -> tuple[Tensor, Tensor]:
    ceiling = 1 + inputs.algorithm.high
    ratios = inputs.ratios.detach()
    return -ratios.clamp(max=ceiling) * inputs.advantages * inputs.logprobs, ratios <= ceiling


_TRUST: dict[str, Callable[[_Inputs], tuple[Tensor, Tensor]]] = {
    "none": _free,
    "clip": _clip,
    "dual_clip": _dual_clip,
    "tv": _tv,
    "tv_symmetric": _tv_symmetric,
    "mask": _mask,
    "cispo": _cispo,
}

_PENALTY: dict[str, Callable[[Tensor], Tensor]] = {
    "squared": torch.square,
    "k3": lambda log_ratios: torch.expm1(log_ratios.clamp(max=_LOG_RATIO_LIMIT)) - log_ratios,
}
