"""Tasks apart from the agent: what there is to do and what it is worth, without how it is played."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import Field

from sandlot.config import Config
from sandlot.envs.parsers import Parser
from sandlot.envs.rubric import Rubric
from sandlot.envs.tasks import Source


class TasksetConfig(Config):
    """What may be set of a taskset. Subclass it to add fields of your own."""

    system_prompt: str | None = None
    """Stands before every prompt that has no system message of its own."""


class EnvConfig(Config):
    """What may be set of an environment. Subclass it to add fields of your own."""

    taskset: TasksetConfig = Field(default_factory=TasksetConfig)
    """The settings of its taskset."""
    max_turns: int = -1
    """The most model calls of a rollout; -1 is no limit."""
    timeout_seconds: float | None = None
    """The deadline of a rollout's play; none by default."""


class Taskset:
    """The ordered, lazy, possibly endless set of tasks with its rewards.

    `source` gives the rows of the training split and `eval_source` those that are held out (default: the same);
    each is anything that an environment takes as a dataset. `rewards` and `metrics` are functions or `(function,
    weight)` pairs; `tools` are functions that the model may call while it works on a task.
    """

    def __init__(
        self,
        source: Source,
        *,
        rewards: Sequence[Callable[..., Any] | tuple[Callable[..., Any], float]] = (),
        metrics: Sequence[Callable[..., Any]] = (),
        eval_source: Source = None,
        tools: Sequence[Callable[..., Any]] = (),
        parser: Parser | None = None,
        system_prompt: str | None = None,
        config: TasksetConfig | None = None,
    ) -> None:
        self.source = source
        self.eval_source = eval_source
        self.tools = list(tools)
        self.parser = parser
        self.config = config or TasksetConfig()
        self.system_prompt = self.config.system_prompt or system_prompt
        self.rubric = Rubric(parser=parser)
        for entry in rewards:
            function, weight = entry if isinstance(entry, tuple) else (entry, 1.0)
            self.rubric.add_reward_func(function, weight)
        for function in metrics:
            self.rubric.add_metric(function)
