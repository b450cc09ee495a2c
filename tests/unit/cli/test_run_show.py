"""`sandlot run show` and `list`: what is said of rollouts that failed, and where there is nothing to show."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.cli.conftest import Shell

from sandlot.testing import MockServer

SICK = """
import sandlot as sl

class Sick(sl.MultiTurnEnv):
    async def env_response(self, messages, state):
        return {}["no such key"]

def load_environment():
    return Sick(dataset=[{"question": "hi"}], max_turns=2, rubric=sl.Rubric([lambda completion: 1.0]))
"""


@pytest.fixture
def folder(sandlot: Shell) -> str:
    """A saved run of one rollout, in which the environment raised."""
    Path("sick.py").write_text(SICK)
    with MockServer("hello") as server:
        assert sandlot("eval", "./sick.py", "-m", "any", "-b", server.url, "-n", "1", "-r", "1").code == 1
    return str(next(Path("outputs/evals").iterdir()))


def test_a_rollout_that_failed_shows_the_line_that_raised(sandlot: Shell, folder: str) -> None:
    row = sandlot("run", "show", folder, "--rollouts", "--json").record[0]
    shown = sandlot("run", "show", folder, "--rollout", row["id"]).out
    assert "environment: KeyError: 'no such key'" in shown
    assert 'sick.py", line 6, in env_response' in shown


def test_a_status_that_no_rollout_has_says_so(sandlot: Shell, folder: str) -> None:
    done = sandlot("run", "show", folder, "--status", "scored")
    assert (done.code, done.out) == (0, "")
    assert "this run has no scored rollouts" in done.err
    wrong = sandlot("run", "show", folder, "--status", "scord")
    assert wrong.code == 2
    assert "'scord' is not one of 'scored', 'truncated'" in wrong.err


def test_no_runs_of_a_kind_is_not_said_to_be_no_runs(sandlot: Shell, folder: str) -> None:
    assert "there are no runs of kind train below outputs" in sandlot("run", "list", "--kind", "train").err
