"""A worker of `sandlot eval --workers`: loads one environment and one model, and plays what it is sent.

Invariants: the pipe that it reports on is its alone: what an author prints goes to stderr; secrets come in on the
first line of its input and stand in no argument.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import msgspec

from sandlot.config import build
from sandlot.envs import find, load
from sandlot.errors import SandlotError
from sandlot.evals import Broken, EvalConfig, send, work
from sandlot.models import connect


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is told first."""

    environment: str
    model: str
    config: dict[str, Any]
    """An `EvalConfig`."""
    share: int
    """Rollouts in flight at once."""
    endpoint: dict[str, Any] = {}
    """Options of `connect`."""


def main() -> int:
    """Runs until its input ends."""
    incoming, outgoing = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    opening = msgspec.json.decode(_line(incoming), type=Opening)
    try:
        asyncio.run(_work(opening, (incoming, outgoing)))
    except SandlotError as error:
        send(outgoing, Broken(message=error.message, hint=error.hint))
        return 1
    return 0


async def _work(opening: Opening, pipes: tuple[int, int]) -> None:
    config = build(EvalConfig, opening.config)
    playable = load(find(opening.environment), config.args).playable
    try:
        model = connect(opening.model, **opening.endpoint)
        try:
            policy = msgspec.structs.replace(config.policy(), max_concurrent=opening.share)
            await work(playable, model, policy=policy, sampling=config.sampling.record(), pipes=pipes)
        finally:
            await model.close()
    finally:
        await playable.close()


def _line(descriptor: int) -> bytes:
    """The first line, byte by byte: what follows it is not ours to read."""
    found = bytearray()
    while (byte := os.read(descriptor, 1)) not in (b"", b"\n"):
        found += byte
    return bytes(found)


if __name__ == "__main__":
    sys.exit(main())
