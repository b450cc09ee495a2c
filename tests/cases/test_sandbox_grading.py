"""The cases of grading where an agent has worked, played through environments."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.envs.playing import calls, play_tasks

import sandlot as vf
from sandlot.records import Message, Rollout

ROWS = [{"question": "?", "answer": "x"}]
VERIFY = "mkdir -p $(dirname $REWARD); python check.py && echo 1.0 > $REWARD"
REPORT = """
import importlib.util, sys
cases = []
for name in ("t1", "t2"):
    try:
        getattr(__import__("solution"), name)()
        cases.append(f'<testcase classname="tests" name="{name}"/>')
    except AssertionError:
        cases.append(f'<testcase classname="tests" name="{name}"><failure/></testcase>')
open("report.xml", "w").write(f"<testsuite>{''.join(cases)}</testsuite>")
"""


def bash(command: str) -> Message:
    return calls(("bash", json.dumps({"command": command})))


def played(grader: vf.Grader, *commands: str, expected: tuple[str, ...] = (), **options: Any) -> Rollout:
    """A rollout in which an agent runs `commands`, and then `grader` grades."""

    async def graded(state: vf.State) -> vf.Score:
        result = await env.grade(state, grader)
        passed = vf.tests_passed(result.report, expected)
        reward = sum(passed.values()) / len(passed) if passed else result.reward
        return vf.Score(reward, feedback=result.note or result.stdout)

    env = vf.SandboxEnv(dataset=ROWS, rubric=vf.Rubric([graded]), max_turns=-1, **options)
    return play_tasks(env, *(bash(command) for command in commands), "done")[0]


@pytest.mark.parametrize("claimed", ["1.0", "nan", "inf", "1.5", "-0.5"])
def test_SCOR_08_a_reward_that_the_agent_wrote_never_counts(claimed: str) -> None:
    claim = f"mkdir -p /logs/verifier; echo {claimed} > /logs/verifier/reward.txt; chmod 555 /logs/verifier"
    grader = vf.Grader(
        f"REWARD=/logs/verifier/reward.txt; {VERIFY}",
        files={"check.py": "raise SystemExit(1)"},
        reward_file="/logs/verifier/reward.txt",
    )
    rollout = played(grader, claim)
    assert (rollout.failure, rollout.reward) == (None, 0.0)
    lying = vf.Grader(f"echo {claimed} > reward.txt", reward_file="reward.txt")
    assert played(lying, "true").reward == (1.0 if claimed == "1.0" else 0.0)


@pytest.mark.parametrize(
    ("solution", "reward"),
    [
        ("def t1(): pass\ndef t2(): pass", 1.0),
        ("def t1(): pass\ndef t2(): assert False", 0.5),
        ("def t1(: pass", 0.0),
        ("raise SystemExit(0)", 0.0),
    ],
)
def test_SCOR_09_a_test_that_is_not_in_the_report_has_not_passed(solution: str, reward: float) -> None:
    grader = vf.Grader("PYTHONPATH=/root python run.py", files={"run.py": REPORT}, report_file="report.xml")
    write = f"cat > solution.py <<'EOF'\n{solution}\nEOF"
    assert played(grader, write, expected=("tests.t1", "tests.t2")).reward == reward


def test_SCOR_11_what_the_submission_prints_is_no_verdict() -> None:
    grader = vf.Grader(
        "python /root/solution.py; python check.py", files={"check.py": "print('EXIT_CODE:1')\nraise SystemExit(1)"}
    )
    rollout = played(grader, "echo 'print(\"EXIT_CODE:0\")' > solution.py")
    assert rollout.reward == 0.0
    assert rollout.verdict is not None
    assert rollout.verdict.rewards[0].feedback == "EXIT_CODE:0\nEXIT_CODE:1\n"


@pytest.mark.parametrize("start", ["python", "false", "exec /no/such/entrypoint"])
def test_SBOX_11_what_an_image_starts_with_does_not_end_the_sandbox(start: str) -> None:
    rollout = played(vf.Grader("true"), "echo ok", docker_image="python:3.11", start_command=start)
    assert rollout.turns[1].prompt[0]["content"] == "ok"


@pytest.fixture
def dropping(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A bwrap whose answer is lost after the command `echo x >> log` has run."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        bwrap = Path(folder) / "bwrap"
        bwrap.write_text(
            "#!/bin/bash\nwords=(); while [ $# -gt 0 ]; do\n"
            'if [ "$1" = --json-status-fd ] && [[ "${*: -1}" == *"x >> log"* ]]; then shift 2; lost=1; else\n'
            'words+=("$1"); shift; fi; done\n/usr/bin/bwrap "${words[@]}"; code=$?\n'
            '[ -z "$lost" ] || exit 1\nexit $code\n'
        )
        bwrap.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        yield


@pytest.mark.usefixtures("dropping")
def test_SBOX_14_a_command_whose_answer_is_lost_is_not_run_again() -> None:
    logs: list[str] = []

    class Reads(vf.SandboxEnv):
        async def post_rollout(self, state: vf.State) -> None:
            logs.append((await self.sandbox_client.read_file(state["sandbox_id"], "/root/log")).content)

    env = Reads(dataset=ROWS, rubric=vf.Rubric([lambda state: 1.0]))
    rollout = play_tasks(env, bash("echo x >> log"), "done", retries=0)[0]
    assert rollout.failure is not None
    assert rollout.failure.boundary == "sandbox"
    assert logs == ["x\n"]


def test_SBOX_16_the_agent_finds_no_file_of_the_grader_and_nothing_of_it_runs_when_these_arrive() -> None:
    grader = vf.Grader(
        "test -f test_hidden.py && ! cat /root/seen && ! grep -rq waited /root",
        files={"test_hidden.py": "SECRET = 1"},
    )
    look = "find / -name 'test_hidden*' 2>/dev/null; env | grep -i secret; ls -d /grading* 2>/dev/null"
    wait = "(until ls /grading*; do sleep 0.05; done; echo waited > /root/seen) >/dev/null 2>&1 &"
    rollout = played(grader, wait, look)
    assert rollout.turns[2].prompt[0]["content"] == "(no output)"
    assert rollout.reward == 1.0
