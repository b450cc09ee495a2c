"""What a run may cost and how long it may take.

Invariants: a run that reaches a limit is stopped, never failed: what was played counts, what was not is missing, and
resuming plays exactly that. Nothing is started after a limit was reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Literal

from pydantic import Field

from sandlot.config import Config
from sandlot.engine import Request
from sandlot.errors import Invalid
from sandlot.records import Rollout
from sandlot.store import IndexRow


class EvalLimits(Config):
    """When a run stops though not everything was played."""

    cost: float | None = Field(default=None, gt=0)
    """US dollars that the run's rollouts may cost, those of its earlier lives among them. When they have, no further
    one is started; those in flight are finished, so that it may come to a little more."""
    tokens: int | None = Field(default=None, ge=1)
    """The same for the tokens of all calls, prompts and completions added up."""
    seconds: float | None = Field(default=None, gt=0)
    """How long the run may take, from its start or its resumption. Rollouts in flight are then given up."""


class Gate:
    """Lets rollouts start while the run is within its limits."""

    def __init__(self, limits: EvalLimits) -> None:
        self.limits = limits
        self.cost = 0.0
        self.tokens = 0
        self._stopped: Literal["cost", "tokens", "seconds"] | None = None

    @property
    def reached(self) -> str | None:
        """The limit that was reached, and what was used by now, in words."""
        match self._stopped:
            case "cost":
                return f"limits.cost of ${self.limits.cost:g}: ${self.cost:.4f} were spent"
            case "tokens":
                return f"limits.tokens of {self.limits.tokens:,}: {self.tokens:,} were used"
            case "seconds":
                return f"limits.seconds of {self.limits.seconds:g}"
        return None

    def before(self, rows: Iterable[IndexRow]) -> None:
        """Counts what earlier lives of the run have used."""
        for row in rows:
            self.cost += row.cost or 0.0
            self.tokens += (row.prompt_tokens or 0) + (row.completion_tokens or 0)

    def spent(self, rollout: Rollout) -> None:
        """Counts a rollout. `Invalid` if there is a limit for what the endpoint does not say."""
        usage = rollout.usage
        if rollout.turns and self.limits.cost is not None and rollout.cost is None:
            raise Invalid(
                f"limits.cost is set, but {rollout.model} has no price, so what it costs is not known",
                hint="give its endpoint a price in endpoints.toml, or limit limits.tokens",
            )
        if rollout.turns and self.limits.tokens is not None and usage.completion_tokens is None:
            raise Invalid(
                f"limits.tokens is set, but the endpoint of {rollout.model} does not say how many tokens it used",
                hint="limit limits.seconds",
            )
        self.cost += rollout.cost or 0.0
        self.tokens += (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)

    def admit(self, groups: Sequence[Sequence[Request]], *, together: bool) -> Iterable[Sequence[Request]]:
        """`groups`, as far as the limits let them start: whole where they are judged `together`, else one by one."""
        if self.limits.cost is None and self.limits.tokens is None:
            return groups
        return self._within(groups if together else [[request] for group in groups for request in group])

    def _within(self, groups: Sequence[Sequence[Request]]) -> Iterator[Sequence[Request]]:
        for group in groups:
            if self.limits.cost is not None and self.cost >= self.limits.cost:
                self._stopped = "cost"
                return
            if self.limits.tokens is not None and self.tokens >= self.limits.tokens:
                self._stopped = "tokens"
                return
            yield group

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[None]:
        """Ends the block when the time is up; what is in flight is cancelled."""
        deadline = asyncio.timeout(self.limits.seconds)
        try:
            async with deadline:
                yield
        except TimeoutError:
            if not deadline.expired():
                raise
            self._stopped = "seconds"
