"""An environment with a sandbox as a newcomer plays it: validated, evaluated, and without bubblewrap."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.shell import write_package
from tests.unit.cli.conftest import Shell

from sandlot.testing import MockServer

MODULE = '''
import verifiers as vf


def load_environment(**kwargs):
    async def sum_is_right(state, answer):
        """Whether total.txt in the sandbox holds the sum."""
        done = await env.grade(state, vf.Grader("test $(cat /root/total.txt) = $WANTED".replace("$WANTED", answer)))
        return done.reward

    class Sums(vf.SandboxEnv):
        async def oracle(self, task):
            call = {"id": "1", "type": "function", "function": {
                "name": "bash", "arguments": '{"command": "echo %s > total.txt"}' % task.answer}}
            return [{"role": "assistant", "content": None, "tool_calls": [call]}, "It is in total.txt."]

    rows = [{"question": f"Write {n} + {n} into total.txt", "answer": str(2 * n)} for n in range(1, 4)]
    env = Sums(dataset=rows, rubric=vf.Rubric([sum_is_right]), **kwargs)
    return env
'''


@pytest.fixture(autouse=True)
def package(home: Path) -> Iterator[None]:
    sys.modules.pop("sums", None)
    with MockServer(lambda messages: "done") as server:
        Path("endpoints.toml").write_text(f'[[endpoint]]\nid = "m"\nmodel = "m"\nurl = "{server.url}"\n')
        write_package(Path("environments/sums"), "sums", MODULE)
        yield
    sys.modules.pop("sums", None)


@pytest.fixture
def without_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as empty:
        monkeypatch.setenv("PATH", empty)
        yield


def test_it_is_validated_and_evaluated(sandlot: Shell) -> None:
    validated = sandlot("env", "validate", "sums", "--json")
    assert validated.code == 0, validated.err
    assert [(each["agent"], each["full"]) for each in validated.record["agents"]] == [
        ("oracle", 3),
        ("nothing", 0),
        ("echo", 0),
    ]
    evaluated = sandlot("eval", "sums", "-m", "m", "-n", "2", "-r", "1", "--json")
    assert evaluated.code == 0, evaluated.err
    counts = evaluated.record["runs"][0]["summary"]["counts"]
    assert (counts["scored"], counts["errored"]) == (2, 0)


@pytest.mark.usefixtures("without_bubblewrap")
def test_without_bubblewrap_nothing_is_run_and_it_says_what_to_install(sandlot: Shell) -> None:
    for command in (("eval", "sums", "-m", "m", "-n", "2", "-r", "1"), ("env", "validate", "sums")):
        outcome = sandlot(*command)
        assert outcome.code == 1
        assert "the sandbox backend bubblewrap needs bwrap, which is not here" in outcome.err + outcome.out
        assert "apt install bubblewrap" in outcome.err + outcome.out
