"""Groups as they are played ahead of the learner."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.unit.train.games import Game, settings as config_with

from sandlot.engine import State
from sandlot.errors import Failed, ModelError
from sandlot.models import Completion, Model
from sandlot.records import AssistantMessage, Message, Sampling, Tool
from sandlot.train.config import TrainConfig
from sandlot.train.groups import GroupStream
from sandlot.train.tasks import TaskOrder


class Moody(Model):
    """Answers after a while, or fails."""

    name = "moody"

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.flying = self.most = 0

    async def generate(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), sampling: Sampling, prior: Any = None
    ) -> Completion:
        self.flying += 1
        self.most = max(self.most, self.flying)
        try:
            await asyncio.sleep(self.random.choice([0.0, 0.0, 0.001, 0.002]))
        finally:
            self.flying -= 1
        if self.random.random() < 0.2:
            raise ModelError("the endpoint is away")
        return Completion(message=AssistantMessage(content="7"))


def stream(config: TrainConfig, game: Game, model: Model) -> GroupStream:
    order = TaskOrder({"game": game}, weights={"game": 1.0}, seed=0)
    return GroupStream(config, order, playables={"game": game}, model=model)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 9), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=6))
def test_every_draw_is_handed_out_once_or_outstanding_and_a_resumed_stream_plays_the_rest(
    seed: int, rounds: list[tuple[int, int]]
) -> None:
    config = config_with(Path("model"), group_size=3, limits={"max_concurrent": 9})
    model = Moody(seed)

    async def play(source: GroupStream) -> list[int]:
        taken = []
        for filled, wanted in rounds:
            source.fill(filled)
            for _ in range(min(wanted, len(source.outstanding))):
                source.fill(0)
                group = await source.next()
                assert [rollout.index % 3 for rollout in group.rollouts] == [0, 1, 2]
                taken.append(group.draw.number)
        await source.close()
        return taken

    first = stream(config, Game(len), model)
    taken = asyncio.run(play(first))
    left = [draw.number for draw in first.outstanding]
    assert sorted(taken + left) == list(range(first.order.drawn))
    assert model.most <= 9
    assert model.flying == 0

    second = stream(config, Game(len), Moody(seed))
    second.order.load_state(first.order.state())
    second.again(first.outstanding)
    more = asyncio.run(play(second))
    assert sorted([*taken, *more, *(d.number for d in second.outstanding)]) == list(range(second.order.drawn))


def test_a_wait_that_runs_out_names_what_it_waited_for() -> None:
    class Stuck(Game):
        async def setup(self, state: State) -> State:
            await asyncio.sleep(3600)
            return state

    async def wait() -> None:
        source = stream(config_with(Path("model"), limits={"group_timeout": 0.05}), Stuck(len), Moody(0))
        source.fill(2)
        try:
            await source.next()
        finally:
            await source.close()

    with pytest.raises(Failed, match=r"no group finished within 0.05 s; 2 are being played, among them train-\d+ of"):
        asyncio.run(wait())


def test_a_task_that_comes_again_has_other_indices_and_seeds() -> None:
    async def play() -> list[tuple[str, int, int]]:
        source = stream(config_with(Path("model"), group_size=2), Game(len, count=2), Moody(3))
        source.fill(4)
        groups = [await source.next() for _ in range(4)]
        return [(r.task.id, r.index, r.seed) for group in groups for r in group.rollouts]

    played = asyncio.run(play())
    assert len({(task, index) for task, index, _ in played}) == 8
    assert len({seed for _, _, seed in played}) == 8
