"""Plays many rollouts at once.

Invariants: at most `max_concurrent` rollouts are in flight, whatever group they belong to; a slow one holds up nobody
but the group it is judged with; every rollout that is asked for is emitted exactly once, or not at all when the pool
is cancelled; nothing is kept of a rollout once it was emitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from sandlot.engine.flight import Flight
from sandlot.engine.garbage import eased_collector
from sandlot.engine.play import OnAttempt, Player
from sandlot.engine.playable import Playable
from sandlot.engine.request import PlayPolicy, Request
from sandlot.models import Model
from sandlot.records import Rollout, Sampling

OnRollout = Callable[[Rollout], None]


class _Cancelled(Exception):
    """Carries a `CancelledError` that nobody asked for out of the task group."""


class _Group:
    """The rollouts of one task that wait for each other to be scored."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.flights: list[Flight] = []


async def play_all(
    playable: Playable,
    groups: Iterable[Sequence[Request]],
    *,
    model: Model,
    sampling: Sampling,
    policy: PlayPolicy,
    on_rollout: OnRollout,
    on_attempt: OnAttempt | None = None,
) -> None:
    """Plays every request of every group and hands each rollout over as soon as it is scored.

    `groups` may be endless and is read only as fast as rollouts are admitted. Whatever `groups`, `on_rollout` or
    `on_attempt` raise ends the pool; a rollout's own failure never does.
    """
    player = Player(playable, model, sampling=sampling, policy=policy, on_attempt=on_attempt)
    waiting = _in_order(groups)
    asked = sum(map(len, groups)) if isinstance(groups, Sequence) else policy.max_concurrent
    unreleased: set[Flight] = set()

    async def work() -> None:
        try:
            await play_waiting()
        except asyncio.CancelledError:
            worker = asyncio.current_task()
            if worker is not None and not worker.cancelling():
                # Raised by the author's own code: a task group would take it for the end of this worker alone.
                raise _Cancelled from None
            raise

    async def play_waiting() -> None:
        for group, request in waiting:
            flight = await player.fly(request)
            unreleased.add(flight)
            group.flights.append(flight)
            if not playable.grouped:
                await emit([group.flights.pop()])
            elif len(group.flights) == group.size:
                await emit(sorted(group.flights, key=lambda member: member.request.index))

    async def emit(flights: Sequence[Flight]) -> None:
        try:
            verdicts = await player.verdicts(flights)
        finally:
            for flight in flights:
                await player.release(flight)
                unreleased.discard(flight)
        for flight, verdict in zip(flights, verdicts, strict=True):
            on_rollout(flight.close(verdict, environment=playable.name, policy=policy))

    try:
        with eased_collector():
            async with asyncio.TaskGroup() as workers:
                for _ in range(min(policy.max_concurrent, asked)):
                    workers.create_task(work())
    except BaseExceptionGroup as group:
        raise _first(group) from group
    finally:
        for flight in unreleased:  # Members of groups that will not be whole any more.
            await player.release(flight)


async def play_group(
    playable: Playable,
    requests: Sequence[Request],
    *,
    model: Model,
    sampling: Sampling,
    policy: PlayPolicy,
    on_attempt: OnAttempt | None = None,
) -> list[Rollout]:
    """The rollouts of one task, in the order of `requests`."""
    played: dict[int, Rollout] = {}

    def keep(rollout: Rollout) -> None:
        played[rollout.index] = rollout

    await play_all(
        playable,
        [requests],
        model=model,
        sampling=sampling,
        policy=policy,
        on_rollout=keep,
        on_attempt=on_attempt,
    )
    return [played[request.index] for request in requests]


async def play(
    playable: Playable,
    request: Request,
    *,
    model: Model,
    sampling: Sampling,
    policy: PlayPolicy | None = None,
) -> Rollout:
    """One rollout. A playable that is judged in groups gets a group of one."""
    policy = policy or PlayPolicy()
    return (await play_group(playable, [request], model=model, sampling=sampling, policy=policy))[0]


def _in_order(groups: Iterable[Sequence[Request]]) -> Iterator[tuple[_Group, Request]]:
    for requests in groups:
        group = _Group(len(requests))
        for request in requests:
            yield group, request


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The exception that ended the pool: the first one, out of however many groups it is wrapped in."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return asyncio.CancelledError() if isinstance(error, _Cancelled) else error
