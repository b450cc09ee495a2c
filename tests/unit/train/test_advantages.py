from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st

from sandlot.train.advantages import advantages, group_advantages, has_signal

KINDS = ["mean", "zscore", "leave_one_out", "maxrl"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("mean", [0.5, -0.5, -0.5, 0.5]),
        ("zscore", [1.0, -1.0, -1.0, 1.0]),
        ("leave_one_out", [1 - 1 / 3, 0 - 2 / 3, 0 - 2 / 3, 1 - 1 / 3]),
        ("maxrl", [1.0, -1.0, -1.0, 1.0]),
        ("reward", [1.0, 0.0, 0.0, 1.0]),
    ],
)
def test_each_kind_gives_its_definition(kind: str, expected: list[float]) -> None:
    found = group_advantages(torch.tensor([1.0, 0.0, 0.0, 1.0]), kind)  # type: ignore[arg-type]
    assert found.tolist() == pytest.approx(expected, abs=1e-12)


def test_maxrl_gives_nothing_where_the_mean_is_not_positive() -> None:
    assert group_advantages(torch.tensor([-1.0, 0.5]), "maxrl").tolist() == [0.0, 0.0]


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=9), st.sampled_from(["mean", "zscore", "leave_one_out"]))
def test_advantages_are_finite_and_sum_to_zero(rewards: list[float], kind: str) -> None:
    found = group_advantages(torch.tensor(rewards, dtype=torch.float64), kind)  # type: ignore[arg-type]
    assert torch.isfinite(found).all()
    assert abs(float(found.sum())) < 1e-6 * max(1.0, float(found.abs().max()))


@given(st.floats(-1e3, 1e3, allow_subnormal=False), st.integers(1, 9), st.sampled_from(KINDS))
def test_a_group_of_one_value_has_no_signal_and_exactly_zero_advantage(value: float, count: int, kind: str) -> None:
    rewards = torch.tensor([value] * count, dtype=torch.float64)
    # The same value reached by another order of additions differs in its last digits.
    rewards[0] = (rewards[0] / 3) * 3
    assert not has_signal(rewards)
    assert group_advantages(rewards, kind).tolist() == [0.0] * count  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1)), min_size=1, max_size=12))
def test_interleaved_groups_get_what_each_would_get_alone(pairs: list[tuple[int, float]]) -> None:
    groups = torch.tensor([g for g, _ in pairs])
    rewards = torch.tensor([r for _, r in pairs], dtype=torch.float64)
    found = advantages(rewards, groups, kind="mean")
    for number in {g for g, _ in pairs}:
        members = groups == number
        assert found[members].tolist() == group_advantages(rewards[members], "mean").tolist()
