"""Log-probabilities of chosen tokens and the entropy behind them, without ever holding all logits.

Invariants: the softmax is in float32 and at the sampling temperature; forward and backward agree with the plain
`log_softmax` of all logits; memory is bounded, whatever the number of tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from sandlot.inference import product

CHUNK_BYTES = 24 * 2**20
"""Bytes of logits at a time. Below 32 MiB the C library serves them from its heap; above, each chunk is mapped and
faulted in anew, which costs as much as the softmax itself (measured on two cores)."""


KEPT_BYTES = 256 * 2**20
"""Probabilities up to this size are kept for the gradient; beyond, they are computed again. Keeping them saves a
twelfth of an update of a model of 135 million weights."""


class TokenScores(NamedTuple):
    """One entry for each chosen token."""

    logprobs_N: Tensor
    entropies_N: Tensor
    """Of the whole distribution at that place, in nats. A measurement: it carries no gradient."""


def selective_logprobs(
    hidden_ND: Tensor,
    weight_VD: Tensor,
    *,
    targets_N: Tensor,
    temperature: float = 1.0,
    bias_V: Tensor | None = None,
) -> TokenScores:
    """The log-probability of `targets_N` under softmax((hidden · weightᵀ + bias) / temperature).

    `hidden_ND` are the states that predict the targets. Gradients reach hidden, weight and bias.
    """
    if temperature <= 0:
        raise ValueError(f"a temperature is above 0, found {temperature}")
    bias = bias_V if bias_V is not None else weight_VD.new_zeros(0)
    return TokenScores(*_Selective.apply(hidden_ND, weight_VD, bias, targets_N, temperature))  # type: ignore[no-untyped-call]


class _Selective(torch.autograd.Function):
    """Logits are made chunk by chunk; what is not kept of them is made again for the gradient."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        count = hidden.shape[0]
        logprobs = torch.empty(count, dtype=torch.float32, device=hidden.device)
        entropies = torch.empty_like(logprobs)
        totals = torch.empty_like(logprobs)
        keeps = 4 * count * weight.shape[0] <= KEPT_BYTES and any(ctx.needs_input_grad)
        ctx.kept = []
        for part in _parts(count, weight.shape[0]):
            logits = _logits(hidden[part], weight, bias, temperature)
            total = logits.logsumexp(-1)
            totals[part] = total
            logits -= total[:, None]
            logprobs[part] = logits.gather(1, targets[part, None])[:, 0]
            chances = logits.exp()
            entropies[part] = -logits.mul_(chances).sum(-1)
            if keeps:
                ctx.kept.append(chances)
        ctx.save_for_backward(hidden, weight, bias, targets, totals)
        ctx.temperature = temperature
        ctx.mark_non_differentiable(entropies)
        return logprobs, entropies

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, targets, totals = ctx.saved_tensors
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        grad_hidden = torch.empty_like(hidden) if needs_hidden else None
        grad_weight = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device) if needs_weight else None
        grad_bias = torch.zeros(bias.shape, dtype=torch.float32, device=bias.device) if needs_bias else None
        for part in _parts(hidden.shape[0], weight.shape[0]):
            scale = grads[0][part, None] / ctx.temperature
            if ctx.kept:
                slope = ctx.kept.pop(0)
            else:
                slope = _logits(hidden[part], weight, bias, ctx.temperature).sub_(totals[part, None]).exp_()
            slope.mul_(-scale)  # −g · softmax
            slope.scatter_add_(1, targets[part, None], scale)  # + g at the chosen token
            if grad_hidden is not None:
                grad_hidden[part] = product(slope, weight.float().t()).to(hidden.dtype)
            if grad_weight is not None:
                grad_weight.addmm_(slope.t(), hidden[part].float())
            if grad_bias is not None and bias.numel():
                grad_bias += slope.sum(0)
        return (
            grad_hidden,
            None if grad_weight is None else grad_weight.to(weight.dtype),
            None if grad_bias is None else grad_bias.to(bias.dtype),
            None,
            None,
        )


def _parts(count: int, vocabulary: int) -> list[slice]:
    size = max(1, CHUNK_BYTES // (4 * vocabulary))
    return [slice(start, start + size) for start in range(0, count, size)]


def _logits(hidden: Tensor, weight: Tensor, bias: Tensor, temperature: float) -> Tensor:
    logits = product(hidden.float(), weight.float())
    if bias.numel():
        logits += bias.float()
    return logits if temperature == 1.0 else logits.div_(temperature)
