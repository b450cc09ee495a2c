"""One play of one task: the unit that is stored, shown, compared, resumed and trained on."""

from __future__ import annotations

from typing import Literal

import msgspec

from sandlot.records.message import JsonObject, Tool
from sandlot.records.reward import Failure, Verdict
from sandlot.records.task import Sampling, Task
from sandlot.records.turn import Turn, Usage

Outcome = Literal["scored", "unscored", "cancelled"]
Status = Literal["scored", "truncated", "unscored", "errored", "cancelled"]


class Timing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Seconds. `total` is what the rollout took from admission to verdict; `model` and `environment` add up calls."""

    setup: float = 0.0
    model: float = 0.0
    environment: float = 0.0
    scoring: float = 0.0
    total: float = 0.0


class Rollout(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One play of one task, closed. What was asked for is accounted for exactly once, by (task.id, index)."""

    id: str
    task: Task
    index: int
    """Which of the rollouts of its task, from 0."""
    environment: str
    model: str
    turns: list[Turn] = []
    tail: list[JsonObject] = []
    """Messages after the last completion: the environment's last word."""
    tools: list[Tool] = []
    sampling: Sampling = Sampling()
    stop: str | None = None
    """Why it ended: the name of a stop condition, max_turns, max_tokens, max_cost, timeout,
    context_length, error, cancelled."""
    truncated: bool = False
    """A limit cut it: a completion's length, the context, the deadline, the limit of turns, tokens or cost."""
    failure: Failure | None = None
    """What broke while it was played. It may still have a verdict."""
    verdict: Verdict | None = None
    usage: Usage = Usage()
    cost: float | None = None
    timing: Timing = Timing()
    seed: int = 0
    started: float = 0.0
    """Seconds since the epoch."""
    attempt: int = 1
    state: JsonObject = {}
    """What the author left in the state and is JSON."""
    left_out: list[str] = []
    """Keys of the state that are not JSON and were not saved."""
    step: int | None = None
    """In a training run: the optimiser step that consumed it or after which it was evaluated."""
    split: Literal["train", "eval"] = "eval"

    @property
    def reward(self) -> float | None:
        """The verdict's reward, or None where there is no verdict."""
        return None if self.verdict is None else self.verdict.reward

    @property
    def outcome(self) -> Outcome:
        """Which of the three accounts it is in."""
        if self.stop == "cancelled":
            return "cancelled"
        return "unscored" if self.reward is None else "scored"

    @property
    def status(self) -> Status:
        """The outcome in the finer words that pages and reports use."""
        return status_of(self.stop, self.reward, failed=self.failure is not None, truncated=self.truncated)


def status_of(stop: str | None, reward: float | None, *, failed: bool, truncated: bool) -> Status:
    """The status of a rollout from the four things that decide it; for readers that have no more than these."""
    if stop == "cancelled":
        return "cancelled"
    if reward is None:
        return "errored" if failed else "unscored"
    return "truncated" if truncated else "scored"


def conversation(rollout: Rollout, leaf: int | None = None) -> list[JsonObject]:
    """The messages from the root to turn `leaf` (default: the last), completions included, then the tail."""
    if not rollout.turns:
        return [*rollout.task.prompt, *rollout.tail]
    path: list[Turn] = []
    index = len(rollout.turns) - 1 if leaf is None else leaf
    while index >= 0:
        path.append(rollout.turns[index])
        index = rollout.turns[index].parent
    messages: list[JsonObject] = []
    for turn in reversed(path):
        messages += [*turn.prompt, turn.completion]
    return messages + (rollout.tail if leaf is None else [])
