"""Small runs and rollouts."""

from __future__ import annotations

import pytest

from sandlot.records import Failure, Rollout, RolloutEvent, Run, Task, Turn, Usage, Verdict


def make_run(**fields) -> Run:
    return Run(**{"id": "01jdv00000000000000abcdefgh", "kind": "eval", "name": "wordle", "model": "m", **fields})


def make_rollout(id: str, *, task: str = "t", index: int = 0, reward: float | None = 1.0, **fields) -> Rollout:
    text = fields.pop("text", "an answer")
    known = {
        "environment": "wordle",
        "model": "m",
        "turns": [Turn(prompt=[], completion={"role": "assistant", "content": text}, usage=Usage(completion_tokens=3))],
        "stop": "done",
        "verdict": None if reward is None else Verdict(reward=reward),
        "failure": Failure(boundary="model", type="ModelError", message="503") if reward is None else None,
    }
    return Rollout(id=id, task=Task(id=task), index=index, **{**known, **fields})


def event(*args, **fields) -> RolloutEvent:
    return RolloutEvent(rollout=make_rollout(*args, **fields))


@pytest.fixture(scope="session")
def make():
    """`make.run(…)`, `make.rollout(id, …)`, `make.event(id, …)`."""

    class Make:
        run = staticmethod(make_run)
        rollout = staticmethod(make_rollout)
        event = staticmethod(event)

    return Make
