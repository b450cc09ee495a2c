"""`sandlot eval rescore`: another rubric over the same rollouts, without a model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.e2e.shell import write_package
from tests.unit.cli.conftest import Outcome, Shell

from sandlot.store import EVENTS, RunFolder
from sandlot.testing import Fault, MockServer

GAME = """
import sandlot as sl

class Guess(sl.MultiTurnEnv):
    async def setup_state(self, state):
        state["guesses"] = []
        state["board"] = object()
        raise_in_rescore()

    async def env_response(self, messages, state, **kwargs):
        state["guesses"].append(messages[-1]["content"])
        return [{"role": "user", "content": f"not {state['guesses'][-1]}"}]

    async def is_completed(self, messages, state, **kwargs):
        return len(state["guesses"]) == 2

def raise_in_rescore():
    import pathlib
    if pathlib.Path("rescoring").exists():
        raise RuntimeError("set-up ran")

REWARDS

def load_environment():
    rows = [{"question": f"say {n}", "answer": str(n)} for n in range(3)]
    return Guess(dataset=rows, max_turns=3, rubric=sl.Rubric(funcs=[FUNCTIONS]))
"""

OLD = "def right(state, answer):\n    return float(state['guesses'][0] == answer)"


def write(rewards: str, functions: str) -> None:
    text = GAME.replace("REWARDS", rewards).replace("FUNCTIONS", functions)
    write_package(Path("environments/guess"), "guess", text)


@pytest.fixture
def folder(sandlot: Shell) -> Path:
    """A run of three tasks, twice each, all right by the old rubric."""
    write(OLD, "right")
    with MockServer(lambda messages: messages[1 if len(messages) > 2 else 0]["content"].split()[-1]) as server:
        done = sandlot("eval", "guess", "-m", "mock", "-b", server.url, "-n", "3", "-r", "2", "--json")
    assert done.record["runs"][0]["summary"]["reward"] == 1.0, done
    Path("rescoring").touch()
    return Path(done.record["runs"][0]["folder"])


@pytest.fixture(autouse=True)
def no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two versions of a module within one second are told apart by their text alone."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def rescored(sandlot: Shell, folder: Path, *arguments: str) -> Outcome:
    """As in a process of its own: the environment is imported anew."""
    sys.modules.pop("guess", None)
    return sandlot("eval", "rescore", str(folder), *arguments)


def test_todays_rubric_is_applied_to_saved_rollouts_and_the_last_verdict_counts(sandlot: Shell, folder: Path) -> None:
    before = (folder / EVENTS).read_bytes()
    write(
        "def short(completion, prompt, rollout, state):\n"
        "    assert [message['role'] for message in completion] == ['assistant', 'user'] * 2\n"
        "    assert len(rollout.turns) == len(state['trajectory']) == state['turn'] == 2\n"
        "    assert state['stop_condition'] and rollout.verdict is None\n"
        "    return 0.25 if prompt[-1]['content'] == 'say 1' else 1.0",
        "short",
    )
    dry = rescored(sandlot, folder, "--dry-run")
    assert dry.code == 0
    assert "guess · mock: 6 of 6 verdicts change, 0 stay" in dry.out
    assert "reward  1.000 [1.000, 1.000] → 0.750" in dry.out
    assert (folder / EVENTS).read_bytes() == before
    done = rescored(sandlot, folder, "--json")
    assert done.code == 0, done.err
    assert [(each["before"], each["after"]) for each in done.record["changes"]].count((1.0, 0.25)) == 2
    with RunFolder.open(folder) as opened:
        assert sorted(row.reward for row in opened.index()) == [0.25, 0.25, 1.0, 1.0, 1.0, 1.0]
        assert opened.run.summary["reward"] == 0.75
        assert opened.run.summary["rescored"]["changed"] == 6
        assert opened.run.status == "done"
        assert {row.scores["short"] for row in opened.index()} == {0.25, 1.0}
    assert (folder / EVENTS).read_bytes().startswith(before)
    again = rescored(sandlot, folder)
    assert "0 of 6 verdicts change, 6 stay" in again.out


def test_what_an_author_prints_while_it_is_rescored_never_mixes_with_the_result(sandlot: Shell, folder: Path) -> None:
    chatty = OLD.replace("    return", "    print('reading answers')\n    return") + "\n\nprint('loading tables')\n"
    write(chatty, "right")
    done = rescored(sandlot, folder, "--json")
    assert done.code == 0, done.err
    assert done.record["judged"] == 6
    assert {"reading answers", "loading tables"} <= set(done.err.splitlines())


def test_a_function_that_needs_a_key_that_was_not_saved_is_named_and_nothing_is_written(
    sandlot: Shell, folder: Path
) -> None:
    before = (folder / EVENTS).read_bytes()
    write(
        "def looks(state, answer):\n    return 0.5 if answer == '0' else float(state['board'] is not None)\n\n"
        "def quietly(state, answer):\n    return float(answer == '0' or state.get('board') is None)",
        "looks, quietly",
    )
    done = rescored(sandlot, folder)
    assert done.code == 1
    assert "looks needs 'board' of the state, not saved on 4 rollouts" in done.err
    assert "nothing was written" in done.err
    assert (folder / EVENTS).read_bytes() == before
    done = rescored(sandlot, folder, "--partial", "--json")
    assert done.code == 0
    assert (done.record["unjudged"], len(done.record["changes"]), done.record["written"]) == (4, 2, True)
    with RunFolder.open(folder) as opened:
        assert sorted(row.reward for row in opened.index()) == [1.0, 1.0, 1.0, 1.0, 1.5, 1.5]


def test_a_key_that_was_lost_is_not_taken_for_one_that_is_absent_even_where_the_error_is_caught(
    sandlot: Shell, folder: Path
) -> None:
    write(
        "def hides(state):\n    try:\n        return float('board' in state)\n"
        "    except Exception:\n        return 0.0",
        "hides",
    )
    done = rescored(sandlot, folder, "--json")
    assert done.code == 1
    assert done.record["unjudged"] == 6


def test_rollouts_that_are_judged_together_are_judged_together_again(sandlot: Shell, folder: Path) -> None:
    write(
        "def rank(completions, answers):\n    assert len(completions) == 2 and answers[0] == answers[1]\n"
        "    return [float(i) for i in range(len(completions))]",
        "rank",
    )
    done = rescored(sandlot, folder)
    assert done.code == 0, done.err
    with RunFolder.open(folder) as opened:
        assert {(row.index, row.reward) for row in opened.index()} == {(0, 0.0), (1, 1.0)}


def test_a_rubric_that_fails_gives_no_verdict_as_when_it_is_played(sandlot: Shell, folder: Path) -> None:
    write("def broken(state):\n    raise ValueError('oh')", "broken")
    done = rescored(sandlot, folder)
    assert done.code == 0
    assert "reward  1.000 [1.000, 1.000] → none" in done.out
    with RunFolder.open(folder) as opened:
        assert {row.status for row in opened.index()} == {"unscored"}


def test_what_cannot_be_rescored_is_refused(sandlot: Shell, folder: Path) -> None:
    for arguments, code, says in (
        (("absent",), 1, "there is no folder absent"),
        ((str(folder), "--env", "other"), 1, "environment 'other' is not installed"),
    ):
        done = sandlot("eval", "rescore", *arguments)
        assert (done.code, says in done.err) == (code, True), done.err


def test_the_rubric_that_it_was_played_with_changes_nothing_whatever_the_outcome(sandlot: Shell) -> None:
    write(OLD, "right")

    def faults(body):
        return Fault(kind="status", status=400) if "say 1" in str(body["messages"][0]) else None

    with MockServer("0", faults=faults) as server:
        done = sandlot("eval", "guess", "-m", "mock", "-b", server.url, "-n", "3", "-r", "2", "--json")
    folder = Path(done.record["runs"][0]["folder"])
    again = rescored(sandlot, folder)
    assert again.code == 0, again.err
    assert "0 of 6 verdicts change, 6 stay" in again.out
    with RunFolder.open(folder) as opened:
        assert [row.reward for row in opened.index() if row.status == "errored"] == [None, None]
        assert sorted(row.reward for row in opened.index() if row.status == "scored") == [0.0, 0.0, 1.0, 1.0]


JUDGED = """
import sandlot as sl
from sandlot.models import connect

async def quality(judge, prompt, completion, answer, state):
    return float((await judge(prompt, completion, answer, state)).split()[-1])

def load_environment():
    rubric = sl.JudgeRubric(judge_client=connect("judge", base_url=open("judge").read()))
    rubric.add_reward_func(quality)
    return sl.SingleTurnEnv(dataset=[{"question": f"say {n}", "answer": "x"} for n in range(2)], rubric=rubric)
"""

GROUP = """
import sandlot as sl

def short(completion):
    return float(len(completion[-1]["content"]) < 3)

def echo(completion, prompt):
    return float(completion[-1]["content"] == prompt[-1]["content"])

def load_environment():
    one = sl.SingleTurnEnv(dataset=[{"question": "a"}, {"question": "bcde"}], rubric=sl.Rubric(funcs=[short]))
    other = sl.SingleTurnEnv(dataset=[{"question": "a"}], rubric=sl.Rubric(funcs=[echo]))
    return sl.EnvGroup([one, other], env_names=["one", "other"])
"""


def test_a_group_of_environments_is_rescored_each_by_its_own_rubric(sandlot: Shell) -> None:
    write_package(Path("environments/guess"), "guess", GROUP)
    sys.modules.pop("guess", None)
    with MockServer() as server:
        done = sandlot("eval", "guess", "-m", "mock", "-b", server.url, "-n", "-1", "-r", "2", "--json")
    folder = Path(done.record["runs"][0]["folder"])
    assert "0 of 6 verdicts change, 6 stay" in rescored(sandlot, folder).out
    write_package(Path("environments/guess"), "guess", GROUP.replace("< 3", "> 3"))
    again = rescored(sandlot, folder, "--json").record
    changes = sorted((each["environment"], each["before"], each["after"]) for each in again["changes"])
    assert changes == [("one", 0.0, 1.0)] * 2 + [("one", 1.0, 0.0)] * 2


def test_a_judge_is_asked_again_only_where_its_replies_are_forgotten(sandlot: Shell) -> None:
    write_package(Path("environments/guess"), "guess", JUDGED)
    sys.modules.pop("guess", None)
    with MockServer("I say 0.25") as judge, MockServer("x") as server:
        Path("judge").write_text(judge.url)
        done = sandlot("eval", "guess", "-m", "mock", "-b", server.url, "-n", "2", "-r", "1", "--json")
        assert done.record["runs"][0]["summary"]["reward"] == 0.25, done
    folder = Path(done.record["runs"][0]["folder"])
    with MockServer("I say 0.75") as judge:
        Path("judge").write_text(judge.url)
        assert "0 of 2 verdicts change" in rescored(sandlot, folder, "--dry-run").out
        assert not judge.requests
        assert "0.250 [0.250, 0.250] → 0.750" in rescored(sandlot, folder, "--forget", "judge_response").out
        assert len(judge.requests) == 2
