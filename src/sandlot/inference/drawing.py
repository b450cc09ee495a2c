"""Draws tokens from logits, each row by its own settings, and gives the exact log-probability of what was drawn.

Invariants: a row's draw depends on its own logits, settings and number alone, never on the rows beside it; the
log-probability is that of the distribution that was drawn from, at its temperature.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from sandlot.errors import Invalid, ModelError
from sandlot.inference.sampler import TokenSampling


def check_sampling(sampling: TokenSampling) -> None:
    """`Invalid` names the first setting that means nothing."""
    if sampling.max_tokens < 1:
        raise Invalid(f"max_tokens must be at least 1, found {sampling.max_tokens}")
    if not (math.isfinite(sampling.temperature) and sampling.temperature >= 0):
        raise Invalid(f"temperature must be a number from 0 on, found {sampling.temperature}")
    if not 0 < sampling.top_p <= 1:
        raise Invalid(f"top_p must be above 0 and at most 1, found {sampling.top_p}")
    if sampling.top_k < -1:
        raise Invalid(f"top_k must be a number of tokens, or -1 for all, found {sampling.top_k}")
    if not 0 <= sampling.min_p <= 1:
        raise Invalid(f"min_p must be between 0 and 1, found {sampling.min_p}")


def draw(
    logits_RV: torch.Tensor, settings: Sequence[TokenSampling], numbers: Sequence[float]
) -> tuple[list[int], list[float]]:
    """One token id and its log-probability for each row. `logits_RV` is overwritten.

    `numbers` are uniform in [0, 1): a row's token is where its cumulative distribution passes its number. A row with
    temperature 0 takes the likeliest token, with its log-probability at temperature 1. `ModelError` if the logits are
    not finite.
    """
    device = logits_RV.device
    scaled_RV = logits_RV.float()
    temperatures = [setting.temperature or 1.0 for setting in settings]
    if any(temperature != 1.0 for temperature in temperatures):
        scaled_RV.div_(torch.tensor(temperatures, device=device)[:, None])
    for row, setting in enumerate(settings):
        if setting.temperature > 0 and (setting.top_p < 1 or setting.top_k > 0 or setting.min_p > 0):
            scaled_RV[row] = _truncated(scaled_RV[row], setting)
    norm_R = torch.logsumexp(scaled_RV, dim=-1)
    if not bool(torch.isfinite(norm_R).all()):
        raise ModelError("the model's logits are not finite: its weights are broken (diverged training, or overflow)")
    greedy = [setting.temperature == 0 for setting in settings]
    if all(greedy):
        tokens_R = scaled_RV.argmax(dim=-1)
    else:
        cumulative_RV = torch.exp(scaled_RV - norm_R[:, None]).cumsum_(dim=-1)
        total_R1 = cumulative_RV[:, -1:].contiguous()
        goals_R1 = torch.tensor(numbers, device=device)[:, None] * total_R1
        tokens_R1 = torch.searchsorted(cumulative_RV, goals_R1, right=True)
        # Rounding may lift a goal to the total; the last token that has any probability is the most it may mean.
        tokens_R = torch.minimum(tokens_R1, torch.searchsorted(cumulative_RV, total_R1))[:, 0]
        if any(greedy):
            tokens_R = torch.where(torch.tensor(greedy, device=device), scaled_RV.argmax(dim=-1), tokens_R)
    logprobs_R = scaled_RV.gather(1, tokens_R[:, None])[:, 0] - norm_R
    return tokens_R.tolist(), logprobs_R.tolist()


def _truncated(scaled_V: torch.Tensor, setting: TokenSampling) -> torch.Tensor:
    """`scaled_V` with minus infinity for what top_k, then top_p, then min_p leave out."""
    ordered_V, order_V = scaled_V.sort(descending=True, stable=True)
    if setting.top_k > 0:
        ordered_V[setting.top_k :] = -math.inf
    probabilities_V = ordered_V.softmax(dim=-1)
    if setting.top_p < 1:
        # A token stays while those before it have less than top_p together, so the likeliest always does.
        before_V = probabilities_V.cumsum(dim=-1) - probabilities_V
        ordered_V[before_V >= setting.top_p] = -math.inf
    if setting.min_p > 0:
        ordered_V[probabilities_V < setting.min_p * probabilities_V[0]] = -math.inf
    return torch.empty_like(scaled_V).scatter_(0, order_V, ordered_V)
