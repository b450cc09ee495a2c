"""How often k tries succeed, estimated from n tries without bias."""

from __future__ import annotations

from math import comb


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """The chance that at least one of `k` tries passes, given that `c` of `n` did; None where `k` > `n`.

    1 - C(n-c, k) / C(n, k): Chen et al., "Evaluating Large Language Models Trained on Code" (arXiv 2107.03374),
    equation 1. `ValueError` unless 0 ≤ `c` ≤ `n` and `k` ≥ 1.
    """
    _check(n, c, k)
    if k > n:
        return None
    total = comb(n, k)
    return (total - comb(n - c, k)) / total


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """The chance that all of `k` tries pass, given that `c` of `n` did; None where `k` > `n`.

    C(c, k) / C(n, k): Yao et al., "τ-bench" (arXiv 2406.12045), section 3. `ValueError` as for `pass_at_k`.
    """
    _check(n, c, k)
    return None if k > n else comb(c, k) / comb(n, k)


def _check(n: int, c: int, k: int) -> None:
    if not 0 <= c <= n or k < 1:
        raise ValueError(f"{c} of {n} tries passed, k = {k}")
