"""Plays environments with scripted answers."""

from __future__ import annotations

import asyncio
from typing import Any

import sandlot as vf
from sandlot.engine import PlayPolicy, Request, play_all, seed_of
from sandlot.records import Rollout, Sampling
from sandlot.testing import ScriptedModel


def play_tasks(env: vf.Environment, *answers: Any, count: int = 1, split: str = "eval", **policy: Any) -> list[Rollout]:
    """Every task `count` times; the answers are taken in turn, the last one for ever."""
    remaining = list(answers)

    def answer(messages: Any) -> Any:
        return remaining.pop(0) if len(remaining) > 1 else remaining[0]

    tasks = list(env.playable.tasks(split))
    groups = [
        [Request(task=task, index=index, seed=seed_of(0, task.id, index)) for index in range(count)] for task in tasks
    ]
    rollouts: list[Rollout] = []
    asyncio.run(
        play_all(
            env.playable,
            groups,
            model=ScriptedModel(answer),
            sampling=Sampling(),
            policy=PlayPolicy(max_concurrent=policy.pop("max_concurrent", 1), **policy),
            on_rollout=rollouts.append,
        )
    )
    return rollouts


def calls(*wanted: tuple[str, str]) -> vf.Message:
    """An assistant message that calls tools: `(name, arguments as JSON text)`."""
    return vf.AssistantMessage(
        content=None,
        tool_calls=[
            vf.ToolCall(id=f"c{number}", name=name, arguments=arguments)
            for number, (name, arguments) in enumerate(wanted, start=1)
        ],
    )
