"""Playing rows that the caller has: `generate`, `run_rollout`, `run_group` and `rollout` of the original API.

Invariants: a row is played by the environment's own loop and scored by its rubric, as its own tasks are; rows that
share an `example_id` are one group; results come in the order of the rows.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sandlot.engine import Player, PlayPolicy, Request, State, play_all, seed_of
from sandlot.envs.calls import own
from sandlot.envs.conversation import Conversation
from sandlot.envs.evaluate import model_of
from sandlot.envs.response import Response
from sandlot.envs.results import Results, RolloutOutput
from sandlot.envs.sampling import sampling_of
from sandlot.envs.tolerated import tolerate
from sandlot.envs.toolbox import as_tool
from sandlot.errors import Invalid
from sandlot.evals import summarise
from sandlot.models import Model
from sandlot.records import Messages, Rollout, Sampling, Task, as_messages


class PlaysGiven:
    """What can play rows that are not its own tasks."""

    if TYPE_CHECKING:

        @functools.cached_property
        def playable(self) -> Conversation:
            """As the engine plays it."""

        def tasks_of(self, rows: Any) -> list[Task]:
            """Rows as tasks."""

    async def generate(
        self,
        inputs: Any,
        client: Any = None,
        model: str | Model | None = None,
        sampling_args: Mapping[str, Any] | None = None,
        max_concurrent: int = -1,
        max_retries: int = 0,
        **options: Any,
    ) -> Results:
        """Plays every row of `inputs` (rows or a `datasets.Dataset`) once and gives `Results` in their order."""
        tolerate("generate", options)
        rows = _rows(inputs)
        groups = _grouped(own(self, "tasks_of")(rows), rows)
        rollouts: list[Rollout] = []
        await play_all(
            self.playable,
            [[request for _, request in group] for group in groups],
            model=model_of(client, model),
            sampling=Sampling(**sampling_of(sampling_args or {})),
            policy=PlayPolicy(max_concurrent=max_concurrent if max_concurrent > 0 else 128, retries=max_retries),
            on_rollout=rollouts.append,
        )
        place = {(request.task.id, request.index): number for group in groups for number, request in group}
        rollouts.sort(key=lambda rollout: place[rollout.task.id, rollout.index])
        summary = summarise(rollouts, expected=len(rows))
        metadata = {
            "env_id": self.playable.name,
            "num_examples": len(groups),
            "sampling_args": dict(sampling_args or {}),
        }
        return Results(rollouts, summary=summary, metadata=metadata)

    def generate_sync(
        self, inputs: Any, client: Any = None, model: str | Model | None = None, **options: Any
    ) -> Results:
        """`generate`, blocking. `Invalid` inside a running event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.generate(inputs, client, model, **options))
        raise Invalid("generate_sync would block the running event loop", hint="await env.generate(…)")

    async def run_rollout(
        self, input: Mapping[str, Any], client: Any = None, model: Any = None, sampling_args: Any = None, **options: Any
    ) -> RolloutOutput:
        """Plays and scores one row."""
        return (await self.generate([input], client, model, sampling_args, **options)).outputs[0]

    async def run_group(
        self,
        group_inputs: Sequence[Mapping[str, Any]],
        client: Any = None,
        model: Any = None,
        sampling_args: Any = None,
        **options: Any,
    ) -> list[RolloutOutput]:
        """Plays the rows of one task and scores them together."""
        rows = [{**row, "example_id": group_inputs[0].get("example_id", 0)} for row in group_inputs]
        return (await self.generate(rows, client, model, sampling_args, **options)).outputs

    async def rollout(
        self, input: Mapping[str, Any], client: Any = None, model: Any = None, sampling_args: Any = None
    ) -> State:
        """Plays one row and gives its state, not scored. What broke it is its `error`."""
        player = Player(
            self.playable,
            model_of(client, model),
            sampling=Sampling(**sampling_of(sampling_args or {})),
            policy=PlayPolicy(retries=0),
        )
        (task,) = own(self, "tasks_of")([input])
        flight = await player.fly(Request(task=task, index=0, seed=seed_of(0, task.id, 0)))
        await player.release(flight)
        return flight.state

    async def get_model_response(
        self,
        state: State,
        prompt: Any,
        client: Any = None,
        model: Any = None,
        tool_defs: Any = None,
        sampling_args: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> Response:
        """A call to the model that is played, or another. Override it to change how the turns themselves are asked;
        called from anywhere else it is beside the rollout's turns, and on no record."""
        messages: Messages = as_messages(prompt)
        ask = state.pop("_ask", None)
        if ask is not None and client is None and model is None and sampling_args is None:
            try:
                return Response(await ask(messages), model=state["model"])
            finally:
                state["_ask"] = ask  # An override may ask again, after a failure say.
        asked = model_of(client, model) if client is not None or model is not None else state["client"]
        given = dict(sampling_args if sampling_args is not None else state["sampling_args"])
        chosen = sampling_of({**given, **given.pop("extra", {})})
        tools = [as_tool(tool) for tool in tool_defs or ()]
        completion = await asked.generate(messages, tools=tools, sampling=Sampling(**chosen))
        return Response(completion, model=asked.name)


def _rows(inputs: Any) -> list[Mapping[str, Any]]:
    rows = [inputs] if isinstance(inputs, Mapping) else list(inputs)
    if not rows:
        raise Invalid("there is no row to play")
    return rows


def _grouped(tasks: Sequence[Task], rows: Sequence[Mapping[str, Any]]) -> list[list[tuple[int, Request]]]:
    """Requests with the number of their row, by `example_id`; a row without one is a group of its own."""
    groups: dict[Any, list[tuple[int, Request]]] = {}
    for number, (task, row) in enumerate(zip(tasks, rows, strict=True)):
        key = row.get("example_id", f"row {number}")
        group = groups.setdefault(key, [])
        first = group[0][1].task if group else task
        index = len(group)
        group.append((number, Request(task=first, index=index, seed=seed_of(0, first.id, index))))
    return list(groups.values())
