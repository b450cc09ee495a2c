"""Methods of the original API that an environment answers to, and that Sandlot itself has no use for.

Invariants: what has a meaning here does it; what has none says where it went, and never quietly does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sandlot.engine import State, new_state, seed_of
from sandlot.envs.calls import own
from sandlot.envs.decorators import stop
from sandlot.envs.results import Results
from sandlot.envs.sampling import sampling_of
from sandlot.errors import Invalid
from sandlot.ids import new_id
from sandlot.records import Sampling, Task, Usage


class ByOtherNames:
    """What the original calls otherwise."""

    score_rollouts: bool
    max_seq_len: int | None = None
    max_total_completion_tokens: int = -1

    if TYPE_CHECKING:

        def tasks_of(self, rows: Any) -> list[Task]:
            """Rows as tasks."""

    async def init_state(
        self, input: Mapping[str, Any], client: Any = None, model: str = "", sampling_args: Any = None
    ) -> State:
        """The state that a rollout of this row begins with, not set up yet."""
        (task,) = own(self, "tasks_of")([input])
        sampling = Sampling(**sampling_of(sampling_args or {}))
        state = new_state(task, rollout_id=new_id(), seed=seed_of(0, task.id, 0), model=model, sampling=sampling)
        state["client"] = client
        return state

    def set_score_rollouts(self, score_rollouts: bool) -> None:
        """Whether rollouts are scored."""
        self.score_rollouts = score_rollouts

    def set_max_seq_len(self, max_seq_len: int | None) -> None:
        """Keeps a limit that the model's endpoint has to keep: a prompt that does not fit ends a rollout."""
        self.max_seq_len = max_seq_len

    def set_concurrency(self, concurrency: int) -> None:
        """Refused: `max_concurrent` of each evaluation says how many rollouts are played at once."""
        raise Invalid("an environment has no concurrency of its own", hint="give max_concurrent to evaluate()")

    def build_dataset(self) -> Any:
        """The rows for training, all of them."""
        return own(self, "get_dataset")()

    def build_eval_dataset(self) -> Any:
        """The held-out rows, all of them."""
        return own(self, "get_eval_dataset")()

    def set_max_total_completion_tokens(self, max_total_completion_tokens: int) -> None:
        """A rollout ends once the model has said so many tokens in all its turns; 0 or less is no limit."""
        self.max_total_completion_tokens = max_total_completion_tokens

    @stop
    async def max_total_completion_tokens_reached(self, state: State) -> bool:
        """The model has said all the tokens that it may say in one rollout."""
        return 0 < self.max_total_completion_tokens <= self.get_state_usage(state)["output_tokens"]

    async def prompt_too_long(self, state: State) -> bool:
        """Whether the prompt did not fit; the engine has then ended the rollout."""
        return bool(state["prompt_too_long"])

    def get_state_usage(self, state: State) -> dict[str, float]:
        """The tokens of the rollout so far: `input_tokens` and `output_tokens`."""
        usages = [response.usage for response in state["responses"]] + [usage for usage, _ in state.spent]
        return {
            "input_tokens": float(sum(usage.prompt_tokens or 0 for usage in usages)),
            "output_tokens": float(sum(usage.completion_tokens or 0 for usage in usages)),
        }

    def increment_state_usage(self, state: State, input_tokens: int = 0, output_tokens: int = 0) -> None:
        """Counts tokens that were spent for the rollout beside its turns."""
        state.spend(Usage(prompt_tokens=int(input_tokens), completion_tokens=int(output_tokens)), None)

    def increment_state_usage_from_response(self, state: State, response: Any) -> None:
        """Counts the tokens of a call that was made for the rollout beside its turns."""
        usage = getattr(response, "usage", None)
        counts = [getattr(usage, name, None) or 0 for name in ("prompt_tokens", "completion_tokens")]
        self.increment_state_usage(state, *counts)

    def start_server(self, *_: Any, **__: Any) -> None:
        """Refused: environments are played in worker processes by `sandlot eval`."""
        raise Invalid("an environment is no server here", hint="sandlot eval ENV --workers N plays it in processes")

    def stop_server(self) -> None:
        """There is none to stop."""

    @staticmethod
    def make_dataset(outputs: Results) -> list[dict[str, Any]]:
        """The rows of results, to be given to `datasets.Dataset.from_list`."""
        return [dict(row) for row in outputs["outputs"]]
