"""What is shown of an evaluation while it runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from sandlot.cli.output import Output
from sandlot.cli.progress import Bar
from sandlot.evals import Summary
from sandlot.models import Model
from sandlot.records import Rollout

_QUIET_SECONDS = 5.0
"""So long nothing has come in before it is said why."""


class Watch:
    """Shows how far a run is, with the mean so far."""

    def __init__(self, out: Output, label: str) -> None:
        self._bar = Bar(out, label, 0, unit=" rollouts")
        self._done = 0
        self._sum = 0.0
        self._scored = 0
        self._without = 0
        self._cost = 0.0
        self.first_failure = ""
        self._told = ""
        """The trouble that was said last."""

    @contextlib.asynccontextmanager
    async def asking(self, model: Model) -> AsyncIterator[None]:
        """While it is entered, a silence is explained: nothing comes in because the endpoint is tried again."""
        telling = asyncio.create_task(self._tell(model))
        try:
            yield
        finally:
            telling.cancel()

    async def _tell(self, model: Model) -> None:
        before = self._done
        while True:
            await asyncio.sleep(_QUIET_SECONDS)
            if self._done == before and model.trouble and model.trouble != self._told:
                self._told = model.trouble
                self._bar.say(f"waiting for the endpoint, which is tried again: {model.trouble}")
            before = self._done

    def __enter__(self) -> Watch:
        self._bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._bar.__exit__(*error)

    def started(self, total: int, done_already: int) -> None:
        """Sets the size."""
        self._bar.total, self._done = total, done_already
        self._bar.advance(done_already)
        rollouts = "1 rollout" if total == 1 else f"{total:,} rollouts"
        self._bar.say(rollouts + (f", {done_already:,} of them done already" if done_already else ""))

    def rollout(self, rollout: Rollout) -> None:
        """Counts one more."""
        self._done += 1
        if rollout.reward is None:
            self._without += 1
            failure = rollout.failure or (rollout.verdict.failure if rollout.verdict is not None else None)
            if failure is not None and not self.first_failure:
                self.first_failure = f"{failure.type}: {failure.message}"
                if self._done < self._bar.total:
                    self._bar.say(f"the first rollout without a verdict says {self.first_failure}")
        else:
            self._sum += rollout.reward
            self._scored += 1
        self._cost += rollout.cost or 0.0
        mean = f"reward {self._sum / self._scored:.3f}" if self._scored else ""
        missing = f"{self._without:,} without a verdict" if self._without else ""
        cost = f"${self._cost:.2f}" if self._cost else ""
        self._bar.advance(self._done, ", ".join(filter(None, (mean, missing, cost))))

    def finished(self, summary: Summary) -> None:
        """The report says the rest."""
