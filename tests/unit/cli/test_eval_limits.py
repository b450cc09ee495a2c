"""Limits on each rollout and on the whole run, as one sets them on the command line or in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.shell import write_package
from tests.unit.cli.conftest import Shell

from sandlot.store import RunFolder
from sandlot.testing import Fault, MockServer

TALK = """
import asyncio
import threading

import sandlot as sl

class Talk(sl.MultiTurnEnv):
    async def env_response(self, messages, state, **kwargs):
        return [{"role": "user", "content": "go on"}]

def turns(completion):
    return float(sum(message["role"] == "assistant" for message in completion))

def block() -> str:
    \"\"\"Never comes back.\"\"\"
    threading.Event().wait()
    return ""

async def wait() -> str:
    \"\"\"Never comes back either.\"\"\"
    await asyncio.Event().wait()
    return ""

def load_environment(words: str = "talk chat", timeout: float = 600.0):
    settings = {"dataset": [{"question": word} for word in words.split()], "rubric": sl.Rubric(funcs=[turns])}
    if "call" in words:
        return sl.ToolEnv(tools=[block, wait], max_turns=6, **settings)
    return Talk(max_turns=6, timeout_seconds=timeout, **settings)
"""

ENDPOINTS = """
[[endpoint]]
id = "priced"
url = "{url}"
price = {{ input = 0.0, output = 1000000.0 }}

[[endpoint]]
id = "unpriced"
url = "{url}"
"""

Ending = tuple[str | None, str, float | None]


def answer(messages: Any) -> Any:
    """One word, which is a token; where a tool is to be called, the call."""
    tool = messages[0]["content"].removeprefix("call-")
    if tool in ("block", "wait"):
        return {"content": None, "tool_calls": [{"id": "1", "function": {"name": tool, "arguments": "{}"}}]}
    return "fine"


def fault(body: Any) -> Fault | None:
    return Fault(kind="hang") if body["messages"][0]["content"] == "hang" else None


@pytest.fixture(autouse=True)
def server(home: Path) -> Iterator[MockServer]:
    write_package(Path("environments/talk"), "talk", TALK)
    with MockServer(answer, faults=fault) as server:
        Path("endpoints.toml").write_text(ENDPOINTS.format(url=server.url))
        yield server


def endings(record: Any) -> dict[str, Ending]:
    """By question: why the rollout stopped, its status, its reward."""
    with RunFolder.open(Path(record["runs"][0]["folder"])) as folder:
        return {
            rollout.task.prompt[-1]["content"]: (rollout.stop, rollout.status, rollout.reward)
            for rollout in folder.rollouts()
        }


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_rollout_that_costs_its_limit_is_over_and_scored_as_it_stands(sandlot: Shell, workers: str) -> None:
    # An answer is one token, which costs a dollar: the second turn comes to the limit, and is kept.
    done = sandlot("eval", "talk", "-m", "priced", "-r", "1", "--rollout-cost", "1.5", "-w", workers, "--json")
    assert done.code == 0, done.err
    assert endings(done.record) == dict.fromkeys(("talk", "chat"), ("max_cost", "truncated", 2.0))
    assert done.record["runs"][0]["summary"]["stops"] == {"max_cost": 2}


def test_a_rollout_that_uses_its_tokens_is_over_and_scored_as_it_stands(sandlot: Shell) -> None:
    # Prompts of 1, 4 and 7 words and an answer of one each: 2, 7 and 15 tokens.
    Path("eval.toml").write_text("[rollout_limits]\ntokens = 7\n")
    done = sandlot("eval", "@", "eval.toml", "talk", "-m", "unpriced", "-r", "1", "--json")
    assert endings(done.record) == dict.fromkeys(("talk", "chat"), ("max_tokens", "truncated", 2.0))
    done = sandlot("eval", "@", "eval.toml", "talk", "-m", "unpriced", "-r", "1", "--rollout-tokens", "99", "--json")
    assert endings(done.record)["talk"] == ("max_turns_reached", "scored", 6.0)


def test_a_request_that_hangs_ends_at_the_limit_of_its_rollout_alone(sandlot: Shell) -> None:
    options = ["-m", "unpriced", "-r", "1", "--rollout-seconds", "0.5", "--json"]
    done = sandlot("eval", "talk", "--words", "hang talk", *options)
    assert done.code == 0, done.err
    assert endings(done.record) == {
        "hang": ("timeout", "truncated", 0.0),
        "talk": ("max_turns_reached", "scored", 6.0),
    }


def test_a_tool_that_hangs_ends_at_the_limit_of_its_rollout_alone(sandlot: Shell) -> None:
    options = ["-m", "unpriced", "-r", "1", "rollout_limits.seconds=0.5", "--json"]
    done = sandlot("eval", "talk", "--words", "call-block call-wait talk", *options)
    assert done.code == 0, done.err
    assert endings(done.record) == {
        "call-block": ("timeout", "truncated", 1.0),
        "call-wait": ("timeout", "truncated", 1.0),
        "talk": ("no_tools_called", "scored", 1.0),
    }


def test_of_the_environments_limit_and_the_evaluations_the_shorter_one_holds(sandlot: Shell) -> None:
    for theirs, ours in (("0.3", "600"), ("600", "0.3")):
        options = ["-m", "unpriced", "-r", "1", "--timeout", theirs, "--rollout-seconds", ours, "--json"]
        done = sandlot("eval", "talk", "--words", "hang", *options)
        assert endings(done.record) == {"hang": ("timeout", "truncated", 0.0)}


def test_a_run_goes_on_with_other_limits_of_its_own_but_not_with_others_of_its_rollouts(sandlot: Shell) -> None:
    arguments = ["talk", "-m", "priced", "-r", "4", "-c", "1", "--rollout-cost", "2", "--run-cost", "5"]
    done = sandlot("eval", *arguments, "--json")
    assert done.code == 1
    folder = done.record["runs"][0]["folder"]
    assert "stopped at limits.cost of $5: $6.0000 were spent; 3 of 8 rollouts were played" in done.problem["detail"]
    other = sandlot("eval", "--resume", folder, "--rollout-cost", "3")
    assert (other.code, "rollout_limits.cost is 2.0 there and 3.0 here" in other.err) == (1, True), other.err
    resumed = sandlot("eval", "--resume", folder, "--run-cost", "100", "--json")
    assert (resumed.code, resumed.record["runs"][0]["summary"]["rollouts"]) == (0, 8)


def test_a_run_that_hangs_ends_at_its_own_limit_of_time_and_says_how_to_go_on(sandlot: Shell) -> None:
    done = sandlot(
        "eval", "talk", "--words", "hang talk", "-m", "unpriced", "-r", "1", "--run-seconds", "0.5", "--json"
    )
    assert done.code == 1
    assert "stopped at limits.seconds of 0.5; 1 of 2 rollouts were played" in done.problem["detail"]
    assert f"sandlot eval --resume {done.record['runs'][0]['folder']}" in done.problem["hint"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--rollout-cost", "0"], "--rollout-cost"),
        (["--rollout-tokens", "few"], "--rollout-tokens"),
        (["rollout_limits.seconds=-1"], "rollout_limits.seconds: Input should be greater than 0"),
        (["rollout_limits.cost=inf"], "rollout_limits.cost: Input should be a finite number"),
        (["rollout_limits.token=5"], "did you mean 'tokens'?"),
        (["max_tokens=5"], "sampling.max_tokens (-t) is a completion's, rollout_limits.tokens (--rollout-tokens)"),
    ],
)
def test_a_limit_that_makes_no_sense_is_named_before_anything_is_played(
    sandlot: Shell, server: MockServer, words: list[str], says: str
) -> None:
    done = sandlot("eval", "talk", "-m", "unpriced", "-r", "1", *words)
    assert (done.code, says in done.err, len(server.requests)) == (2, True, 0), done.err


def test_a_run_whose_rollouts_tokens_were_limited_under_the_older_name_goes_on(sandlot: Shell) -> None:
    done = sandlot("eval", "talk", "-m", "unpriced", "-r", "1", "-n", "1", "--rollout-tokens", "7", "--json")
    events = Path(done.record["runs"][0]["folder"]) / "events.jsonl"
    now = '"rollout_limits":{"cost":null,"tokens":7,"seconds":null}'
    assert now in events.read_text()
    events.write_text(events.read_text().replace(now, '"max_tokens":7'))
    resumed = sandlot("eval", "--resume", str(events.parent), "-n", "2", "--json")
    assert endings(resumed.record) == dict.fromkeys(("talk", "chat"), ("max_tokens", "truncated", 2.0))
