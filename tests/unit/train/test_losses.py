from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sandlot.train.algorithms import PRESETS, Algorithm, resolve
from sandlot.train.losses import kl_estimate, token_losses

OLD = [math.log(0.5), math.log(0.5), math.log(0.2), math.log(0.2)]
NEW = [math.log(0.75), math.log(0.25), math.log(0.3), math.log(0.1)]  # ratios 1.5, 0.5, 1.5, 0.5
ADVANTAGES = [1.0, 1.0, -2.0, -2.0]
SAMPLES = [7, 7, 3, 3]


def losses(
    algorithm: Algorithm, new: list[float] = NEW, advantages: list[float] = ADVANTAGES
) -> tuple[list[float], list[float], list[bool]]:
    logprobs = torch.tensor(new, dtype=torch.float64, requires_grad=True)
    result = token_losses(
        logprobs,
        torch.tensor(OLD, dtype=torch.float64),
        torch.tensor(advantages, dtype=torch.float64),
        samples_N=torch.tensor(SAMPLES),
        algorithm=algorithm,
    )
    result.losses_N.sum().backward()
    assert logprobs.grad is not None
    return result.losses_N.tolist(), logprobs.grad.tolist(), result.kept_N.tolist()


def preset(name: str, **over: object) -> Algorithm:
    return Algorithm.model_validate(resolve({"preset": name, **over}))


GOLDEN = {
    # PPO's clip at 1 ± 0.2. A gain is capped at 1.2; a loss through a ratio of 0.5 at −2 is capped at 0.8.
    "grpo": ([-1.2, -0.5, 3.0, 1.6], [0.0, -0.5, 3.0, 0.0]),
    "dr_grpo": ([-1.2, -0.5, 3.0, 1.6], [0.0, -0.5, 3.0, 0.0]),
    "dapo": ([-1.28, -0.5, 3.0, 1.6], [0.0, -0.5, 3.0, 0.0]),
    # The ratio of both sequences is sqrt(1.5 · 0.5); each token carries half of its sequence's slope, twice.
    "gspo": (
        [-math.sqrt(0.75)] * 2 + [2 * (1 - 3e-4)] * 2,
        [-math.sqrt(0.75)] * 2 + [0.0] * 2,
    ),
    # The product of a sequence's ratios is 0.75: below 0.8, so the loss at −2 is capped and its slope is 0.
    "rloo": ([-0.75] * 2 + [1.6] * 2, [-1.5] * 2 + [0.0] * 2),
    # −r·A·log π, r without gradient and far below its cap of 5.
    "cispo": (
        [-1.5 * NEW[0], -0.5 * NEW[1], 3.0 * NEW[2], 1.0 * NEW[3]],
        [-1.5, -0.5, 3.0, 1.0],
    ),
}


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_presets_give_their_golden_values_and_slopes(name: str) -> None:
    values, slopes, _ = losses(preset(name))
    expected_values, expected_slopes = GOLDEN[name]
    assert values == pytest.approx(expected_values, abs=1e-9)
    assert slopes == pytest.approx(expected_slopes, abs=1e-9)


@pytest.mark.parametrize("name", ["dppo", "maxrl"])
def test_dppo_drops_what_moved_too_far_in_probability_and_adds_the_squared_penalty(name: str) -> None:
    # π − μ is +0.25, −0.25, +0.1, −0.1: only the first has gone too far in the direction of its advantage.
    values, slopes, kept = losses(preset(name))
    penalty = [1e-3 * math.log(r) ** 2 for r in (1.5, 0.5, 1.5, 0.5)]
    slope = [2e-3 * math.log(r) for r in (1.5, 0.5, 1.5, 0.5)]
    assert kept == [False, True, True, True]
    assert values == pytest.approx([a + b for a, b in zip([0.0, -0.5, 3.0, 1.0], penalty, strict=True)], abs=1e-9)
    assert slopes == pytest.approx([a + b for a, b in zip([0.0, -0.5, 3.0, 1.0], slope, strict=True)], abs=1e-9)


def test_a_zero_advantage_counts_as_a_negative_one_in_the_mask_of_dppo() -> None:
    _, _, kept = losses(preset("dppo"), advantages=[0.0, 0.0, 0.0, 0.0])
    assert kept == [True, False, True, True]


def test_ipo_drops_in_both_directions_whatever_the_advantage() -> None:
    near = [math.log(0.59), math.log(0.41), math.log(0.31), math.log(0.09)]
    assert losses(preset("ipo"), near)[2] == [True, True, False, False]


def test_dual_clip_bounds_the_loss_of_a_token_that_became_far_likelier_though_it_was_bad() -> None:
    far = [math.log(0.5), math.log(0.5), math.log(0.9), math.log(0.1)]  # third ratio 4.5
    values, slopes, kept = losses(preset("grpo", trust="dual_clip", dual=3.0), far)
    assert (values[2], slopes[2], kept[2]) == (pytest.approx(6.0), 0.0, False)
    assert losses(preset("grpo"), far)[0][2] == pytest.approx(9.0)


def test_mask_drops_tokens_whose_ratio_is_outside() -> None:
    values, slopes, kept = losses(preset("dppo", trust="mask", low=0.6, high=0.4, kl="none"))
    assert kept == [False, True, False, True]
    assert values == pytest.approx([0.0, -0.5, 0.0, 1.0])
    assert slopes == pytest.approx([0.0, -0.5, 0.0, 1.0])


def test_cispo_caps_the_ratio_and_keeps_the_slope() -> None:
    _, slopes, kept = losses(preset("cispo", high=0.1))
    assert slopes == pytest.approx([-1.1, -0.5, 2.2, 1.0])
    assert kept == [False, True, False, True]


def test_no_trust_region_and_no_penalty_is_the_plain_policy_gradient() -> None:
    values, slopes, kept = losses(preset("dppo", trust="none", kl="none"))
    assert values == pytest.approx([-1.5, -0.5, 3.0, 1.0])
    assert slopes == pytest.approx([-1.5, -0.5, 3.0, 1.0])
    assert all(kept)


def test_the_k3_penalty_has_the_slope_of_its_definition() -> None:
    values, slopes, _ = losses(preset("dppo", trust="none", kl="k3", kl_weight=1.0), advantages=[0.0] * 4)
    assert values == pytest.approx([r - math.log(r) - 1 for r in (1.5, 0.5, 1.5, 0.5)])
    assert slopes == pytest.approx([0.5, -0.5, 0.5, -0.5])


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_at_equal_policies_every_preset_has_the_slope_of_the_policy_gradient(name: str) -> None:
    _, slopes, kept = losses(preset(name), OLD)
    per_token = {"gspo": 1.0, "rloo": 2.0}.get(name, 1.0)  # rloo multiplies its sequence's two ratios
    assert slopes == pytest.approx([-a * per_token for a in ADVANTAGES])
    assert all(kept)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_the_analytic_slope_is_the_numeric_one(name: str) -> None:
    algorithm = preset(name)
    old = torch.tensor(OLD, dtype=torch.float64)
    if algorithm.trust == "cispo":  # Its ratio is a constant by definition, so its slope is not its value's.
        return

    def total(logprobs: Tensor) -> Tensor:
        advantages = torch.tensor(ADVANTAGES, dtype=torch.float64)
        return token_losses(
            logprobs, old, advantages, samples_N=torch.tensor(SAMPLES), algorithm=algorithm
        ).losses_N.sum()

    point = torch.tensor([-0.6, -0.75, -1.5, -1.7], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(total, point)


def test_a_ratio_that_would_overflow_stays_finite() -> None:
    values, slopes, _ = losses(preset("rloo", trust="none"), [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, -1.0, -1.0])
    far = losses(preset("dppo", trust="none"), [300.0, 400.0, 500.0, 600.0])
    assert all(math.isfinite(x) for x in values + slopes + far[0] + far[1])


def test_streams_of_other_lengths_are_refused_rather_than_broadcast() -> None:
    four, one = torch.zeros(4), torch.zeros(1)
    with pytest.raises(ValueError, match="one entry for each token"):
        token_losses(four, four, one, samples_N=torch.zeros(4), algorithm=preset("dppo"))


def test_kl_estimates_agree_with_the_divergence_on_average() -> None:
    p, q = torch.tensor([0.7, 0.2, 0.1]).log(), torch.tensor([0.5, 0.3, 0.2]).log()
    exact = float((p.exp() * (p - q)).sum())
    for kind in ("k1", "k3"):
        assert float((p.exp() * kl_estimate(p, q, kind=kind)).sum()) == pytest.approx(exact, abs=1e-6)  # type: ignore[arg-type]
