"""Stops a run that can never get anywhere, for its endpoint or for what is not installed, instead of failing every
rollout one by one.

Invariants: only failures that no retry heals count, and only those with no answered rollout between them; what is not
played because of it is missing, never failed, and is played on resume.
"""

from __future__ import annotations

from sandlot.errors import (
    EndpointRefusedError,
    EndpointUnreachableError,
    Failed,
    MissingDependency,
    SandlotError,
    Unreachable,
)
from sandlot.records import Failure, Rollout

_FEW = 3
"""Failures after which an endpoint that never answered is given up."""
_SEVERAL = 10
"""The same for one that has answered, and for a 403, which some endpoints give for what a single prompt says."""

_REMEDIES = {
    401: "set the right key in the environment variable that the endpoint names",
    402: "settle the account with the provider, or choose another endpoint with -m",
    403: "use a key that may call this model",
    404: "give the model's name as the endpoint knows it (-m), and an address that ends as in …/v1 (-b)",
    429: "settle the account with the provider, or choose another endpoint with -m",
}
_OTHER_REMEDY = "give the endpoint's own address, ending as in …/v1 (-b), and a model that it has (-m)"


class DeadEndpoint:
    """Counts, over a run of which `left` rollouts are to be played, what says that its endpoint is of no use."""

    def __init__(self, left: int) -> None:
        self._few = max(1, min(_FEW, left))
        self._answered = False
        self._count = 0
        self._given_up: SandlotError | None = None

    def goes_on(self, failure: Failure | None) -> None:
        """Raises once more what ended the run, for a failure that came in the same moment and is not put on record."""
        if self._given_up is not None and failure is not None:
            raise self._given_up

    def ended(self, rollout: Rollout) -> None:
        """Looks at a rollout that is saved. Raises as `failed` does."""
        if rollout.failure is None and rollout.turns:
            self._answered = True
            self._count = 0
        elif rollout.failure is not None:
            self.failed(rollout.failure)

    def failed(self, failure: Failure) -> None:
        """Looks at a failed try. `Unreachable`, `Failed` or `MissingDependency` when going on is no use."""
        if failure.boundary == "setup" and failure.type == MissingDependency.__name__:
            self._given_up = MissingDependency(f"stopped at once: {failure.message}", hint="then resume the run")
            raise self._given_up
        unreachable = failure.type == EndpointUnreachableError.__name__
        if failure.boundary != "model" or not (unreachable or failure.type == EndpointRefusedError.__name__):
            return
        self._count += 1
        if self._count < (_SEVERAL if self._answered or failure.status == 403 else self._few):
            return
        self._given_up = self._stopped(failure, unreachable=unreachable)
        raise self._given_up

    def _stopped(self, failure: Failure, *, unreachable: bool) -> SandlotError:
        tries = "the first try" if self._count == 1 else f"{self._count} tries in a row"
        if unreachable:
            return Unreachable(
                f"stopped after {tries}: {failure.message}",
                hint="start the server or give the right address (-b), then resume the run",
            )
        remedy = _REMEDIES.get(failure.status or 0, _OTHER_REMEDY)
        return Failed(f"stopped after {tries}: {failure.message}", hint=f"{remedy}, then resume the run")
