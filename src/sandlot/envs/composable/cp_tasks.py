"""Competitive programming: the agent writes a program, and tests that it has not seen decide.

Invariants: expected outputs never enter the sandbox; which tests are chosen depends on the task alone.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

from sandlot.engine import State
from sandlot.envs.composable.cp_tests import Tests, results_of
from sandlot.envs.composable.leftovers import file_left, place_of
from sandlot.envs.composable.loading import made, published, within
from sandlot.envs.composable.tasks import SandboxSpec, SandboxTaskSet
from sandlot.envs.rubric import Rubric, Score
from sandlot.errors import SandboxError

DEFAULT_ANSWER_PATH = "/app/answer.py"


class CPRubric(Rubric):
    """1.0 where the program passes every test; the share that it passes is a metric."""

    def __init__(self, taskset: CPTaskSet, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.taskset = taskset
        self.add_metric(self.pass_rate)
        self.add_reward_func(self.passed)
        self.add_metric(self.num_test_cases)

    async def pass_rate(self, state: State, info: dict[str, Any]) -> Score:
        """The share of tests that the program passes."""
        code = await file_left(state, self.taskset.answer_path)
        if not (code or "").strip():
            state["pass_rate"] = 0.0
            return Score(0.0, feedback=f"there is no program at {self.taskset.answer_path}")
        results = await results_of(str(code), _tests_of(info["verification_info"]), *place_of(state))
        state["pass_rate"] = rate = sum(results) / len(results) if results else 0.0
        return Score(rate, feedback=f"{sum(results)} of {len(results)} tests passed")

    async def passed(self, state: State) -> float:
        """Whether all passed."""
        if "pass_rate" not in state:
            raise SandboxError("the tests could not be run")
        return float(state["pass_rate"] == 1.0)

    async def num_test_cases(self, info: dict[str, Any]) -> float:
        """How many tests there are."""
        return float(info.get("num_test_cases", 0))


class CPTaskSet(SandboxTaskSet):
    """Programs that the agent writes to `answer_path`, each with at most `max_num_tests` tests of `timeout_per_test`
    seconds. `difficulty_key` is a column with the share of tries that succeeded: only rows between `min_solve_rate` and
    `max_solve_rate` are tasks."""

    def __init__(
        self,
        dataset_name: str = "PrimeIntellect/INTELLECT-3-RL",
        dataset_subset: str = "code",
        dataset_split: str = "train",
        filter_fn: str | None = None,
        instruction_prompt: str = "Solve the following programming problem in Python, with its standard library.",
        max_num_tests: int | None = 15,
        timeout_per_test: int = 60,
        answer_path: str = DEFAULT_ANSWER_PATH,
        docker_image: str = "python:3.11-slim",
        difficulty_key: str | None = None,
        min_solve_rate: float = 0.0,
        max_solve_rate: float = 1.0,
        ds_num_proc: int | None = None,
        ds_keep_in_memory: bool = True,
    ) -> None:
        self.instruction_prompt, self.answer_path, self.docker_image = instruction_prompt, answer_path, docker_image
        self.max_num_tests, self.timeout_per_test = max_num_tests, timeout_per_test

        def read() -> Any:
            rows = published(
                dataset_name, dataset_subset, dataset_split, keep_in_memory=ds_keep_in_memory, num_proc=ds_num_proc
            )
            return made(within(rows, difficulty_key, min_solve_rate, max_solve_rate), self.row_of)

        super().__init__(read, name=f"cp/{dataset_name}", filter_fn=filter_fn)

    def get_instruction(self, info: dict[str, Any]) -> str:
        """The problem, and where the program goes."""
        return str(info.get("instruction", ""))

    def get_sandbox_spec(self, info: dict[str, Any]) -> SandboxSpec:
        """A small one."""
        return SandboxSpec(image=self.docker_image, cpu_cores=2, memory_gb=4, disk_size_gb=4)

    def get_rubric(self) -> CPRubric:
        """The hidden tests."""
        return CPRubric(self)

    def row_of(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A published problem as a row of the set, with those of its tests that are used."""
        given = json.loads(row["info"]) if isinstance(row["info"], str) else row["info"]
        tests = json.loads(given["tests"]) if isinstance(given["tests"], str) else given["tests"]
        numbers = list(range(len(tests["inputs"])))
        if self.max_num_tests is not None and len(numbers) > self.max_num_tests:
            numbers = sorted(random.Random(row["question"]).sample(numbers, self.max_num_tests))
        function = tests.get("fn_name")
        parts = [self.instruction_prompt, f"Your solution must define the function `{function}`." if function else ""]
        parts += [row["question"], f"Save your final solution to `{self.answer_path}`."]
        verification = {
            "fn_name": function,
            "test_case_inputs": [json.dumps(tests["inputs"][number]) for number in numbers],
            "test_case_outputs": [json.dumps(tests["outputs"][number]) for number in numbers],
            "timeout": self.timeout_per_test,
        }
        info = {
            "instruction": "\n\n".join(part for part in parts if part),
            "verification_info": verification,
            "num_test_cases": len(numbers),
            "source": given.get("source", ""),
        }
        return {"info": info, "answer": ""}


def _tests_of(info: Mapping[str, Any]) -> Tests:
    return Tests(
        inputs=[json.loads(text) for text in info["test_case_inputs"]],
        outputs=[json.loads(text) for text in info["test_case_outputs"]],
        function=info.get("fn_name"),
        seconds=float(info.get("timeout") or 60),
    )
