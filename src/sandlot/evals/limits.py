"""What a run, and each of its rollouts, may cost and how long it may take.

Invariants: a run that reaches a limit is stopped, never failed: what was played counts, what was not is missing, and
resuming plays exactly that. Nothing is started after a limit was reached. A rollout that reaches one is over, and is
scored as it stands. A limit on what nobody counts is refused, never ignored.
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

    cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """US dollars that the run's rollouts may cost, those of its earlier lives among them. When they have, no further
    one is started; those in flight are finished, so that it may come to a little more."""
    tokens: int | None = Field(default=None, ge=1)
    """The same for the tokens of all calls, prompts and completions added up."""
    seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """How long the run may take, from its start or its resumption. Rollouts in flight are then given up."""


class RolloutLimits(Config):
    """When one rollout is over though it had not come to its end. It is truncated, and scored as it stands."""

    cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """US dollars that a rollout's calls may cost; it ends with `max_cost`. The call that reaches it is finished."""
    tokens: int | None = Field(default=None, ge=1)
    """The most tokens of all of its calls, prompts and completions added up; it ends with `max_tokens`."""
    seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """How long it may be played, waiting for a rate limit aside; it ends with `timeout`, in the middle of a request
    or a tool, too. Where the environment has a limit of its own, the shorter one holds."""


class Gate:
    """Lets rollouts start while the run is within its limits."""

    def __init__(self, limits: EvalLimits, rollout_limits: RolloutLimits) -> None:
        self.limits = limits
        self.rollout_limits = rollout_limits
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
        if rollout.turns and rollout.cost is None and (name := self._limited("cost")):
            raise Invalid(
                f"{name} is set, but {rollout.model} has no price, so what it costs is not known",
                hint=f"give its endpoint a price in endpoints.toml, or limit {name.replace('cost', 'tokens')}",
            )
        if rollout.turns and usage.completion_tokens is None and (name := self._limited("tokens")):
            raise Invalid(
                f"{name} is set, but the endpoint of {rollout.model} does not say how many tokens it used",
                hint=f"limit {name.replace('tokens', 'seconds')}",
            )
        self.cost += rollout.cost or 0.0
        self.tokens += (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)

    def _limited(self, what: Literal["cost", "tokens"]) -> str | None:
        """The name of a setting that limits `what`."""
        if getattr(self.limits, what) is not None:
            return f"limits.{what}"
        return f"rollout_limits.{what}" if getattr(self.rollout_limits, what) is not None else None

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
