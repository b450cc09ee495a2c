"""Loads the environments of this repository by path and plays them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import sandlot as vf
from sandlot.engine import PlayPolicy, Request, play_all
from sandlot.envs import find, load
from sandlot.records import Rollout, Sampling, Task, as_messages
from sandlot.testing import ScriptedModel

FOLDER = Path(__file__).resolve().parents[3] / "environments"

Reply = Any
"""What a model says: text or a message."""


def environment(name: str, **arguments: Any) -> vf.Environment:
    """The environment in `environments/NAME`."""
    return load(find(str(FOLDER / name)), arguments)


def some(env: vf.Environment, count: int, split: str = "eval") -> list[Task]:
    """The first tasks of a split."""
    return list(itertools.islice(env.playable.tasks(split), count))


def play(env: vf.Environment, task: Task, replies: Sequence[Reply] | Callable[[Any], Reply]) -> Rollout:
    """One rollout of `task` by a model that gives these replies; the last one for ever."""
    remaining = [] if callable(replies) else list(replies)

    def answer(messages: Any) -> Reply:
        if callable(replies):
            return replies(messages)
        return remaining.pop(0) if len(remaining) > 1 else remaining[0]

    rollouts: list[Rollout] = []
    asyncio.run(
        play_all(
            env.playable,
            [[Request(task=task, index=0)]],
            model=ScriptedModel(answer),
            sampling=Sampling(),
            policy=PlayPolicy(max_concurrent=1),
            on_rollout=rollouts.append,
        )
    )
    (rollout,) = rollouts
    return rollout


def play_oracle(env: vf.Environment, task: Task) -> Rollout:
    """One rollout in which the model says what the environment's oracle says."""
    said = asyncio.run(env.oracle(task))
    return play(env, task, [said] if isinstance(said, str) else said)


def reward(env: vf.Environment, task: Task, *replies: Reply) -> float:
    """The reward of those replies."""
    value = play(env, task, replies).reward
    assert value is not None
    return value


def echo(messages: Any) -> str:
    """Says the last message back."""
    return str(as_messages(messages)[-1]["content"])


def mean(values: Sequence[float]) -> float:
    """The mean."""
    return sum(values) / len(values)
