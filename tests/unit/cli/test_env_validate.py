"""`sandlot env validate`: agents whose worth is known, and how an environment may fail to tell them apart."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.e2e.shell import write_package
from tests.unit.cli.conftest import Shell

FIRST_PARTY = Path(__file__).parents[3] / "environments"

QUIZ = """
import sandlot as sl

class Quiz(sl.{base}):
    async def oracle(self, task):
        {oracle}

    async def env_response(self, messages, state, **kwargs):
        return [{{"role": "user", "content": "go on"}}]

def right(completion, answer, prompt):
    {reward}

def load_environment(size: int = 8):
    rows = [{{"question": f"say {{n}}", "answer": str(n), "id": f"t{{n}}"}} for n in range(size)]
    return Quiz(dataset=rows, rubric=sl.Rubric(funcs=[right], weights=[{weight}]){more})
"""
RIGHT = 'return float(completion[0]["content"] == answer)'


@pytest.fixture(autouse=True)
def fresh() -> None:
    sys.modules.pop("quiz", None)


def quiz(
    *, base: str = "SingleTurnEnv", oracle: str = "return task.answer", reward: str = RIGHT, weight: float = 1.0,
    more: str = "",
) -> None:  # fmt: skip
    text = QUIZ.format(base=base, oracle=oracle, reward=reward, weight=weight, more=more)
    if base == "SingleTurnEnv":
        head, _, rest = text.partition("    async def env_response")
        text = head + rest.partition("\n\n")[2]
    write_package(Path("environments/quiz"), "quiz", text)


@pytest.mark.parametrize("name", ["reverse_text", "wordle", "tool_test", "one_sentence"])
def test_the_first_party_environments_are_valid(sandlot: Shell, name: str) -> None:
    done = sandlot("env", "validate", str(FIRST_PARTY / name), "-n", "10", "--json")
    assert done.code == 0, done.err
    oracle, nothing, _ = done.record["agents"]
    assert (done.record["valid"], oracle["full"], nothing["full"]) == (True, 10, 0)
    assert oracle["mean"] == pytest.approx(done.record["full"])


def test_a_valid_environment_says_what_each_agent_earned(sandlot: Shell) -> None:
    quiz(weight=2.0)
    done = sandlot("env", "validate", "quiz", "-n", "5")
    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        "quiz: 5 tasks, full reward 2",
        "  the oracle              mean 2.000, full on 5 of 5",
        "  saying nothing          mean 0.000, full on 0 of 5",
        "  repeating the question  mean 0.000, full on 0 of 5",
        "  valid",
    ]
    assert sandlot("env", "validate", "quiz", "-a", '{"size": 3}').out.startswith("quiz: 3 tasks")


@pytest.mark.parametrize(
    ("faults", "says"),
    [
        ({"oracle": "return 'no'"}, "the oracle earns less than the full reward 1 on 8 tasks: t0 (0), t1 (0)"),
        ({"oracle": "return task.answer if task.answer != '3' else ''"}, "on 1 task: t3 (0)"),
        ({"oracle": "raise KeyError('x')"}, "oracle: 8 rollouts broke; the first, task t0: oracle raised KeyError"),
        ({"oracle": "return None"}, "it gave None, which is no solution"),
        ({"reward": "return 1.0"}, "saying nothing earns the full reward 1 on 8 tasks: t0, t1, t2, t3, t4 and 3 more"),
        ({"reward": "return float(answer.endswith(completion[0]['content']))"}, "saying nothing earns the full reward"),
        ({"reward": "return float(answer in completion[0]['content'])"}, "repeating the question earns the full"),
        (
            {"reward": "return completion[0]['content'][0] == answer[0]"},
            "nothing: 8 rollouts broke; the first, task t0",
        ),
        ({"weight": 0.0}, "saying nothing earns the full reward 0 on 8 tasks"),
        ({"base": "MultiTurnEnv"}, "the oracle says 1 things, and after them the rollout is not over"),
        ({"base": "MultiTurnEnv"}, "nothing: 8 rollouts broke; the first, task t0"),
    ],
)
def test_what_is_wrong_is_named_with_its_tasks_and_ends_with_1(
    sandlot: Shell, faults: dict[str, str], says: str
) -> None:
    quiz(**faults)  # type: ignore[arg-type]
    done = sandlot("env", "validate", "quiz")
    assert done.code == 1
    assert says in done.err
    assert done.out.splitlines()[-1] == "  not valid"


def test_what_is_no_fault_by_itself_is_a_warning(sandlot: Shell) -> None:
    quiz(reward="return float(prompt[-1]['content'].split()[-1] == answer == completion[0]['content'][-1:])")
    text = Path("environments/quiz/quiz.py").read_text()
    head, _, rest = text.partition("    async def oracle")
    Path("environments/quiz/quiz.py").write_text(head + "    pass\n\n" + rest.partition("\n\n")[2])
    done = sandlot("env", "validate", "quiz", "--full", "3")
    assert done.code == 0, done.err
    assert "there is no oracle" in done.err
    quiz(reward="return 0.6 if completion[0]['content'] != answer else 1.0")
    sys.modules.pop("quiz", None)
    done = sandlot("env", "validate", "quiz", "-n", "4")
    assert done.code == 0
    assert "saying nothing earns 0.600 on average, and a reward passes from 0.5 on" in done.err


def test_a_conversation_is_played_by_as_many_words_as_the_oracle_has(sandlot: Shell) -> None:
    quiz(
        base="MultiTurnEnv",
        oracle='return [{"role": "assistant", "content": task.answer}, {"role": "user", "content": "?"}, "done"]',
        more=", max_turns=2",
    )
    assert sandlot("env", "validate", "quiz").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("absent",), 1, "'absent' is not installed"),
        (("quiz", "-a", "["), 2, "-a is not JSON"),
        (("quiz", "-a", "3"), 2, "an object was expected"),
        (("quiz", "-a", '{"size": 0}'), 2, "no tasks"),
        (("quiz", "--split", "hidden"), 2, "there is no split 'hidden'"),
        (("quiz", "-n", "0"), 2, "0 is not in the range"),
    ],
)
def test_what_was_asked_wrongly_is_said(sandlot: Shell, arguments: tuple[str, ...], code: int, says: str) -> None:
    quiz()
    done = sandlot("env", "validate", *arguments)
    assert (done.code, says in done.err) == (code, True), done.err
