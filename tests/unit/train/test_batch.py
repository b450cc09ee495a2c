from __future__ import annotations

import pytest
import torch
from tests.unit.train.rollouts import LIMITS, group, rollout, turn

from sandlot.train.algorithms import Algorithm
from sandlot.train.batch import BatchLimits, build_batch, informative


def advantages_of(batch: object) -> list[float]:
    return [float(s.streams["advantage"][-1]) for s in batch.samples]  # type: ignore[attr-defined]


def test_unscored_rollouts_are_neither_trained_on_nor_in_the_baseline() -> None:
    batch = build_batch([group([1.0, None, 0.0, None])], algorithm=Algorithm(), limits=LIMITS)
    assert advantages_of(batch) == [0.5, -0.5]
    assert batch.counts["unscored"] == 2


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [("token", [1 / 6] * 2), ("sequence", [1 / 4, 1 / 8]), ("constant", [1 / 32] * 2)],
)
def test_weights_hold_the_denominator_of_the_whole_batch(aggregation: str, expected: list[float]) -> None:
    rollouts = [rollout([turn([1], [2, 3])], 1.0), rollout([turn([1], [2, 3, 4, 5])], 0.0, index=1)]
    algorithm = Algorithm(aggregation=aggregation)  # type: ignore[arg-type]
    batch = build_batch([rollouts], algorithm=algorithm, limits=LIMITS)
    assert [float(s.streams["weight"][-1]) for s in batch.samples] == pytest.approx(expected)
    assert [float(s.streams["weight"][0]) for s in batch.samples] == [0.0, 0.0]


def test_stale_tokens_are_withheld_one_by_one_and_their_reward_stays_in_the_baseline() -> None:
    turns = [turn([1], [2, 3], version=3), turn([4], [5], parent=0, version=5)]
    rollouts = [rollout(turns, 1.0), rollout([turn([1], [6], version=3)], 0.0, index=1)]
    limits = BatchLimits(sample_tokens=10, completion_tokens=5, staleness=1)
    batch = build_batch([rollouts], algorithm=Algorithm(), limits=limits, version=5)
    (sample,) = batch.samples
    assert sample.streams["mask"].tolist() == [False, False, False, False, True]
    assert float(sample.streams["advantage"][-1]) == 0.5
    assert (batch.counts["stale_tokens"], batch.counts["tokens"], batch.counts["lag"]) == (3, 1, 0)


def test_a_group_is_informative_if_its_scored_rewards_differ() -> None:
    assert informative(group([0.0, 1.0]), Algorithm())
    assert not informative(group([1.0, 1.0]), Algorithm())
    assert not informative(group([1.0, None]), Algorithm())
    assert not informative(group([None, None]), Algorithm(advantage="reward"))
    assert informative(group([1.0]), Algorithm(advantage="reward"))


def test_nothing_to_train_gives_an_empty_batch() -> None:
    batch = build_batch([group([None, None])], algorithm=Algorithm(), limits=LIMITS)
    assert (batch.samples, batch.counts["tokens"]) == ([], 0)
    assert torch.tensor([s.trained for s in batch.samples]).sum() == 0
