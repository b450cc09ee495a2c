"""A quiz of which a test writes down how every rollout goes, play by play."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence

from sandlot.engine import Playable, State, seed_of
from sandlot.errors import ModelError
from sandlot.models import Completion, Model, Prior
from sandlot.records import (
    AssistantMessage,
    EnvironmentRef,
    Message,
    Messages,
    Reward,
    Rollout,
    Sampling,
    Task,
    Tool,
    Usage,
    Verdict,
)

REF = EnvironmentRef(id="./quiz", name="quiz", version="0.1.0", digest="sha256:11", source="path")


class Quiz(Playable):
    """One question a task, to which the model says its reward; `ungraded` cannot be scored."""

    name = "quiz"

    def __init__(self, tasks: int | Iterable[Task] = 3, *, grouped: bool = False) -> None:
        names = [f"t{number}" for number in range(tasks)] if isinstance(tasks, int) else []
        self._tasks = tasks if not isinstance(tasks, int) else [Task(id=name) for name in names]
        self.grouped = grouped
        self.scored_together: list[int] = []

    def tasks(self, split: str = "train") -> Iterable[Task]:
        return iter(self._tasks)

    async def setup(self, state: State) -> State:
        return state

    async def stop(self, state: State) -> str | None:
        return "answered" if state["turn"] else None

    async def prompt(self, state: State) -> Messages | None:
        return [Message(role="user", content="What do you get?")]

    async def observe(self, state: State, messages: Messages, completion: Completion) -> None:
        state["said"] = completion.message["content"]

    def tools(self, state: State) -> Sequence[Tool]:
        return []

    async def score(self, states: Sequence[State]) -> list[Verdict]:
        self.scored_together.append(len(states))
        if any(state["said"] == "ungraded" for state in states):
            raise KeyError("grade")
        values = [float(state["said"]) for state in states]
        return [Verdict(reward=value, rewards=[Reward(name="right", value=value)]) for value in values]


class Player(Model):
    """Says for each rollout, known by its seed, what `script` has for it: a reward, `error` or `ungraded`.

    Each play takes the next one, the last for ever. `hang` names rollouts that never end.
    """

    name = "player"

    def __init__(self, script: dict[tuple[str, int], list[float | str]] | None = None, *, seed: int = 0) -> None:
        self.script = script or {}
        self.hang: set[tuple[str, int]] = set()
        self.hung = asyncio.Event()
        self.plays: defaultdict[tuple[str, int], int] = defaultdict(int)
        self.stop_after: int | None = None
        """After this many plays the task that `victim` is gets cancelled."""
        self.victim: asyncio.Task[object] | None = None
        names = [(f"t{task}", index) for task in range(40) for index in range(9)]
        self._names = {seed_of(seed, *name): name for name in names}

    async def generate(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        sampling: Sampling,
        prior: Prior | None = None,
    ) -> Completion:
        assert sampling.seed is not None
        name = self._names[sampling.seed]
        outcomes = self.script.get(name, [1.0])
        outcome = outcomes[min(self.plays[name], len(outcomes) - 1)]
        self.plays[name] += 1
        if self.stop_after is not None and sum(self.plays.values()) > self.stop_after and self.victim is not None:
            self.victim.cancel()
        await asyncio.sleep(0)
        if name in self.hang:
            self.hung.set()
            await asyncio.Event().wait()
        if outcome == "error":
            raise ModelError("503")
        usage = Usage(prompt_tokens=7, completion_tokens=2)
        return Completion(message=AssistantMessage(content=str(outcome)), usage=usage, cost=0.25)


class Watcher:
    """Notes what a run tells."""

    def __init__(self) -> None:
        self.total = self.done_already = -1
        self.rollouts: list[Rollout] = []
        self.enough = asyncio.Event()
        """Set when `number` rollouts were seen."""
        self.number = 0
        self.summary: object = None

    def started(self, total: int, done_already: int) -> None:
        self.total, self.done_already = total, done_already

    def rollout(self, rollout: Rollout) -> None:
        self.rollouts.append(rollout)
        if len(self.rollouts) == self.number:
            self.enough.set()

    def finished(self, summary: object) -> None:
        self.summary = summary
