"""The cases `trainer-numerics`, by id. Each varies its input, for what counts is the kind of fault behind it."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from tests.unit.train.rollouts import LIMITS, group, rollout, tiny_llama, turn

from sandlot.records import Rollout
from sandlot.train.advantages import advantages, group_advantages, has_signal
from sandlot.train.algorithms import Algorithm
from sandlot.train.batch import build_batch, informative
from sandlot.train.config import OptimiserConfig
from sandlot.train.learner import Learner
from sandlot.train.logprobs import selective_logprobs
from sandlot.train.losses import kl_estimate, token_losses
from sandlot.train.packing import collate, pack
from sandlot.train.samples import Sample, samples_of


@pytest.mark.parametrize("scale", [1.0, 1e-3, 250.0])
def test_NUM_01_group_advantages_are_mean_only_or_over_the_population_deviation(scale: float) -> None:
    rewards = torch.tensor([1.0, 0.0, 0.0, 1.0]) * scale
    assert group_advantages(rewards, "mean").tolist() == pytest.approx([x * scale for x in (0.5, -0.5, -0.5, 0.5)])
    assert group_advantages(rewards, "zscore").tolist() == pytest.approx([1.0, -1.0, -1.0, 1.0])


@pytest.mark.parametrize("rewards", [[1.0] * 4, [0.1] * 3, [0.7], [0.1 + 0.2, 0.3], [-5e5] * 8])
@pytest.mark.parametrize("kind", ["mean", "zscore", "leave_one_out", "maxrl"])
def test_NUM_02_a_group_of_equal_rewards_or_of_one_is_zero_and_counted_as_without_signal(
    rewards: list[float], kind: str
) -> None:
    tensor = torch.tensor(rewards, dtype=torch.float64)
    assert group_advantages(tensor, kind).tolist() == [0.0] * len(rewards)  # type: ignore[arg-type]
    assert not has_signal(tensor)
    assert not informative(group(rewards), Algorithm(advantage=kind))  # type: ignore[arg-type]


def test_NUM_04_statistics_are_the_groups_own_in_the_order_of_the_batch() -> None:
    found = advantages(torch.tensor([1.0, 1.0, 0.0, 1.0]), torch.tensor([0, 1, 0, 1]), kind="mean")
    assert found.tolist() == [0.5, 0.0, -0.5, 0.0]


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [([1, "T", "T", 0], [0.75, -0.25, -0.25, -0.25]), ([1, 1, "T", "T"], [0.5, 0.5, -0.5, -0.5])],
)
def test_NUM_05_the_agents_timeouts_stay_in_the_group_as_their_reward(
    outcomes: list[int | str], expected: list[float]
) -> None:
    rollouts = [
        rollout([turn([1], [2])], 0.0, index=i, stop="timeout", truncated=True)
        if outcome == "T"
        else rollout([turn([1], [2])], float(outcome), index=i)
        for i, outcome in enumerate(outcomes)
    ]
    batch = build_batch([rollouts], algorithm=Algorithm(), limits=LIMITS)
    assert [float(s.streams["advantage"][-1]) for s in batch.samples] == expected


def gradient(learner: Learner, parts: list[list[Sample]]) -> torch.Tensor:
    learner.model.zero_grad()
    for part in parts:
        learner.accumulate(part)
    return torch.cat([p.grad.flatten() for p in learner.parameters.values() if p.grad is not None])


@pytest.mark.parametrize("split", [[1, 3], [2, 2], [1, 1, 1, 1]])
@pytest.mark.parametrize("aggregation", ["token", "sequence", "constant"])
def test_NUM_07_the_denominator_is_the_batchs_whatever_the_split(split: list[int], aggregation: str) -> None:
    lengths = [1, 3, 5, 2]
    rollouts = [rollout([turn([1, 2], range(3, 3 + n))], float(i % 2), index=i) for i, n in enumerate(lengths)]
    algorithm = Algorithm(aggregation=aggregation)  # type: ignore[arg-type]
    samples = build_batch([rollouts], algorithm=algorithm, limits=LIMITS).samples
    learner = Learner(tiny_llama(), algorithm=algorithm, optimiser=OptimiserConfig())
    whole = gradient(learner, [samples])
    starts = np.cumsum([0, *split])
    parts = [samples[a:b] for a, b in pairwise(starts)]
    assert float((gradient(learner, parts) - whole).norm()) < 1e-6 * float(whole.norm())


def test_NUM_07_one_token_of_loss_1_beside_three_of_loss_0_is_a_mean_of_a_quarter() -> None:
    rollouts = [rollout([turn([1], [2])], 0.0), rollout([turn([1], [2, 3, 4])], 1.0, index=1)]
    samples = build_batch([rollouts], algorithm=Algorithm(), limits=LIMITS).samples
    losses = [1.0, 0.0]
    assert sum(x * float(s.streams["weight"].sum()) for x, s in zip(losses, samples, strict=True)) == 0.25


@pytest.mark.parametrize(("first", "tool", "second"), [(3, 5, 2), (1, 1, 1), (2, 9, 4)])
def test_NUM_09_what_the_environment_said_is_attended_to_and_not_trained(first: int, tool: int, second: int) -> None:
    turns = [turn([1], range(2, 2 + first)), turn([30] * tool, range(2, 2 + second), parent=0)]
    (sample,), _ = samples_of(rollout(turns), max_length=100)
    assert sample.streams["mask"].astype(int).tolist()[1:] == [1] * first + [0] * tool + [1] * second
    batch = collate(pack([sample], capacity=100))
    assert batch.streams_N["tokens"].numel() == first + second
    last = batch.attention_B1TT[0, 0, -1]
    assert int((last == 0).sum()) == len(sample)


def test_NUM_10_a_sampled_end_token_is_trained_though_padding_has_its_id() -> None:
    end = 0  # STREAMS pads with 0 as well
    long, short = [turn([5], [6, 7, 8, end])], [turn([5, 9], [end])]
    samples = [samples_of(rollout(turns), max_length=9)[0][0] for turns in (long, short)]
    batch = collate([pack([sample], capacity=9)[0] for sample in samples])
    assert batch.tokens_BT.tolist() == [[5, 6, 7, 8, end], [5, 9, end, end, end]]
    assert batch.streams_N["tokens"].tolist() == [6, 7, 8, end, end]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_NUM_11_log_probabilities_are_at_the_sampling_temperature(temperature: float) -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0]])
    scores = selective_logprobs(logits, torch.eye(3), targets_N=torch.tensor([0]), temperature=temperature)
    exact = {0.5: -0.142932, 1.0: -0.407606, 2.0: -0.680270}[temperature]
    assert float(scores.logprobs_N) == pytest.approx(exact, abs=1e-6)


def forked(a: int, b: int, c: int) -> Rollout:
    return rollout([turn([1, 2], range(3, 3 + a)), turn([4], range(b), parent=0), turn([5], range(c), parent=0)], 1.0)


@pytest.mark.parametrize(("a", "b", "c"), [(5, 3, 4), (1, 1, 1), (2, 7, 1)])
def test_NUM_18_a_turn_that_branches_share_is_trained_once_and_the_count_is_what_is_shipped(
    a: int, b: int, c: int
) -> None:
    batch = build_batch([[forked(a, b, c), *group([0.0])]], algorithm=Algorithm(), limits=LIMITS)
    assert [s.trained for s in batch.samples] == [a + b, c, 3]
    assert batch.counts["tokens"] == a + b + c + 3
    assert collate(pack(batch.samples, capacity=64)).streams_N["tokens"].numel() == a + b + c + 3


@pytest.mark.parametrize(("a", "b"), [(7, 5), (1, 12), (9, 1)])
def test_NUM_19_packed_samples_do_not_see_each_other_and_a_first_token_has_no_loss(a: int, b: int) -> None:
    model = tiny_llama()
    draw = torch.Generator().manual_seed(a)
    ids = [torch.randint(0, 40, (n + 1,), generator=draw).tolist() for n in (a, b)]
    samples = [
        samples_of(rollout([turn(i[:1], i[1:])]), max_length=40)[0][0].replace(weight=w) for w, i in enumerate(ids)
    ]
    (row,) = pack(samples, capacity=40)
    batch = collate([row])
    learner = Learner(model, algorithm=Algorithm(), optimiser=OptimiserConfig())
    packed = learner.scores(batch).logprobs_N.detach()
    for number, tokens in enumerate(ids):
        alone = model(input_ids=torch.tensor([tokens])).logits[0, :-1].log_softmax(-1)
        expected = alone.gather(1, torch.tensor(tokens[1:])[:, None])[:, 0]
        assert torch.allclose(packed[batch.streams_N["weight"] == number], expected, atol=1e-4)
    assert int((batch.position_BT == 0).sum()) == 2
    assert not row.streams["mask"][row.streams["position"] == 0].any()


def test_NUM_20_an_advantage_is_its_own_samples_when_batch_equals_length() -> None:
    rollouts = [rollout([turn([9], [1, 2])], r, index=i) for i, r in enumerate([1.0, -1.0])]
    batch = build_batch([rollouts], algorithm=Algorithm(), limits=LIMITS)
    streams = collate(pack(batch.samples, capacity=16)).streams_N
    losses = token_losses(
        streams["logprob"],
        streams["logprob"],
        streams["advantage"],
        samples_N=streams["segment"],
        algorithm=Algorithm(),
    ).losses_N
    assert losses.tolist() == [-1.0, -1.0, 1.0, 1.0]


def test_NUM_21_a_withheld_rollout_counts_for_the_baseline_and_is_not_trained() -> None:
    rollouts = group([1.0, 0.0, 0.0])
    batch = build_batch([rollouts], algorithm=Algorithm(), limits=LIMITS, withheld={rollouts[2].id})
    assert [float(s.streams["advantage"][-1]) for s in batch.samples] == pytest.approx([2 / 3, -1 / 3])
    assert batch.counts["withheld"] == 1


def test_NUM_22_kl_estimates_have_the_sign_and_form_of_their_definition() -> None:
    p, q = torch.tensor(0.25).log(), torch.tensor(0.5).log()
    assert float(kl_estimate(p, q, kind="k1")) == pytest.approx(-0.693147, abs=1e-6)
    assert float(kl_estimate(p, q, kind="k3")) == pytest.approx(0.306853, abs=1e-6)
    assert float(kl_estimate(p, q, kind="k2")) == pytest.approx(0.693147**2 / 2, abs=1e-6)
    grid = torch.linspace(-9, 0, 50)
    assert (kl_estimate(grid[:, None], grid[None], kind="k3") >= 0).all()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_NUM_24_a_logprob_that_is_nan_costs_its_token_alone(place: int) -> None:
    logprobs = [-0.1, -0.3, -0.2]
    broken = [math.nan if i == place else x for i, x in enumerate(logprobs)]
    rollouts = [rollout([turn([1], [2, 3, 4], broken)], 1.0), *group([0.0])]
    batch = build_batch([rollouts], algorithm=Algorithm(), limits=LIMITS)
    kept = batch.samples[0].streams
    assert kept["logprob"][kept["mask"]].tolist() == pytest.approx([x for i, x in enumerate(logprobs) if i != place])
    assert (batch.counts["missing_logprob"], batch.counts["tokens"]) == (1, 5)
    figures = Learner(tiny_llama(), algorithm=Algorithm(), optimiser=OptimiserConfig()).update(batch.samples)
    assert all(math.isfinite(value) for value in figures.values())
