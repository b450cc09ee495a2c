from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import count

import pytest
from hypothesis import given, strategies as st
from tests.unit.train.games import Game

from sandlot.errors import Invalid
from sandlot.records import Task
from sandlot.train import tasks as tasks_module
from sandlot.train.tasks import TaskOrder


class Endless(Game):
    def tasks(self, split: str = "train") -> Iterable[Task]:
        return (Task(id=str(i)) for i in count())


def order(seed: int = 0, *, sizes: tuple[int, ...] = (3, 5), weights: tuple[float, ...] = (1.0, 2.0)) -> TaskOrder:
    games = {f"g{i}": Game(len, name=f"g{i}", count=size) for i, size in enumerate(sizes)}
    return TaskOrder(games, weights={f"g{i}": w for i, w in enumerate(weights)}, seed=seed)


def names(source: TaskOrder, number: int) -> list[tuple[str, str, int]]:
    draws = [source.draw() for _ in range(number)]
    return [(d.environment, source.task(d)[0].id, source.task(d)[1]) for d in draws]


@given(st.integers(0, 5), st.integers(0, 40), st.integers(0, 40))
def test_a_resumed_order_goes_on_as_the_whole_one(seed: int, first: int, more: int) -> None:
    whole = names(order(seed), first + more)
    begun = order(seed)
    assert names(begun, first) == whole[:first]
    resumed = order(seed)
    resumed.load_state(json.loads(json.dumps(begun.state())))
    assert names(resumed, more) == whole[first:]


def test_every_task_comes_once_before_any_comes_again_each_time_in_a_new_order() -> None:
    drawn = names(order(sizes=(6,), weights=(1.0,)), 18)
    rounds = [[task for _, task, epoch in drawn if epoch == number] for number in range(3)]
    assert all(sorted(one) == sorted(rounds[0]) and len(set(one)) == 6 for one in rounds)
    assert rounds[0] != rounds[1]


def test_environments_are_drawn_by_weight() -> None:
    drawn = [environment for environment, _, _ in names(order(), 600)]
    assert 340 < drawn.count("g1") < 460


def test_another_seed_gives_another_order() -> None:
    assert names(order(0), 8) != names(order(1), 8)


def test_an_endless_set_is_read_in_its_own_order_and_may_be_asked_for_an_earlier_task() -> None:
    endless = TaskOrder({"e": Endless(len)}, weights={"e": 1.0}, seed=0)
    draws = [endless.draw() for _ in range(5)]
    assert [endless.task(d)[0].id for d in draws] == ["0", "1", "2", "3", "4"]
    assert endless.task(draws[2])[0].id == "2"
    assert tasks_module.MOST_TASKS == 100_000


def test_an_environment_without_training_tasks_is_refused() -> None:
    with pytest.raises(Invalid, match="g0 has no training tasks"):
        order(sizes=(0,), weights=(1.0,))


def test_the_state_of_other_environments_is_refused() -> None:
    with pytest.raises(Invalid, match="the checkpoint is of the environments"):
        order().load_state(order(sizes=(3,), weights=(1.0,)).state())
