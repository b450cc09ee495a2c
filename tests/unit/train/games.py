"""Games of one turn for policies of 75 thousand weights, and what a test needs to train on them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sandlot.config import build
from sandlot.engine import Playable, State
from sandlot.models import Completion
from sandlot.records import Messages, Run, Task, Tool, Verdict, as_messages
from sandlot.train import TrainConfig, run_training


class Game(Playable):
    """One question, one answer. `judge` gives the reward of a text; what it raises is a failure of scoring."""

    def __init__(self, judge: Callable[[str], float], *, name: str = "game", count: int = 12) -> None:
        self.name = name
        self.judge = judge
        self.count = count
        self.seen: list[tuple[Messages, Sequence[Tool]]] = []

    def tasks(self, split: str = "train") -> Iterable[Task]:
        return [
            Task(id=f"{split}-{i}", prompt=[{"role": "user", "content": chr(97 + i % 26)}]) for i in range(self.count)
        ]

    async def setup(self, state: State) -> State:
        return state

    async def stop(self, state: State) -> str | None:
        return "answered" if "said" in state else None

    async def prompt(self, state: State) -> Messages | None:
        return as_messages(state["prompt"])

    def tools(self, state: State) -> Sequence[Tool]:
        return ()

    async def observe(self, state: State, messages: Messages, completion: Completion) -> None:
        self.seen.append((messages, ()))
        state["said"] = str(completion.message.content or "")

    async def score(self, states: Sequence[State]) -> list[Verdict]:
        return [Verdict(reward=self.judge(state["said"])) for state in states]


class Watcher:
    """Keeps what a run tells whoever watches it."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, float | None]] = []
        self.steps: list[float] = []

    def phase(self, name: str, expected_seconds: float | None) -> None:
        self.phases.append((name, expected_seconds))

    def step(self, metrics: Mapping[str, float]) -> None:
        self.steps.append(metrics["step"])


def share_of_digits(text: str) -> float:
    return sum(c.isdigit() for c in text) / max(1, len(text))


def settings(model: Path, **over: Any) -> TrainConfig:
    """A config small enough for a test. Tables in `over` are merged into those here."""
    table: dict[str, Any] = {
        "model": str(model),
        "env": {"id": "game"},
        "steps": 2,
        "tasks_per_step": 2,
        "group_size": 8,
        "sampling": {"max_tokens": 4},
        "optimiser": {"learning_rate": 1e-3},
        "eval": {"num_tasks": 0},
        "checkpoint": {"interval": 0, "at_end": False},
        "limits": {"sample_tokens": 256},
        "export": "none",
    }
    for key, value in over.items():
        table[key] = {**table.get(key, {}), **value} if isinstance(value, Mapping) and key != "env" else value
    return build(TrainConfig, table)


def train(config: TrainConfig, folder: Path, *games: Playable, **more: Any) -> Run:
    """Trains to the end, outside a running loop."""
    named = dict(zip((env.id for env in config.env), games, strict=True))
    return asyncio.run(run_training(config, named, folder=folder, **more))
