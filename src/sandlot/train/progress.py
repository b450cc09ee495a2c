"""Who watches a training run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Progress(Protocol):
    """What these methods raise ends the run."""

    def phase(self, name: str, expected_seconds: float | None) -> None:
        """Something else begins; `expected_seconds` is how long it will take, None where nothing was measured yet."""

    def step(self, metrics: Mapping[str, float]) -> None:
        """An optimiser step, or an evaluation, was made. `metrics` has its figures and `step`, its number."""


class Silent:
    """Watches and says nothing."""

    def phase(self, name: str, expected_seconds: float | None) -> None:
        """Nothing."""

    def step(self, metrics: Mapping[str, float]) -> None:
        """Nothing."""
