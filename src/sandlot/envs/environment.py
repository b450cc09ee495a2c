"""What is authored and played: tasks, how they are played, how they are judged.

Invariants: the loop is the engine's and locked; an author defines what the environment says and when it is over. What
an author got wrong (a reward with an unknown parameter, a dataset without a prompt) is an error when the environment
is built or its tasks are first read, never in the middle of a run. Building an environment has no side effect on the
process: no signal, no thread, no network.
"""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sandlot.engine import State
from sandlot.envs.by_other_names import ByOtherNames
from sandlot.envs.calls import maybe_await, own
from sandlot.envs.conversation import Conversation
from sandlot.envs.decorators import marked, stop
from sandlot.envs.describe import described
from sandlot.envs.evaluate import Evaluable
from sandlot.envs.given import PlaysGiven
from sandlot.envs.parsers import Parser
from sandlot.envs.response import Response, trajectory_step
from sandlot.envs.rubric import Rubric
from sandlot.envs.rubric_group import RubricGroup
from sandlot.envs.sampling import check_sampling
from sandlot.envs.tasks import Source, Tasks, first, shuffled
from sandlot.envs.taskset import EnvConfig, Taskset
from sandlot.envs.toolbox import Toolbox, as_tool
from sandlot.errors import Invalid
from sandlot.records import Messages, Probe, Task, Tool, as_messages


class Environment(Evaluable, PlaysGiven, ByOtherNames):
    """Tasks, rewards and a conversation. Give it a dataset and a rubric, or a `Taskset`; subclass it to answer back.

    Without an `env_response` of its own a rollout is one turn, or, where there are tools, as many turns as the model
    calls tools. `dataset` trains, `eval_dataset` is held out (default: the same). `max_turns` -1 is no limit.
    """

    def __init__(
        self,
        dataset: Source = None,
        eval_dataset: Source = None,
        system_prompt: str | None = None,
        few_shot: Iterable[Mapping[str, Any]] | None = None,
        parser: Parser | None = None,
        rubric: Rubric | None = None,
        sampling_args: Mapping[str, Any] | None = None,
        message_type: str = "chat",
        tool_defs: Sequence[Tool | Mapping[str, Any]] | None = None,
        env_id: str | None = None,
        env_args: Mapping[str, Any] | None = None,
        score_rollouts: bool = True,
        pass_threshold: float = 0.5,
        *,
        taskset: Taskset | None = None,
        tools: Sequence[Callable[..., Any]] = (),
        max_turns: int = -1,
        timeout_seconds: float | None = None,
        config: EnvConfig | None = None,
        **kwargs: Any,
    ) -> None:
        if message_type != "chat":
            warnings.warn(
                f"message_type {message_type!r} is gone: this speaks 'chat'", DeprecationWarning, stacklevel=2
            )
        if taskset is not None and (dataset is not None or eval_dataset is not None):
            raise Invalid("an environment takes a dataset or a taskset, not both")
        if taskset is not None:
            dataset, eval_dataset = taskset.source, taskset.eval_source
            system_prompt = system_prompt or taskset.system_prompt
            rubric = rubric or taskset.rubric
            parser = parser or taskset.parser
            tools = [*taskset.tools, *tools]
        self.logger = logging.getLogger(f"sandlot.envs.{type(self).__name__}")
        self.system_prompt = system_prompt
        self.few_shot = as_messages(few_shot) if few_shot else []
        self.rubric = rubric or Rubric(parser=parser)
        self.parser = parser or self.rubric.parser
        self.sampling_args = dict(sampling_args or {})
        check_sampling(self.sampling_args, where=type(self).__name__)
        self.env_id = env_id
        self.env_args = dict(env_args or {})
        self.score_rollouts = score_rollouts
        self.pass_threshold = pass_threshold
        self.config = config
        self.max_turns = config.max_turns if config is not None and max_turns == -1 else max_turns
        self.timeout_seconds = timeout_seconds
        if config is not None and timeout_seconds is None:
            self.timeout_seconds = config.timeout_seconds
        self.toolbox = Toolbox(tools)
        self.tool_defs = [as_tool(tool) for tool in tool_defs or kwargs.pop("oai_tools", None) or []]
        for key, value in kwargs.items():
            setattr(self, key, value)
        self._add_marked_rewards(is_shared=rubric is not None)
        self.dataset, self.eval_dataset = dataset, eval_dataset
        self._train = self._tasks_of(dataset)
        self._eval = self._tasks_of(eval_dataset)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        locked = [name for name in ("rollout", "run_rollout") if name in cls.__dict__]
        if locked and not cls.__module__.startswith("sandlot."):
            raise Invalid(
                f"{cls.__name__} overrides {locked[0]!r}, but the loop is the engine's",
                hint="override env_response, setup_state or get_prompt_messages, or mark a method with @stop",
            )

    @functools.cached_property
    def playable(self) -> Conversation:
        """The environment as the engine plays it."""
        return Conversation(self)

    # Tasks

    def with_tasks(self, rows: Source, eval_rows: Source = None) -> Environment:
        """Gives the environment these tasks, in place of what it had, and returns it."""
        self._train, self._eval = self._tasks_of(rows), self._tasks_of(eval_rows)
        return self

    def holds_out(self) -> bool:
        """Whether there are tasks of their own for evaluation."""
        return self._eval is not None

    def split(self, split: str = "train") -> Iterable[Task]:
        """The tasks of `train` or `eval`, in their own order. An environment with one set of tasks uses it for both."""
        if split not in ("train", "eval"):
            raise Invalid(f"there is no split {split!r}; there are 'train' and 'eval'")
        chosen = (self._eval or self._train) if split == "eval" else (self._train or self._eval)
        if chosen is None:
            raise Invalid(
                f"{self.env_id or type(self).__name__} has no tasks",
                hint='give it a dataset, or call env.with_tasks([{"question": "…", "answer": "…"}])',
            )
        return chosen

    def add_rubric(self, rubric: Rubric) -> None:
        """Adds a rubric: its rewards are added to those that there are."""
        self.rubric = joined(self.rubric, rubric)
        self.__dict__.pop("playable", None)
        for tasks in (self._train, self._eval):
            if tasks is not None:
                tasks.check_columns()

    def set_kwargs(self, **values: Any) -> None:
        """Sets attributes, through `set_NAME` where there is such a method."""
        for name, value in values.items():
            setter = getattr(self, f"set_{name}", None)
            if callable(setter):
                setter(value)
            else:
                setattr(self, name, value)

    def tasks_of(self, rows: Source) -> list[Task]:
        """Rows that the caller has, as tasks of this environment."""
        return list(self._formatted(rows))

    def get_dataset(self, n: int = -1, seed: int | None = None) -> Any:
        """The first `n` training rows (-1: all), shuffled by `seed` if one is given, with their prompts: a list, or a
        `datasets.Dataset` where the tasks come from one."""
        return self._rows("train", n, seed)

    def get_eval_dataset(self, n: int = -1, seed: int | None = None) -> Any:
        """The first `n` held-out rows (-1: all), shuffled by `seed` if one is given, with their prompts, as
        `get_dataset` gives those for training."""
        return self._rows("eval", n, seed)

    def describe(self, samples: int = 10) -> Probe:
        """What a release says of the environment, with its first `samples` tasks. Reads no more tasks than that."""
        return described(self, samples)

    # What an author may override

    async def setup_state(self, state: State, **kwargs: Any) -> State | None:
        """Puts into `state` what the rollout needs. May return another state."""
        return state

    async def env_response(self, messages: Messages, state: State, **kwargs: Any) -> Any:
        """What the environment says to the last assistant message: messages, or `(messages, state)`."""
        return await self.toolbox.answer(messages[-1])

    async def get_prompt_messages(self, state: State) -> Messages:
        """The next prompt: the task's, and later what was said and the environment's response to it."""
        if not state["trajectory"]:
            return list(state["prompt"])
        last = state["trajectory"][-1]
        said = [*last["prompt"], *last["completion"]]
        response = await maybe_await(self.env_response, said, state)
        if isinstance(response, tuple):
            response, changed = response
            if changed is not state:
                state.update(changed)
        return [*said, *as_messages(response or [])]

    async def add_model_response(self, state: State, prompt_messages: Messages, response: Response) -> None:
        """Adds what the model said to the trajectory."""
        state["responses"].append(response)
        await self.add_trajectory_step(state, trajectory_step(state, prompt_messages, response))

    async def add_trajectory_step(self, state: State, trajectory_step: dict[str, Any]) -> None:
        """Adds one step to `state["trajectory"]`."""
        state["trajectory"].append(trajectory_step)

    async def render_completion(self, state: State) -> None:
        """Sets `state["completion"]`: everything after the task's prompt, the environment's words included."""
        if state["trajectory"]:
            last = state["trajectory"][-1]
            spoken = [*last["prompt"], *last["completion"], *(state["final_env_response"] or [])]
            state["completion"] = spoken[len(state["prompt"]) :]
        else:
            state["completion"] = list(state["final_env_response"] or [])

    async def is_completed(self, *args: Any, **kwargs: Any) -> bool:
        """Whether a stop condition holds. Override it as `(self, messages, state)` or `(self, state)`."""
        state = kwargs["state"] if "state" in kwargs else args[-1]
        return await self.playable.first_stop(state) is not None

    async def oracle(self, task: Task) -> Any:
        """A right solution of `task` without a model: the assistant's text, or messages. None if there is none."""
        return None

    @stop(priority=100)
    async def has_error(self, state: State) -> bool:
        """Whether something broke the rollout, as an error says that an author put into the state."""
        return isinstance(state.get("error"), BaseException)

    def monitor(self, state: State) -> dict[str, float]:
        """Metrics that the environment itself reports about a rollout."""
        return {"num_turns": float(state["turn"])}

    @stop
    async def max_turns_reached(self, state: State) -> bool:
        """The model has had all its turns."""
        return bool(0 < self.max_turns <= state["turn"])

    @stop
    async def has_final_env_response(self, state: State) -> bool:
        """The environment has had the last word."""
        return state["final_env_response"] is not None

    @stop
    async def no_tools_called(self, state: State) -> bool:
        """The model answered without calling a tool, and nothing but tools would answer it."""
        return type(self).env_response is Environment.env_response and called_no_tool(state)

    # Insides

    def _add_marked_rewards(self, *, is_shared: bool) -> None:
        """Adds the methods that are marked as rewards; never to a rubric that another environment may have too."""
        marks = [entry for kind in ("reward", "metric") for entry in marked(self, kind)]
        own = Rubric(parser=self.rubric.parser) if is_shared and marks else self.rubric
        for mark, function in marks:
            own.add_reward_func(function, mark.weight)
        if own is not self.rubric:
            self.rubric = joined(self.rubric, own)

    def _tasks_of(self, source: Source) -> Tasks | None:
        if source is None:
            return None
        return self._formatted(source)

    def _formatted(self, source: Source) -> Tasks:
        return Tasks(source, system_prompt=self.system_prompt, few_shot=self.few_shot, on_columns=self._check_columns)

    def _check_columns(self, columns: Iterable[str]) -> None:
        self.rubric.check(columns)

    def _rows(self, split: str, n: int, seed: int | None) -> Any:
        tasks: Iterable[Task] = own(self, "split")(split)
        chosen = first(tasks if seed is None else shuffled(tasks, seed), n)
        rows = [
            {**task.fields, "example_id": number, "prompt": as_messages(task.prompt), "answer": task.answer}
            | ({"info": task.info} if task.info else {})
            for number, task in enumerate(chosen)
        ]
        return tasks.as_given(rows) if isinstance(tasks, Tasks) else rows


def joined(rubric: Rubric, other: Rubric) -> RubricGroup:
    """The rewards of both, without changing either."""
    rubrics = rubric.rubrics if isinstance(rubric, RubricGroup) else [rubric]
    return RubricGroup([*rubrics, other])


def called_no_tool(state: State) -> bool:
    """Whether the model has spoken and its last message calls no tool."""
    return bool(state["turn"]) and not state["trajectory"][-1]["completion"][-1].get("tool_calls")
