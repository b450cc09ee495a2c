"""What an author can get wrong, through the command line: it is named, and stdout stays JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.shell import write_package
from tests.unit.cli.conftest import Shell

from sandlot.testing import MockServer

HEAD = """
import sandlot as sl

def right(completion, answer):
    return float(completion[-1]["content"] == answer)

ROWS = [{"question": f"say {n}", "answer": str(n)} for n in range(3)]

def env(dataset=ROWS, *rewards, **more):
    return sl.SingleTurnEnv(dataset=dataset, rubric=sl.Rubric(list(rewards) or [right]), **more)
"""


def said(messages: object) -> str:
    return messages[-1]["content"].split()[-1]  # type: ignore[index]


@pytest.fixture(autouse=True)
def endpoint(home: Path) -> Iterator[str]:
    sys.modules.pop("broken_env", None)
    with MockServer(said) as server:
        Path("endpoints.toml").write_text(f'[[endpoint]]\nid = "m"\nmodel = "m"\nurl = "{server.url}"\n')
        yield server.url
    sys.modules.pop("broken_env", None)


def write(body: str, *, head: str = HEAD) -> None:
    write_package(Path("environments/broken_env"), "broken_env", head + body)


EVAL = ("eval", "broken_env", "-m", "m", "-n", "2", "-r", "1")
VALIDATE = ("env", "validate", "broken_env", "-n", "2")
COMMANDS = pytest.mark.parametrize("command", [EVAL, VALIDATE], ids=["eval", "validate"])

WRONG = {
    "an exception in a dataset function": (
        "def rows():\n    raise KeyError('no such split')\ndef load_environment():\n    return env(rows)\n",
        ["the dataset raised KeyError", "broken_env.py:12", "no such split"],
    ),
    "an exception in the middle of a generator": (
        "def rows():\n    yield ROWS[0]\n    yield {}['x']\ndef load_environment():\n    return env(rows)\n",
        ["the dataset raised KeyError", "broken_env.py:13"],
    ),
    "a dataset function that exits": (
        "def rows():\n    raise SystemExit(4)\ndef load_environment():\n    return env(rows)\n",
        ["the dataset raised SystemExit", "broken_env.py:12"],
    ),
    "a dataset function that stops": (
        "def rows():\n    raise StopIteration\ndef load_environment():\n    return env(rows)\n",
        ["the dataset raised StopIteration"],
    ),
    "a dataset without a prompt": (
        "def load_environment():\n    return env([{'text': 'x', 'answer': 'y'}])\n",
        ["neither 'prompt' nor 'question'", "'text'", "add a 'question' column"],
    ),
    "a prompt that is no conversation": (
        "def load_environment():\n    return env([{'prompt': 7}])\n",
        ["'prompt' of row 0", "a int is no conversation"],
    ),
    "NaN in a column": (
        "def load_environment():\n    return env([{'question': 'x', 'score': float('nan')}])\n",
        ["column 'score' of row 0", "nan"],
    ),
    "an object in a column": (
        "def load_environment():\n    return env([{'question': 'x', 'picture': object()}])\n",
        ["column 'picture' of row 0", "JSON does not have"],
    ),
    "a row that is no dict": (
        "def load_environment():\n    return env(['x'])\n",
        ["row 0", "str", "a dict was expected"],
    ),
    "two tools of one name": (
        "def tool():\n    pass\ndef load_environment():\n    return sl.ToolEnv(tools=[tool, tool], dataset=ROWS)\n",
        ["two tools named 'tool'"],
    ),
    "a misspelt parameter of a reward": (
        "def wrong(compeltion):\n    return 1.0\ndef load_environment():\n    return env(ROWS, wrong)\n",
        ["'wrong' requires 'compeltion'", "did you mean 'completion'?"],
    ),
    "load_environment that raises": (
        "def load_environment():\n    raise RuntimeError('no luck')\n",
        ["load_environment of broken_env raised RuntimeError", "broken_env.py:12", "no luck"],
    ),
    "load_environment that exits": (
        "def load_environment():\n    raise SystemExit('go away')\n",
        ["load_environment of broken_env raised SystemExit", "broken_env.py:12", "go away"],
    ),
    "load_environment that returns nothing": (
        "def load_environment():\n    env()\n",
        ["returned NoneType", "return env"],
    ),
    "load_environment that returns rows": ("def load_environment():\n    return ROWS\n", ["returned list"]),
    "load_environment that is async": (
        "async def load_environment():\n    return env()\n",
        ["is async", "setup_state"],
    ),
    "a required argument": (
        "def load_environment(level):\n    return env()\n",
        ["missing a required argument: 'level'"],
    ),
    "a syntax error": ("def load_environment(:\n    pass\n", ["SyntaxError", "broken_env.py, line 11"]),
    "a module that exits": ("raise SystemExit(0)\n", ["importing broken_env raised SystemExit"]),
    "an import that is missing": ("import no_such_module_here\n", ["no_such_module_here", "pip install"]),
    "no load_environment": ("", ["has no function load_environment"]),
}


@COMMANDS
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_named_and_is_no_fault_of_sandlots(
    sandlot: Shell, wrong: str, command: tuple[str, ...]
) -> None:
    body, words = WRONG[wrong]
    write(body)
    for json in ([], ["--json"]):
        sys.modules.pop("broken_env", None)
        done = sandlot(*command, *json)
        assert done.code == 2, done.err
        assert done.out == ""
        assert "failed in a way that it should not" not in done.err
        assert all(each in done.err for each in words), done.err
    assert done.problem["code"] == "invalid"


@COMMANDS
def test_what_an_environment_prints_is_not_mixed_with_the_results(sandlot: Shell, command: tuple[str, ...]) -> None:
    write(
        """
print("imported")
def loud(completion):
    print("rewarding")
    return 1.0
def load_environment():
    print("loading")
    return env(ROWS, right, loud)
"""
    )
    done = sandlot(*command, "--json")
    assert isinstance(done.record, dict)
    for words in ("imported", "loading", "rewarding"):
        assert words in done.err


@COMMANDS
@pytest.mark.parametrize("rows", ["(row for row in ROWS)", "lambda: (row for row in ROWS)", "endless"])
def test_a_generator_is_a_dataset_also_when_it_is_read_twice_or_never_ends(
    sandlot: Shell, rows: str, command: tuple[str, ...]
) -> None:
    write(
        f"""
import itertools
def endless():
    return ({{"question": f"say {{n}}", "answer": str(n)}} for n in itertools.count())
def load_environment():
    made = env({rows}, right)
    assert len(made.get_dataset(2)) == 2
    assert len(made.get_dataset(2)) == 2
    return made
"""
    )
    done = sandlot(*command, "--json")
    assert "Traceback" not in done.err
    record = done.record
    if command is EVAL:
        assert record["runs"][0]["summary"]["counts"]["scored"] == 2
    else:
        assert record["tasks"] == 2


def test_a_tool_without_annotations_or_docstring_and_two_rewards_of_one_name_are_no_mistakes(sandlot: Shell) -> None:
    write(
        """
def bare(x, y=1):
    return x
def load_environment():
    rubric = sl.Rubric([lambda completion: 1.0, lambda completion: 0.5])
    return sl.ToolEnv(tools=[bare], dataset=ROWS, rubric=rubric)
"""
    )
    done = sandlot(*EVAL, "--json")
    assert done.code == 0, done.err
    assert done.record["runs"][0]["summary"]["reward"] == 1.5


def test_a_tear_down_that_fails_is_warned_of_and_the_figures_stay(sandlot: Shell) -> None:
    write(
        """
class Torn(sl.SingleTurnEnv):
    @sl.teardown
    def first(self):
        raise SystemExit("torn")
    @sl.teardown
    def second(self):
        print("second was run")
def load_environment():
    return Torn(dataset=ROWS, rubric=sl.Rubric([right]))
"""
    )
    done = sandlot(*EVAL, "--json")
    assert done.code == 0, done.err
    assert done.record["runs"][0]["summary"]["reward"] == 1.0
    assert "tear-down raised SystemExit: torn" in done.err
    assert "second was run" in done.err


def test_a_blocking_hook_keeps_no_sibling_waiting(sandlot: Shell) -> None:
    # Every hook of every rollout waits for all the others to be in the same hook: one that blocked the loop would
    # break the barrier.
    write(
        """
import threading
BARRIERS = {name: threading.Barrier(3, timeout=20) for name in ("tool", "response", "reward")}
def tool():
    BARRIERS["tool"].wait()
    return "told"
class Blocking(sl.ToolEnv):
    def env_response(self, messages, state):
        BARRIERS["response"].wait()
        tool()
        return "say 1"
    @sl.stop
    def twice(self, state):
        return state["turn"] == 2
    @sl.stop
    def no_tools_called(self, state):
        return False
def waits(completion):
    BARRIERS["reward"].wait()
    return 1.0
def load_environment():
    return Blocking(tools=[tool], dataset=ROWS, rubric=sl.Rubric([waits]))
"""
    )
    done = sandlot("eval", "broken_env", "-m", "m", "-n", "3", "-r", "1", "--json")
    assert done.code == 0, done.err
    assert done.record["runs"][0]["summary"]["reward"] == 1.0


def test_an_oracle_that_fails_is_a_finding_with_its_task(sandlot: Shell) -> None:
    write(
        """
class Wrong(sl.SingleTurnEnv):
    async def oracle(self, task):
        raise SystemExit("no oracle today")
def load_environment():
    return Wrong(dataset=ROWS, rubric=sl.Rubric([right]))
"""
    )
    done = sandlot(*VALIDATE, "--json")
    assert done.code == 1
    assert "oracle raised SystemExit: no oracle today" in done.problem["detail"]
