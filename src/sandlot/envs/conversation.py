"""An environment as the engine plays it: the chat loop's questions, answered by what the author wrote.

Invariants: an environment never has to keep the engine's port itself, so an author may call an attribute `tools`,
`tasks` or `cleanup` without breaking the loop; everything an author may have written as a blocking function runs in a
thread; clean-up methods all run, also when one of them raises.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from sandlot.engine import Ask, Limits, Playable, State
from sandlot.envs.calls import call_all, maybe_await, own
from sandlot.envs.decorators import marked
from sandlot.envs.numbers import finite_number
from sandlot.envs.response import Response
from sandlot.envs.sampling import sampling_of
from sandlot.envs.toolbox import as_tool
from sandlot.envs.vocabulary import RolloutTiming
from sandlot.models import Completion
from sandlot.records import Messages, Sampling, Task, Tool, Verdict, as_messages

if TYPE_CHECKING:
    from sandlot.envs.environment import Environment


class Conversation(Playable):
    """Plays one environment."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.name = environment.env_id or type(environment).__name__
        self._stops = [(function.__name__, function) for _, function in marked(environment, "stop")]
        owners = [environment, *environment.rubric.parts]
        self._completed_takes = _parameters_of_override(type(environment))
        self._answers_itself = not _owner(type(environment), "get_model_response").__module__.startswith("sandlot.")
        self._setups = [each for owner in owners for each in marked(owner, "setup")]
        self._updates = [each for owner in owners for each in marked(owner, "update")]

    @property
    def limits(self) -> Limits:  # type: ignore[override]
        """The rollout's deadline is the environment's `timeout_seconds`."""
        return Limits(play=self.environment.timeout_seconds)

    @property
    def sampling(self) -> Sampling:  # type: ignore[override]
        """The environment's `sampling_args`."""
        return Sampling(**sampling_of(self.environment.sampling_args))

    @property
    def pass_threshold(self) -> float:  # type: ignore[override]
        """The environment's own."""
        return self.environment.pass_threshold

    @property
    def grouped(self) -> bool:  # type: ignore[override]
        """Whether the rubric judges the rollouts of a task together."""
        return self.environment.rubric.grouped

    def tasks(self, split: str = "train") -> Iterable[Task]:
        """The environment's tasks of `train` or `eval`."""
        tasks: Iterable[Task] = own(self.environment, "split")(split)
        return tasks

    def cautions(self, split: str) -> list[str]:
        """Where there are no rewards, or no tasks that are held out."""
        environment = self.environment
        found = []
        if environment.score_rollouts and not environment.rubric.rewards_anything:
            found.append(f"{self.name} has no rewards, so that every rollout scores 0")
        if split == "eval" and not own(environment, "holds_out")():
            found.append(f"{self.name} has no held-out tasks, so that those for training are played")
        return found

    async def setup(self, state: State) -> State:
        """The author's set-up, after the environment's own."""
        environment = self.environment
        state["tool_defs"] = [*environment.tool_defs, *environment.toolbox.tools.values()]
        state["timing"] = RolloutTiming(start_time=time.time())
        try:
            returned = await maybe_await(environment.setup_state, state)
            if returned is not None and returned is not state:
                state = returned if isinstance(returned, State) else State({**state, **returned})
            for _, function in self._setups:
                await maybe_await(function, state)
        finally:
            if environment.rubric.cleans_up:
                # A rubric's clean-up may end what its rewards read, so it runs behind the scoring.
                state.hold(functools.partial(maybe_await, environment.rubric.cleanup, state))
        return state

    async def stop(self, state: State) -> str | None:
        """The first stop condition that holds; an author's own `is_completed` is asked before all others."""
        if self._completed_takes and await self._author_says_completed(state, _spoken(state)):
            return state["stop_condition"] or "is_completed"
        return await self.first_stop(state)

    async def first_stop(self, state: State) -> str | None:
        """The first method marked as a stop condition that holds."""
        for name, condition in self._stops:
            if await maybe_await(condition, state):
                return name
        return None

    async def prompt(self, state: State) -> Messages | None:
        """The next prompt, or None if the environment has had the last word."""
        messages = as_messages(await maybe_await(self.environment.get_prompt_messages, state))
        if state["final_env_response"] is not None:
            state["final_env_response"] = as_messages(state["final_env_response"])
            return None
        if state["turn"] and self._completed_takes and await self._author_says_completed(state, messages):
            state["final_env_response"] = messages[len(_spoken(state)) :]
            return None
        return messages

    def tools(self, state: State) -> Sequence[Tool]:
        """The tools of the next turn: `state["tool_defs"]`, which an author may change from turn to turn."""
        return [as_tool(tool) for tool in state["tool_defs"] or ()]

    async def generate(self, state: State, messages: Messages, ask: Ask) -> Completion:
        """What the author's own `get_model_response` gives, where there is one."""
        if not self._answers_itself:
            return await ask(messages)
        state["_ask"] = ask
        response: Response = await maybe_await(self.environment.get_model_response, state, messages)
        return response.completion

    async def observe(self, state: State, messages: Messages, completion: Completion) -> None:
        """Keeps the trajectory and the completion that authors read."""
        response = Response(completion, model=state["model"])
        await maybe_await(self.environment.add_model_response, state, messages, response)
        await maybe_await(self.environment.render_completion, state)
        for _, function in self._updates:
            await maybe_await(function, state)

    async def cleanup(self, state: State) -> None:
        """Renders the completion, then runs every method of the environment that is marked with `@cleanup`; the first
        failure is raised last."""
        marks = marked(self.environment, "cleanup")
        await call_all([self.environment.render_completion, *(each for _, each in marks)], state)

    async def score(self, states: Sequence[State]) -> list[Verdict]:
        """The rubric's verdicts, with the environment's own metrics beside them."""
        environment = self.environment
        if not environment.score_rollouts:
            return [Verdict(reward=0.0, metrics=self._monitored(state)) for state in states]
        verdicts = await environment.rubric.score(states)
        return [
            msgspec.structs.replace(verdict, metrics={**self._monitored(state), **verdict.metrics})
            for verdict, state in zip(verdicts, states, strict=True)
        ]

    async def close(self) -> None:
        """Runs every method marked with `@teardown`, and the rubric's; the first failure is raised last."""
        marks = marked(self.environment, "teardown")
        await call_all([*(each for _, each in marks), self.environment.rubric.teardown])

    def _monitored(self, state: State) -> dict[str, float]:
        values = type(self.environment).monitor(self.environment, state)
        return {str(name): finite_number(value, f"monitor's {name!r} is") for name, value in values.items()}

    async def _author_says_completed(self, state: State, messages: Messages) -> bool:
        completed = self.environment.is_completed
        if self._completed_takes == 2:
            return bool(await maybe_await(completed, messages, state))
        return bool(await maybe_await(completed, state))


def _spoken(state: State) -> Messages:
    if not state["trajectory"]:
        return list(state["prompt"])
    last = state["trajectory"][-1]
    return [*last["prompt"], *last["completion"]]


def _owner(cls: type, name: str) -> type:
    return next(base for base in cls.__mro__ if name in base.__dict__)


def _parameters_of_override(cls: type[Environment]) -> int:
    """How many arguments an author's `is_completed` takes besides self: 2 (messages, state), 1, or 0 for none."""
    owner = _owner(cls, "is_completed")
    if owner.__module__.startswith("sandlot."):
        return 0
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    parameters = list(inspect.signature(owner.__dict__["is_completed"]).parameters.values())[1:]
    named = [parameter.name for parameter in parameters if parameter.kind not in variadic]
    return 2 if len(named) >= 2 and named[0] != "state" else 1
