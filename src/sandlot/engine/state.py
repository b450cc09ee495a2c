"""The working memory of a rollout in flight."""

from __future__ import annotations

import copy
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from sandlot.records import JsonObject, Message, Rollout, Sampling, Task, Usage, as_message, as_stored, storable_text

_SCALARS = (str, int, float, bool, type(None))


class State(dict[str, Any]):
    """A dict that authors may write to. The engine's own record of the rollout is not in it.

    Set by the engine: `prompt, completion, answer, info, task, input, example_id, trajectory, trajectory_id, responses,
    client, model, sampling_args, rng, is_completed, is_truncated, stop_condition, error, reward, metrics,
    final_env_response, turn`. The task's own columns stand beside them, copied deeply for each rollout.
    """

    draft: Callable[[], Rollout]
    """Gives the rollout as it stands: frozen, not yet scored."""

    def spend(self, usage: Usage, cost: float | None) -> None:
        """Counts a call that was made for this rollout beside its turns, such as a judge's: tokens of the model that
        is played, dollars (None is not known) of any model."""
        self.setdefault(_BESIDE, []).append((usage, cost))

    @property
    def spent(self) -> list[tuple[Usage, float | None]]:
        """What was counted by `spend`."""
        return list(self.get(_BESIDE, ()))

    def hold(self, close: Callable[[], Awaitable[None]]) -> None:
        """Has the engine call `close` when the rollout is scored, or will never be: however it ends, exactly once.
        What was held last is closed first."""
        self.setdefault(HELD, []).append(close)


_BESIDE = "_beside"
"""The key of what was spent beside the turns. It begins with an underscore, so that it is not saved with the state."""

HELD = "_held"
"""The key of what is to be closed behind the rollout: one list for its whole life, whatever state an author makes."""


ENGINE_KEYS = frozenset(
    {
        "advantage",
        "answer",
        "client",
        "completion",
        "error",
        "example_id",
        "final_env_response",
        "info",
        "input",
        "is_completed",
        "is_truncated",
        "metrics",
        "model",
        "prompt",
        "prompt_too_long",
        "responses",
        "reward",
        "rng",
        "sampling_args",
        "stop_condition",
        "task",
        "timed_out",
        "timing",
        "tool_defs",
        "trajectory",
        "trajectory_id",
        "turn",
        "usage",
    }
)
"""Keys that are the engine's or stand in the rollout in another form; they are not saved with the author's state."""


def new_state(task: Task, *, rollout_id: str, seed: int, model: str, sampling: Sampling) -> State:
    """The state of a rollout that begins. Nothing in it is shared with the task or with another rollout."""
    fields = copied(task.fields)
    state = State(fields)
    state.update(
        prompt=[as_message(dict(message)) for message in copied(task.prompt)],
        answer=copied(task.answer),
        info=copied(task.info),
        completion=[],
        example_id=task.fields.get("example_id", task.id),
        trajectory=[],
        trajectory_id=rollout_id,
        model=model,
        sampling_args=msgspec.to_builtins(sampling),
        rng=random.Random(seed),
        is_completed=False,
        is_truncated=False,
        stop_condition=None,
        error=None,
        prompt_too_long=False,
        reward=None,
        metrics=None,
        final_env_response=None,
        turn=0,
    )
    state["responses"] = []
    state[HELD] = []
    state["input"] = dict(fields, prompt=state["prompt"], answer=state["answer"], info=state["info"])
    state.setdefault("task", state["input"])
    return state


def copied(value: Any) -> Any:
    """A deep copy; the common flat cases are copied without the machinery of `copy.deepcopy`."""
    if isinstance(value, _SCALARS):
        return value
    if type(value) is dict and all(isinstance(item, _SCALARS) for item in value.values()):
        return dict(value)
    if type(value) is list:
        return [copied(item) for item in value]
    if isinstance(value, Message) and all(isinstance(item, _SCALARS) for item in value.values()):
        return type(value)(value)
    return copy.deepcopy(value)


def saved_state(state: State, task: Task) -> tuple[JsonObject, list[str]]:
    """What the author put into the state and is JSON, and the keys of what is not."""
    kept: JsonObject = {}
    left_out: list[str] = []
    for key, value in state.items():
        name = storable_text(key) if isinstance(key, str) else f"{key!r:.100}"
        if name in ENGINE_KEYS or name.startswith("_"):
            continue
        try:
            if key in task.fields and task.fields[key] == value:
                continue
            stored = as_stored(value) if isinstance(key, str) else None
            # Later changes of the author's, as by a clean-up that goes on in a thread, are not to reach the record.
            kept[name] = stored if isinstance(stored, _SCALARS) else copy.deepcopy(stored)
        except Exception:  # boundary: the author's objects, which may compare and convert as they like
            left_out.append(name)
            continue
        if not isinstance(key, str):
            del kept[name]
            left_out.append(name)
    return kept, left_out
