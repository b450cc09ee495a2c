"""Statistics: golden values from tables and from the papers, and what must hold for any values."""

from __future__ import annotations

import math
from itertools import combinations
from random import Random
from statistics import mean as plain_mean, stdev

import pytest
from hypothesis import example, given, strategies as st

from sandlot.stats import (
    mean,
    mean_interval,
    paired,
    pass_at_k,
    pass_hat_k,
    percentile,
    percentiles,
    standard_error,
    t_cdf,
    t_quantile,
    wilson,
)

rewards = st.floats(min_value=-10, max_value=10, allow_nan=False)
groups = st.lists(st.lists(rewards, max_size=6), max_size=12)


@pytest.mark.parametrize(
    ("p", "df", "expected"),
    [
        (0.975, 1, 12.706204736),
        (0.975, 2, 4.302652730),
        (0.975, 3, 3.182446305),
        (0.975, 10, 2.228138852),
        (0.975, 30, 2.042272456),
        (0.975, 1000, 1.962339081),
        (0.975, 1e9, 1.959963985),
        (0.995, 5, 4.032142984),
        (0.025, 3, -3.182446305),
        (0.5, 7, 0.0),
    ],
)
def test_student_quantiles_agree_with_the_tables(p, df, expected):
    assert t_quantile(p, df) == pytest.approx(expected, abs=2e-9)


@given(st.floats(min_value=0.0005, max_value=0.9995), st.floats(min_value=0.5, max_value=1e5))
@example(p=0.5000000000000001, df=0.5000000000000001)
def test_the_student_quantile_is_the_inverse_of_its_distribution(p, df):
    assert t_cdf(t_quantile(p, df), df) == pytest.approx(p, abs=1e-9)


@pytest.mark.parametrize(("p", "df"), [(0, 3), (1, 3), (-0.1, 3), (0.5, 0), (0.9, -1)])
def test_probabilities_and_degrees_that_make_no_sense_are_refused(p, df):
    with pytest.raises(ValueError, match=r"probability|degrees"):
        t_quantile(p, df) if p != 0.5 else t_cdf(1.0, df)


@pytest.mark.parametrize(("values", "expected"), [([1, 0, 1, 1], 0.25), ([1], None), ([], None), ([2, 2, 2], 0.0)])
def test_the_standard_error_uses_n_minus_one_and_is_none_where_one_value_says_nothing(values, expected):
    assert standard_error(values) == expected


@given(groups, st.randoms())
def test_an_interval_has_its_mean_inside_and_does_not_depend_on_order(values, random):
    interval = mean_interval(values)
    flat = [value for group in values for value in group]
    if not flat:
        assert interval is None
        return
    assert interval.mean == pytest.approx(plain_mean(flat), abs=1e-9)
    assert interval.n == len(flat)
    assert interval.clusters == sum(bool(group) for group in values)
    if interval.clusters < 2:
        assert (interval.stderr, interval.low, interval.high) == (None, None, None)
        return
    assert interval.low <= interval.mean <= interval.high
    assert all(math.isfinite(number) for number in (interval.stderr, interval.low, interval.high))
    shuffled = random.sample(values, len(values))
    assert mean_interval(shuffled).stderr == pytest.approx(interval.stderr, abs=1e-9)


@given(st.lists(st.lists(rewards, min_size=3, max_size=3), min_size=2, max_size=10))
def test_with_groups_of_one_size_the_clustered_error_is_that_of_the_groups_means(values):
    means = [plain_mean(group) for group in values]
    assert mean_interval(values).stderr == pytest.approx(stdev(means) / math.sqrt(len(means)), abs=1e-9)


def test_repeating_every_rollout_adds_no_certainty_about_the_tasks():
    once = mean_interval([[1.0], [0.0], [1.0], [1.0]])
    often = mean_interval([[1.0] * 50, [0.0] * 50, [1.0] * 50, [1.0] * 50])
    assert (often.low, often.high) == pytest.approx((once.low, once.high))
    assert (once.low, once.high) == pytest.approx((0.75 - 3.182446305 * 0.25, 0.75 + 3.182446305 * 0.25))


def test_the_mean_is_summed_without_loss():
    assert mean([0.1] * 10) == 0.1
    assert mean([]) is None


@pytest.mark.parametrize(
    ("successes", "n", "expected"),
    [(0, 10, (0.0, 0.27753279)), (5, 10, (0.23659309, 0.76340691)), (10, 10, (0.72246721, 1.0)), (0, 0, None)],
)
def test_wilson_intervals_agree_with_the_published_values(successes, n, expected):
    assert wilson(successes, n) == (None if expected is None else pytest.approx(expected, abs=1e-8))


@given(st.integers(0, 300), st.integers(1, 300), st.floats(0.5, 0.999))
def test_a_wilson_interval_holds_the_share_and_stays_between_nought_and_one(successes, n, confidence):
    successes = min(successes, n)
    low, high = wilson(successes, n, confidence)
    assert 0 <= low <= successes / n <= high <= 1
    assert low < high


def test_more_successes_than_tries_are_refused():
    with pytest.raises(ValueError, match="3 successes of 2"):
        wilson(3, 2)


@st.composite
def tries(draw):
    n = draw(st.integers(1, 9))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


@given(tries())
def test_pass_at_k_and_pass_hat_k_are_the_shares_of_all_draws_of_k(case):
    n, c, k = case
    draws = list(combinations([1] * c + [0] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(any(draw) for draw in draws) / len(draws))
    assert pass_hat_k(n, c, k) == pytest.approx(sum(all(draw) for draw in draws) / len(draws))


def test_pass_at_k_stays_exact_for_many_tries():
    assert pass_at_k(10_000, 1, 1) == 0.0001
    assert pass_at_k(2_000, 1_000, 1_000) == 1.0
    assert pass_hat_k(4, 3, 2) == 0.5


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 2, 0)])
def test_tries_that_cannot_be_are_refused(n, c, k):
    with pytest.raises(ValueError, match="tries passed"):
        pass_at_k(n, c, k)


def test_percentiles_interpolate_between_the_nearest_values():
    assert percentiles([4, 1, 3, 2]) == pytest.approx({"p50": 2.5, "p95": 3.85, "p99": 3.97})
    assert percentiles([7.0]) == {"p50": 7.0, "p95": 7.0, "p99": 7.0}
    assert percentiles([]) == {}
    assert percentiles(range(101), (0, 12.5, 100)) == {"p0": 0, "p12.5": 12.5, "p100": 100}
    with pytest.raises(ValueError, match="101"):
        percentile([1.0], 101)


@given(st.lists(rewards, min_size=1), st.floats(0, 100), st.floats(0, 100))
def test_percentiles_rise_with_p_and_stay_among_the_values(values, p, q):
    ordered = sorted(values)
    low, high = percentile(ordered, min(p, q)), percentile(ordered, max(p, q))
    assert ordered[0] <= low <= high + 1e-9
    assert high <= ordered[-1]


def test_a_paired_comparison_of_few_tasks_tries_every_sign():
    a, b = [0.0, 0.0, 0.5, 0.0, 1.0], [1.0, 1.0, 1.0, 0.5, 1.0]
    result = paired(a, b, rng=Random(0))
    assert (result.n, result.wins, result.losses) == (5, 4, 0)
    assert result.difference == pytest.approx(0.6)
    t = 0.6 / result.stderr
    x = t / math.sqrt(1 + t * t / 4)  # The distribution has a closed form for four degrees of freedom.
    assert result.permutation_p == pytest.approx(4 / 32)
    assert result.t_p == pytest.approx(1 - 0.75 * x * (1 - x * x / 12), abs=1e-12)
    assert result.low == pytest.approx(0.6 - 2.776445105 * result.stderr)


def test_a_paired_comparison_of_many_tasks_is_the_same_for_the_same_seed():
    random = Random(5)
    a = [random.random() for _ in range(60)]
    b = [value + 0.3 * random.random() for value in a]
    first, second = (paired(a, b, rng=Random(1), permutations=500) for _ in range(2))
    assert first == second
    assert first.permutation_p == pytest.approx(1 / 501)
    assert first.t_p < 1e-9


def test_equal_runs_do_not_differ():
    result = paired([1.0, 0.0, 1.0], [1.0, 0.0, 1.0], rng=Random(0))
    assert (result.difference, result.t_p, result.permutation_p) == (0.0, 1.0, 1.0)


def test_no_task_and_one_task_in_common_are_said_not_guessed():
    assert paired([], [], rng=Random(0)) is None
    one = paired([0.0], [1.0], rng=Random(0))
    assert (one.difference, one.stderr, one.t_p, one.permutation_p) == (1.0, None, None, None)
    with pytest.raises(ValueError, match="zip"):
        paired([1.0], [], rng=Random(0))


@given(st.lists(st.tuples(rewards, rewards), min_size=2, max_size=10))
def test_swapping_the_sides_turns_the_difference_round_and_leaves_the_p(pairs):
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    there, back = paired(a, b, rng=Random(0)), paired(b, a, rng=Random(0))
    assert there.difference == pytest.approx(-back.difference)
    assert there.permutation_p == back.permutation_p
    assert (there.wins, there.losses) == (back.losses, back.wins)
    assert 0 <= there.t_p <= 1
