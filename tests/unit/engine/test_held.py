"""What a rollout holds is closed after its scoring, whatever becomes of the rollout."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.engine.fakes import AnswerModel, Game, completion, task

from sandlot.engine import PlayPolicy, Request, State, play_group
from sandlot.errors import ModelError
from sandlot.models import Completion
from sandlot.records import Rollout, Sampling, Verdict


class Holding(Game):
    """Holds something for each rollout that its scorer reads."""

    def __init__(self, *, grouped: bool = False) -> None:
        super().__init__()
        self.grouped = grouped
        self.happened: list[str] = []

    async def score(self, states: object) -> list[Verdict]:
        self.happened.append("score")
        return await super().score(states)  # type: ignore[arg-type]

    async def cleanup(self, state: State) -> None:
        self.happened.append("cleanup")

    async def setup(self, state: State) -> State:
        state = await super().setup(state)
        state.hold(self.close_what_is_held)
        return state

    async def close_what_is_held(self) -> None:
        await asyncio.sleep(0)
        self.happened.append("closed")


async def played(game: Game, model: AnswerModel, *, count: int = 1, retries: int = 0) -> list[Rollout]:
    return await play_group(
        game,
        [Request(task=task("t"), index=index, seed=index) for index in range(count)],
        model=model,
        sampling=Sampling(),
        policy=PlayPolicy(retries=retries),
    )


async def yes(messages: object) -> Completion:
    return completion("yes")


async def test_a_rollout_closes_what_it_holds_once_after_its_verdict() -> None:
    game = Holding()
    (rollout,) = await played(game, AnswerModel(yes))
    assert game.happened == ["cleanup", "score", "closed"]
    assert rollout.reward == 1.0


async def test_rollouts_that_are_judged_together_close_it_after_the_verdict_on_all() -> None:
    game = Holding(grouped=True)
    await played(game, AnswerModel(yes), count=2)
    assert game.happened == ["cleanup", "cleanup", "score", "closed", "closed"]


async def test_a_try_that_is_played_again_and_a_rollout_without_a_verdict_close_it() -> None:
    async def away(messages: object) -> Completion:
        raise ModelError("503")

    game = Holding()
    (rollout,) = await played(game, AnswerModel(away), retries=1)
    assert game.happened == ["cleanup", "closed", "cleanup", "closed"]
    assert rollout.reward is None


@pytest.mark.parametrize("grouped", [False, True])
async def test_cancelled_rollouts_close_it_also_where_they_wait_for_their_group(grouped: bool) -> None:
    answered = asyncio.Event()
    calls = iter(range(10))

    async def answer(messages: object) -> Completion:
        if next(calls) == 0:
            return completion("yes")
        answered.set()
        await asyncio.sleep(30)
        return completion("late")

    game = Holding(grouped=grouped)
    running = asyncio.create_task(played(game, AnswerModel(answer), count=2))
    await answered.wait()
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (game.happened.count("cleanup"), game.happened.count("closed")) == (2, 2)


async def test_what_breaks_while_closing_is_on_record_and_the_verdict_stands() -> None:
    class Stuck(Holding):
        async def close_what_is_held(self) -> None:
            raise RuntimeError("it is still in use")

    (rollout,) = await played(Stuck(), AnswerModel(yes))
    assert rollout.reward == 1.0
    assert rollout.failure is not None
    assert (rollout.failure.boundary, rollout.failure.message) == ("cleanup", "it is still in use")
