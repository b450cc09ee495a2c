"""A process that plays for another one: requests come in on one pipe, rollouts go out on another.

Invariants: a line is one message; a rollout is sent as soon as it is scored; when the requests' pipe ends, what is in
flight is cancelled, cleaned up and not sent, so that a worker never outlives the process that it plays for.
"""

from __future__ import annotations

import asyncio
import os
from typing import TypeAlias

import msgspec

from sandlot.engine import Playable, PlayPolicy, Request, play_all
from sandlot.errors import Failed
from sandlot.models import Model
from sandlot.records import AttemptEvent, Rollout, Sampling

MOST_BYTES = 1 << 30
"""A line longer than this is none of ours."""


class Assigned(msgspec.Struct, frozen=True, kw_only=True, tag="assigned"):
    """To a worker: the rollouts of one task."""

    group: int
    requests: list[Request]


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """From a worker: environment and model are loaded."""


class Broken(msgspec.Struct, frozen=True, kw_only=True, tag="broken"):
    """From a worker: it cannot play, and why."""

    message: str
    hint: str | None = None


class Played(msgspec.Struct, frozen=True, kw_only=True, tag="played"):
    """From a worker: a rollout is closed and scored."""

    group: int
    rollout: Rollout


class Tried(msgspec.Struct, frozen=True, kw_only=True, tag="tried"):
    """From a worker: a try did not count."""

    group: int
    event: AttemptEvent


Report: TypeAlias = Ready | Broken | Played | Tried

encode = msgspec.json.Encoder().encode
decode_report = msgspec.json.Decoder(Report).decode
_decode_assigned = msgspec.json.Decoder(Assigned).decode


async def work(
    playable: Playable,
    model: Model,
    *,
    policy: PlayPolicy,
    sampling: Sampling,
    pipes: tuple[int, int],
) -> None:
    """Plays what comes in on the first of `pipes` and reports on the second, until the first ends."""
    incoming, outgoing = pipes
    reader = asyncio.StreamReader(limit=MOST_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(incoming, "rb", buffering=0)
    )

    def report(message: Report) -> None:
        send(outgoing, message)

    async def play(assigned: Assigned) -> None:
        group = assigned.group
        try:
            await play_all(
                playable,
                [assigned.requests],
                model=model,
                sampling=sampling,
                policy=policy,
                on_rollout=lambda rollout: report(Played(group=group, rollout=rollout)),
                on_attempt=lambda event: report(Tried(group=group, event=event)),
            )
        except asyncio.CancelledError:
            if reader.at_eof():
                raise
            # The author's own code raised it. Nobody would hear of the group again if the worker went on.
            raise Failed(f"the environment cancelled its own rollout of {assigned.requests[0].task.id}") from None

    report(Ready())
    async with asyncio.TaskGroup() as tasks:
        in_flight: set[asyncio.Task[None]] = set()
        while line := await reader.readline():
            task = tasks.create_task(play(_decode_assigned(line)))
            in_flight.add(task)
            task.add_done_callback(in_flight.discard)
        for task in list(in_flight):
            task.cancel()


def send(descriptor: int, message: Report) -> None:
    """Writes one line, whole. A pipe that nobody reads any more takes it silently: the worker is about to end."""
    view = memoryview(encode(message) + b"\n")
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except BrokenPipeError:
        return
