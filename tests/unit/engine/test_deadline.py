"""The rollout's deadline covers play: neither waiting for a rate limit nor for admission to an endpoint."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.unit.engine.fakes import AnswerModel, Game, completion, task

from sandlot.engine import Limits, PlayPolicy, Request, play_group
from sandlot.models import Completion, connect, waiting
from sandlot.records import Sampling
from sandlot.testing import Fault, MockServer


async def played(game: Game, answer: object) -> tuple[str | None, float | None]:
    (rollout,) = await play_group(
        game,
        [Request(task=task("t"), index=0)],
        model=AnswerModel(answer),  # type: ignore[arg-type]
        sampling=Sampling(),
        policy=PlayPolicy(),
    )
    return rollout.stop, rollout.reward


@pytest.mark.parametrize("waits", [1, 3])
async def test_the_deadline_stands_still_while_an_endpoint_makes_the_rollout_wait(waits: int) -> None:
    async def answer(messages: object) -> Completion:
        for _ in range(waits):
            with waiting(), waiting():
                await asyncio.sleep(0.15)
        return completion("yes")

    assert await played(Game(limits=Limits(play=0.1)), answer) == ("played", 1.0)


async def test_what_was_left_of_the_deadline_is_what_is_left_after_the_wait() -> None:
    async def answer(messages: object) -> Completion:
        await asyncio.sleep(0.06)
        with waiting():
            await asyncio.sleep(0.2)
        await asyncio.sleep(30)
        return completion("late")

    begin = time.perf_counter()
    assert await played(Game(limits=Limits(play=0.1)), answer) == ("timeout", 0.0)
    assert time.perf_counter() - begin < 1.0


async def test_a_rate_limit_of_a_real_endpoint_is_not_the_agents_slowness() -> None:
    busy = Fault(status=429, retry_after="1")
    async with MockServer("yes", faults=[busy]) as server:
        model = connect("mock", base_url=server.url)
        try:
            (rollout,) = await play_group(
                Game(limits=Limits(play=0.5)),
                [Request(task=task("t"), index=0)],
                model=model,
                sampling=Sampling(),
                policy=PlayPolicy(),
            )
        finally:
            await model.close()
    assert (rollout.stop, rollout.reward) == ("played", 1.0)
    assert rollout.timing.model > 0.5
