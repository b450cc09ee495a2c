"""Student's t distribution, to about twelve digits, from the regularised incomplete beta function."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_NORMAL_FROM = 1e8
"""Degrees of freedom from which t and the normal distribution agree to more digits than are computed here."""


def t_cdf(t: float, df: float) -> float:
    """P(T ≤ t) with `df` > 0 degrees of freedom (Abramowitz and Stegun, 26.7.1). `ValueError` for other `df`."""
    if df <= 0:
        raise ValueError(f"{df} degrees of freedom")
    if df >= _NORMAL_FROM:
        return NormalDist().cdf(t)
    if t * t < df:  # Near the middle 1 - t²/(df + t²) would lose half of the digits of t.
        return 0.5 + math.copysign(0.5, t) * _incomplete_beta(t * t / (df + t * t), 0.5, df / 2)
    tail = 0.5 * _incomplete_beta(df / (df + t * t), df / 2, 0.5)
    return 1 - tail if t > 0 else tail


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """The t with P(T ≤ t) = `p`, for 0 < `p` < 1 and `df` > 0. `ValueError` outside of that.

    Bisection: slow beside a series and never wrong. Kept, because thousands of tasks have as many rollouts each.
    """
    if not 0 < p < 1:
        raise ValueError(f"a probability of {p}")
    if p == 0.5:
        return 0.0
    if p < 0.5:
        return -t_quantile(1 - p, df)
    low, high = 0.0, 1.0
    while t_cdf(high, df) < p:
        low, high = high, high * 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if t_cdf(middle, df) < p:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """I_x(a, b) (Numerical Recipes, 3rd edition, 6.4)."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x),
    )
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1), tiny)
    result = d
    for m in range(1, 100_000):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away_from_zero(1 + numerator * d, tiny)
            c = _away_from_zero(1 + numerator / c, tiny)
            change = c * d
            result *= change
        if abs(change - 1) < 1e-15:
            break
    return result


def _away_from_zero(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny
