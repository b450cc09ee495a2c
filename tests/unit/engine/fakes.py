"""The smallest playable and model that the engine can be tested with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from sandlot.engine import Limits, Playable, State
from sandlot.models import Completion, Model, Prior
from sandlot.records import (
    AssistantMessage,
    Message,
    Messages,
    Reward,
    Sampling,
    Task,
    Tool,
    UserMessage,
    Verdict,
)

Answer = Callable[[Sequence[Message]], Awaitable[Completion]]


def completion(text: str, finish: str = "stop") -> Completion:
    return Completion(message=AssistantMessage(content=text), finish=finish)


class AnswerModel(Model):
    """Answers with what `answer` returns."""

    name = "answer"

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.samplings: list[Sampling] = []
        self.priors: list[Prior | None] = []

    async def generate(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        sampling: Sampling,
        prior: Prior | None = None,
    ) -> Completion:
        self.samplings.append(sampling)
        self.priors.append(prior)
        return await self.answer(messages)


class Game(Playable):
    """Says `go on` until `turns` turns were played; right is the answer of the task."""

    name = "game"

    def __init__(self, *, turns: int = 1, limits: Limits | None = None) -> None:
        self.turns = turns
        self.limits = limits or Limits()
        self.cleaned: list[str] = []
        self.said: dict[str, list[list[Message]]] = {}

    def tasks(self, split: str = "train") -> Iterable[Task]:
        return [task(str(number)) for number in range(3)]

    async def setup(self, state: State) -> State:
        return state

    async def stop(self, state: State) -> str | None:
        return "played" if state["turn"] >= self.turns else None

    async def prompt(self, state: State) -> Messages | None:
        said: list[Message] = state.setdefault("_said", list(state["prompt"]))
        if state["turn"]:
            said.append(UserMessage(content="go on"))
        return list(said)

    async def observe(self, state: State, messages: Messages, completion: Completion) -> None:
        state["_said"].append(completion.message)
        state["completion"] = state["_said"][len(state["prompt"]) :]

    def tools(self, state: State) -> Sequence[Tool]:
        return []

    async def score(self, states: Sequence[State]) -> list[Verdict]:
        return [self.verdict(state) for state in states]

    def verdict(self, state: State) -> Verdict:
        value = float(bool(state["completion"]) and state["completion"][-1]["content"] == state["answer"])
        return Verdict(reward=value, rewards=[Reward(name="right", value=value)])

    async def cleanup(self, state: State) -> None:
        await asyncio.sleep(0)
        self.cleaned.append(state["trajectory_id"])


def task(task_id: str, answer: str = "yes") -> Task:
    return Task(id=task_id, prompt=[{"role": "user", "content": f"question {task_id}"}], answer=answer)
