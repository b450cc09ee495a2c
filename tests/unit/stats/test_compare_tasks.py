"""Comparing two measurements task by task: what is said, and what is never said of too little."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from sandlot.stats import compare_tasks, holm


def of(values):
    """The means of as many tasks."""
    return {("e", str(number)): value for number, value in enumerate(values)}


means = st.dictionaries(
    st.tuples(st.just("e"), st.integers(0, 40).map(str)), st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=30
)


@given(first=means, second=means)
def test_swapping_the_two_turns_the_sign_and_nothing_else(first, second):
    one, other = compare_tasks(first, second), compare_tasks(second, first)
    assert one.n + one.left_out == len(first.keys() | second.keys())
    assert (one.left_out, one.wins, one.losses) == (other.left_out, other.losses, other.wins)
    assert one.p == pytest.approx(other.p, abs=1e-9) if one.p is not None else other.p is None
    if one.difference is not None:
        assert one.difference == pytest.approx(-other.difference, abs=1e-12)
    turned = {"first": "second", "second": "first"}
    assert one.better() == turned.get(other.better(), other.better())


@given(first=means)
def test_a_measurement_is_equal_to_itself(first):
    assert compare_tasks(first, first).better() == ("equal" if first else "no task in common")


@pytest.mark.parametrize(("n", "said"), [(1, "too few tasks"), (5, "too few tasks"), (6, "second"), (40, "second")])
def test_better_is_said_only_of_as_many_tasks_as_can_show_it(n, said):
    found = compare_tasks(dict.fromkeys(range(n), 0.0), dict.fromkeys(range(n), 1.0))
    assert (found.difference, found.wins, found.better()) == (1.0, n, said)


def test_the_difference_of_a_textbook_example():
    # Student's sleep data (1908): mean difference 1.58, t = 4.0621, p = 0.002833 with 9 degrees of freedom.
    first = of([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0])
    second = of([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])
    found = compare_tasks(first, second)
    assert found.difference == pytest.approx(1.58)
    assert (found.low, found.high) == (pytest.approx(0.7001142, abs=1e-6), pytest.approx(2.4598858, abs=1e-6))
    # Ten differences, one of them 0, all others above: two of the 512 assignments that differ are as extreme.
    assert (found.test, found.p) == ("sign-flip", pytest.approx(2 / 512))
    assert found.better() == "second"
    assert found.detectable == pytest.approx((2.262157 + 0.841621) * 1.58 / 4.0621276, rel=1e-5)


def test_what_may_be_chance_is_undecided():
    first = of([float(task % 2) for task in range(20)])
    second = of([float(task % 3 == 0) for task in range(20)])
    found = compare_tasks(first, second)
    assert (found.test, found.better()) == ("t", "undecided")


def test_holm_corrects_for_the_number_of_comparisons():
    assert holm([0.01, 0.04, 0.03, None]) == [pytest.approx(0.03), pytest.approx(0.06), pytest.approx(0.06), None]
    assert holm([0.6, 0.7]) == [1.0, 1.0]


@given(values=st.lists(st.floats(0, 1), max_size=8))
def test_holm_never_lowers_a_p_and_keeps_their_order(values):
    corrected = holm(values)
    assert all(after >= before for before, after in zip(values, corrected, strict=True))
    ordered = [after for _, after in sorted(zip(values, corrected, strict=True))]
    assert ordered == sorted(ordered)
