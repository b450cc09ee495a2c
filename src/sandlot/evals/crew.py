"""Plays rollouts in worker processes, and goes on when one of them dies.

Invariants: every rollout that is asked for is emitted exactly once, whoever was killed meanwhile, or not at all when
the play is cancelled; what a dead worker had not sent is played again by another one; a rollout that is in flight
whenever a worker dies is given up in the end, as an errored one; no worker outlives the call.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from sandlot.engine import OnAttempt, OnRollout, Request
from sandlot.errors import Failed, Invalid
from sandlot.evals.worker import MOST_BYTES, Assigned, Broken, Played, Report, Tried, decode_report, encode
from sandlot.ids import new_id
from sandlot.records import AttemptEvent, Failure, Rollout

MOST_STARTS = 100
"""Workers that one call may start again before it gives up."""

MOST_STILLBORN = 3
"""Workers that may be killed before they could play; after that, what kills them is taken to be there to stay."""

_ALONE_FROM = 2
"""A group that was in flight when so many workers died is played alone, so that it takes no other with it."""

_GRACE_SECONDS = 75.0
"""How long a worker may clean up: a rollout's clean-up has a limit of 60 s by itself."""


class Crew(msgspec.Struct, frozen=True, kw_only=True):
    """Which processes play."""

    command: list[str]
    """Starts one. It reads `opening`, loads what is to be played, and calls `work`."""
    opening: bytes
    """The first line that each one gets."""
    count: int
    max_concurrent: int
    """Rollouts in flight at once, over all of them."""
    retries: int
    """How often a rollout is played again because its worker died."""
    environment: str
    model: str
    """What a rollout that no worker survived is on record under."""

    @property
    def share(self) -> int:
        """Rollouts in flight at once in one of them."""
        return -(-self.max_concurrent // self.count)


@dataclass(eq=False)
class _Group:
    """The rollouts of one task that are not emitted yet."""

    number: int
    left: dict[int, Request]
    kept: list[Rollout] = field(default_factory=list)
    """Those that wait for the others of their group."""
    deaths: int = 0


@dataclass(eq=False)
class _Worker:
    process: asyncio.subprocess.Process
    groups: dict[int, _Group] = field(default_factory=dict)
    is_ready: bool = False

    @property
    def load(self) -> int:
        return sum(len(group.left) for group in self.groups.values())

    @property
    def is_alone(self) -> bool:
        return any(group.deaths >= _ALONE_FROM for group in self.groups.values())


async def play_in_workers(
    groups: Iterable[Sequence[Request]],
    *,
    crew: Crew,
    together: bool,
    on_rollout: OnRollout,
    on_attempt: OnAttempt,
) -> None:
    """Plays every request of every group. Where rollouts are judged `together`, those of a group are emitted together.

    `Invalid` if a worker cannot load what is to be played, `Failed` if they keep dying. Cancelling ends the workers.
    """
    board = _Board(groups, crew, together=together, callbacks=(on_rollout, on_attempt))
    try:
        async with asyncio.TaskGroup() as slots:
            for _ in range(crew.count):
                slots.create_task(board.slot())
    except BaseExceptionGroup as several:
        raise _first(several) from None


class _Board:
    """What is to be played, and by whom."""

    def __init__(
        self,
        groups: Iterable[Sequence[Request]],
        crew: Crew,
        *,
        together: bool,
        callbacks: tuple[OnRollout, OnAttempt],
    ) -> None:
        self.crew = crew
        self._numbered = enumerate(groups)
        self._together = together
        self._on_rollout, self._on_attempt = callbacks
        self._waiting: deque[_Group] = deque()
        self._out = 0
        """Groups that a worker has."""
        self._starts = -crew.count
        self._stillborn = 0
        """Workers that were killed before they could play."""
        self._changed = asyncio.Condition()

    async def slot(self) -> None:
        """Keeps one worker going until everything is emitted."""
        while not self._is_over():
            self._starts += 1
            if self._starts > MOST_STARTS:
                raise Failed(
                    f"{MOST_STARTS} workers died, and not everything was played", hint="play without --workers"
                )
            worker = _Worker(await _start(self.crew))
            try:
                await self._drive(worker)
            finally:
                await _stop(worker.process)
            await self._bury(worker)

    async def _drive(self, worker: _Worker) -> None:
        """Returns when the worker has died or nothing is left to do."""
        feeding = asyncio.ensure_future(self._feed(worker))
        reading = asyncio.ensure_future(self._read(worker))
        try:
            done, _ = await asyncio.wait({feeding, reading}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (feeding, reading):
                task.cancel()
            await asyncio.gather(feeding, reading, return_exceptions=True)

    async def _feed(self, worker: _Worker) -> None:
        assert worker.process.stdin is not None
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._is_over() or self._may_take(worker))
                if self._is_over():
                    return
                group = self._waiting.popleft()
                self._out += 1
                worker.groups[group.number] = group
            line = encode(Assigned(group=group.number, requests=list(group.left.values()))) + b"\n"
            # A worker that has just died cannot be written to; reading finds that out and says how it ended.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                worker.process.stdin.write(line)
                await worker.process.stdin.drain()

    async def _read(self, worker: _Worker) -> None:
        assert worker.process.stdout is not None
        while line := await worker.process.stdout.readline():
            if not line.endswith(b"\n"):
                return  # Torn: it was killed while it wrote.
            await self._take(worker, decode_report(line))

    async def _take(self, worker: _Worker, report: Report) -> None:
        if isinstance(report, Broken):
            raise Invalid(f"a worker cannot play: {report.message}", hint=report.hint)
        if isinstance(report, Tried):
            deaths = worker.groups[report.group].deaths
            self._on_attempt(msgspec.structs.replace(report.event, attempt=report.event.attempt + deaths))
        elif isinstance(report, Played):
            group = worker.groups[report.group]
            attempt = report.rollout.attempt + group.deaths
            self._close(group, msgspec.structs.replace(report.rollout, attempt=attempt))
            if not group.left:
                del worker.groups[group.number]
                self._out -= 1
        else:
            worker.is_ready = True
        async with self._changed:
            self._changed.notify_all()

    def _close(self, group: _Group, rollout: Rollout) -> None:
        """Emits a rollout, or keeps it until those that it was judged with are in."""
        del group.left[rollout.index]
        group.kept.append(rollout)
        if not self._together or not group.left:
            for each in sorted(group.kept, key=lambda one: one.index):
                self._on_rollout(each)
            group.kept.clear()

    async def _bury(self, worker: _Worker) -> None:
        """Takes back what a worker had not sent."""
        ending = _ending(worker.process)
        for group in worker.groups.values():
            self._out -= 1
            group.deaths += 1
            for rollout in group.kept:  # Judged together: the others' verdicts will come from another play.
                group.left[rollout.index] = Request(task=rollout.task, index=rollout.index, seed=rollout.seed)
            group.kept.clear()
            if group.deaths > self.crew.retries:
                for request in list(group.left.values()):
                    self._close(group, self._given_up(request, group, ending))
            else:
                for request in group.left.values():
                    self._on_attempt(
                        AttemptEvent(
                            task=request.task.id, index=request.index, attempt=group.deaths, failure=_failure(ending)
                        )
                    )
                self._waiting.append(group)
        if not worker.is_ready and not self._is_over():
            self._stillborn += 1
            if (worker.process.returncode or 0) > 0 or self._stillborn > MOST_STILLBORN:
                raise Failed(f"a worker {ending} before it could play", hint="its own words stand above")
        worker.groups.clear()
        async with self._changed:
            self._changed.notify_all()

    def _given_up(self, request: Request, group: _Group, ending: str) -> Rollout:
        return Rollout(
            id=new_id(),
            task=request.task,
            index=request.index,
            environment=self.crew.environment,
            model=self.crew.model,
            seed=request.seed,
            stop="error",
            failure=_failure(ending),
            attempt=group.deaths,
        )

    def _may_take(self, worker: _Worker) -> bool:
        """Whether there is a group that the worker has room for; it is then the first that waits."""
        if not worker.is_ready or not self._filled() or worker.is_alone:
            return False
        group = self._waiting[0]
        if group.deaths >= _ALONE_FROM:
            return not worker.groups
        return not worker.groups or worker.load + len(group.left) <= self.crew.share

    def _filled(self) -> bool:
        """Reads one more group where none waits; whether one does then."""
        if not self._waiting:
            for number, requests in self._numbered:
                self._waiting.append(_Group(number, {request.index: request for request in requests}))
                break
        return bool(self._waiting)

    def _is_over(self) -> bool:
        return self._out == 0 and not self._filled()


async def _start(crew: Crew) -> asyncio.subprocess.Process:
    # In a session of its own, so that Ctrl-C reaches this process alone, which then ends its workers in order.
    process = await asyncio.create_subprocess_exec(
        *crew.command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=MOST_BYTES,
        start_new_session=True,
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(crew.opening + b"\n")
        await process.stdin.drain()
    return process


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Lets a worker clean up and end; kills one that does not."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(_GRACE_SECONDS):
            await process.wait()
    except BaseException as error:  # boundary: nothing keeps a worker alive, whatever ends the wait for it
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if not isinstance(error, TimeoutError):
            raise


def _ending(process: asyncio.subprocess.Process) -> str:
    code = process.returncode or 0
    if code < 0:
        return f"(process {process.pid}) was killed by {signal.Signals(-code).name}"
    return f"(process {process.pid}) ended with exit code {code}"


def _failure(ending: str) -> Failure:
    return Failure(boundary="infrastructure", type="WorkerDied", message=f"its worker {ending}")


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = several
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
