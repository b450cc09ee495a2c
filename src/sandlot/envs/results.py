"""What an evaluation gives back: rows, columns and totals.

Invariants: a row is a plain dict; a rollout without a verdict has reward None and is left out of means, and the counts
say how many there were.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import msgspec

from sandlot.evals import Summary
from sandlot.records import Rollout, as_messages, conversation

RolloutOutput = dict[str, Any]

_COLUMNS = ("prompt", "completion", "answer", "info", "task", "reward", "metrics", "error", "example_id")


class Results(Mapping[str, Any]):
    """The rollouts of an evaluation, in the order of tasks and then of index.

    `results["outputs"]` are rows and `results["metadata"]` what was run; `results.reward`, `.prompt`, `.completion`,
    `.metrics`, … are columns over the same rows; `results.rollouts` are the records and `results.summary` the totals.
    Awaiting it gives itself, so that `await env.evaluate(…)` and `env.evaluate(…)` read the same.
    """

    def __init__(self, rollouts: list[Rollout], *, summary: Summary, metadata: dict[str, Any]) -> None:
        self.rollouts = rollouts
        self.summary = summary
        self.metadata = metadata
        self.outputs: list[RolloutOutput] = [output_of(rollout) for rollout in rollouts]

    def __getitem__(self, key: str) -> Any:
        if key == "outputs":
            return self.outputs
        if key == "metadata":
            return self.metadata
        return self.column(key)

    def __iter__(self) -> Any:
        return iter(("outputs", "metadata"))

    def __len__(self) -> int:
        return len(self.outputs)

    def __getattr__(self, name: str) -> Any:
        if name in _COLUMNS:
            return self.column(name)
        raise AttributeError(name)

    def __await__(self) -> Generator[None, None, Results]:
        yield from ()
        return self

    def column(self, name: str) -> Any:
        """One value for each row. `metrics` is a column for each metric, None where a rollout does not report it."""
        if name == "metrics":
            names = sorted({metric for row in self.outputs for metric in row["metrics"]})
            return {metric: [row["metrics"].get(metric) for row in self.outputs] for metric in names}
        return [row.get(name) for row in self.outputs]

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {status}" for status, count in self.summary.counts.items() if count)
        return f"Results(reward {self.summary.reward}, {counts or 'no rollouts'})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{name}</td><td style='text-align:right'>{value}</td></tr>"
            for name, value in [("reward", self.summary.reward), *self.summary.counts.items()]
        )
        return f"<table>{rows}</table>"


def output_of(rollout: Rollout) -> RolloutOutput:
    """A rollout as a row in the form that the original API saves."""
    messages = conversation(rollout)
    prompt = rollout.turns[0].prompt if rollout.turns else rollout.task.prompt
    verdict = rollout.verdict
    scores = {} if verdict is None else {reward.name: reward.value for reward in verdict.rewards} | verdict.metrics
    failure = rollout.failure or (verdict.failure if verdict is not None else None)
    row: RolloutOutput = {
        "example_id": rollout.task.id,
        "prompt": as_messages(prompt),
        "completion": as_messages(messages[len(prompt) :] if rollout.turns else rollout.tail),
        "answer": rollout.task.answer,
        "info": rollout.task.info,
        "task": rollout.task.fields.get("task", rollout.environment),
        "reward": rollout.reward,
        "metrics": scores,
        "error": None if failure is None else {"error": failure.type, "message": failure.message},
        "is_completed": True,
        "is_truncated": rollout.truncated,
        "stop_condition": rollout.stop,
        "timing": msgspec.to_builtins(rollout.timing),
        "token_usage": {
            "input_tokens": rollout.usage.prompt_tokens,
            "output_tokens": rollout.usage.completion_tokens,
        },
    }
    return {**rollout.task.fields, **rollout.state, **scores, **row}
