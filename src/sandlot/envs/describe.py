"""What can be said of an environment by looking at it, without playing it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from sandlot.envs.calls import own
from sandlot.errors import Invalid
from sandlot.records import JsonObject, Probe, RewardInfo, Split

if TYPE_CHECKING:
    from sandlot.envs.environment import Environment

_LONGEST_TASK = 20_000
"""Characters of one sample task's messages; a longer one is left out of the description."""


def described(environment: Environment, samples: int) -> Probe:
    """The probed part of a manifest."""
    splits: list[Split] = []
    sample_tasks: list[JsonObject] = []
    for name in ("train", "eval"):
        try:
            tasks = own(environment, "split")(name)
        except Invalid:
            continue
        size = getattr(tasks, "size", lambda: None)()
        splits.append(Split(name=name, size=size))
        if not sample_tasks:
            sample_tasks = [
                {"id": task.id, "prompt": task.prompt}
                for task in itertools.islice(tasks, samples)
                if sum(len(str(message)) for message in task.prompt) <= _LONGEST_TASK
            ]
    tools = [*environment.tool_defs, *environment.toolbox.tools.values()]
    return Probe(
        kind=_kind(environment, bool(tools)),
        max_turns=environment.max_turns if environment.max_turns > 0 else None,
        tools=tools,
        rewards=[
            RewardInfo(name=function.name, weight=function.weight, description=function.description)
            for function in environment.rubric.functions
        ],
        splits=splits,
        sample_tasks=sample_tasks,
        system_prompt=environment.system_prompt or "",
        secrets=list(getattr(environment, "required_keys", [])),
    )


def _kind(environment: Environment, has_tools: bool) -> str:
    if has_tools:
        return "tool"
    return "single-turn" if environment.max_turns == 1 else "multi-turn"
