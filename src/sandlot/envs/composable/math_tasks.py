"""Mathematics whose answer the agent writes to a file.

Invariants: the answer is compared here and not in the sandbox, where the agent could have changed the comparer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sandlot.engine import State
from sandlot.envs.composable.leftovers import file_left
from sandlot.envs.composable.loading import made, published, within
from sandlot.envs.composable.tasks import SandboxSpec, SandboxTaskSet
from sandlot.envs.drift import HybridMathRubric
from sandlot.envs.rubric import Score
from sandlot.models import Completion, Model, Prior, connect
from sandlot.records import AssistantMessage, Message, Sampling, Tool

DEFAULT_ANSWER_PATH = "/app/answer.txt"
_IMAGE = "python:3.11-slim"


class RemoteHybridMathRubric(HybridMathRubric):
    """Mathematics first and then the judge, of the text that the agent left at `answer_path`."""

    def __init__(self, answer_path: str = DEFAULT_ANSWER_PATH, **kwargs: Any) -> None:
        for name in ("solution_path", "scorer_path", "scorer_timeout"):
            kwargs.pop(name, None)  # They are about a comparer in the sandbox.
        super().__init__(**kwargs)
        self.answer_path = answer_path

    async def correct_answer(self, parser: Any, completion: Any, answer: Any, **values: Any) -> Any:
        """Whether the file has the task's answer."""
        state: State = values["state"]
        text = await file_left(state, self.answer_path)
        if text is None:
            return Score(0.0, feedback=f"there is no file {self.answer_path}")
        asked = (state.get("info") or {}).get("question") or values.get("prompt")
        said = [AssistantMessage(content=text)]
        return await super().correct_answer(parser, said, answer, **{**values, "prompt": asked})


class MathTaskSet(SandboxTaskSet):
    """Problems with an answer, which the agent writes to `answer_path`.

    `difficulty_key` is a column with the share of tries that succeeded, and only rows between `min_avg_reward` and
    `max_avg_reward` are tasks. Where the comparison says no, `judge_model` at `judge_base_url` is asked, unless
    `use_judge_fallback` is false.
    """

    def __init__(
        self,
        dataset_name: str = "PrimeIntellect/INTELLECT-3-RL",
        dataset_subset: str | None = "math",
        dataset_split: str = "train",
        filter_fn: str | None = None,
        question_key: str = "question",
        answer_key: str = "answer",
        instruction_prompt: str = "Solve the following problem.\n\n",
        answer_path: str = DEFAULT_ANSWER_PATH,
        docker_image: str = _IMAGE,
        difficulty_key: str | None = None,
        min_avg_reward: float = 0.0,
        max_avg_reward: float = 1.0,
        judge_model: str = "openai/gpt-5-nano",
        judge_base_url: str | None = "https://api.pinference.ai/api/v1",
        judge_api_key_var: str | None = "PRIME_API_KEY",
        use_judge_fallback: bool = True,
        judge_prompt: str | None = None,
        judge_timeout: float = 1200.0,
        ds_num_proc: int | None = None,
        ds_keep_in_memory: bool = True,
    ) -> None:
        def row_of(row: dict[str, Any]) -> dict[str, Any]:
            return {"info": {"question": row[question_key]}, "answer": str(row.get(answer_key, ""))}

        def read() -> Any:
            rows = published(
                dataset_name, dataset_subset, dataset_split, keep_in_memory=ds_keep_in_memory, num_proc=ds_num_proc
            )
            return made(within(rows, difficulty_key, min_avg_reward, max_avg_reward), row_of)

        super().__init__(read, name=f"math/{dataset_name}", filter_fn=filter_fn)
        self.instruction_prompt, self.answer_path, self.docker_image = instruction_prompt, answer_path, docker_image
        self._rubric_options: dict[str, Any] = {"use_judge_fallback": use_judge_fallback}
        if use_judge_fallback and judge_api_key_var:
            judge = ModelLater(judge_model, base_url=judge_base_url, key_var=judge_api_key_var)
            self._rubric_options |= {"judge_model": judge_model, "judge_client": judge}
        if judge_prompt is not None:
            self._rubric_options["judge_prompt"] = judge_prompt

    def get_instruction(self, info: dict[str, Any]) -> str:
        """The problem, and where its answer goes."""
        question = f"{self.instruction_prompt}{info.get('question', '')}"
        return f"{question}\n\nWrite your final answer to `{self.answer_path}`."

    def get_sandbox_spec(self, info: dict[str, Any]) -> SandboxSpec:
        """A small one."""
        return SandboxSpec(image=self.docker_image, cpu_cores=1, memory_gb=2, disk_size_gb=4)

    def get_rubric(self) -> RemoteHybridMathRubric:
        """The comparer, with its judge."""
        return RemoteHybridMathRubric(answer_path=self.answer_path, **self._rubric_options)


class ModelLater(Model):
    """A model that is connected when it is first asked, so that an environment can be built without its key."""

    def __init__(self, name: str, *, base_url: str | None, key_var: str) -> None:
        self.name = name
        self._base_url, self._key_var = base_url, key_var
        self._model: Model | None = None

    async def generate(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        sampling: Sampling,
        prior: Prior | None = None,
    ) -> Completion:
        """As of any model; what `connect` raises comes with the first call."""
        if self._model is None:
            self._model = connect(self.name, base_url=self._base_url, key_var=self._key_var)
        return await self._model.generate(messages, tools=tools, sampling=sampling, prior=prior)

    async def close(self) -> None:
        """Gives back its connections."""
        model, self._model = self._model, None
        if model is not None:
            await model.close()
