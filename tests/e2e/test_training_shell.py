"""`sandlot rl` as a user meets it when something ends it early, on a model of a few thousand weights."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.e2e.shell import Shell, new_shell, until, write_package
from tests.tiny import make_tiny_model

DIGITS = """
import sandlot as sl

print("what an author prints is no result")

def share(completion):
    said = str(completion[-1]["content"] or "")
    return sum(letter.isdigit() for letter in said) / max(1, len(said))

def broken(completion):
    raise LookupError("no dictionary")

def load_environment(works: bool = True):
    rows = [{"question": str(number)} for number in range(40)]
    return sl.SingleTurnEnv(dataset=rows, rubric=sl.Rubric(funcs=[share if works else broken]))
"""

CONFIG = """
model = "./tiny"
steps = 1000
group_size = 4
tasks_per_step = 2
[sampling]
max_tokens = 6
[env]
id = "digits"
[checkpoint]
interval = 1
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = new_shell(tmp_path / "shell", OMP_NUM_THREADS="1")
    (made.folder / "tiny").mkdir()
    make_tiny_model(made.folder / "tiny")
    write_package(made.folder / "environments" / "digits", "digits", DIGITS)
    (made.folder / "config.toml").write_text(CONFIG)
    return made


@pytest.mark.parametrize(("blow", "status"), [(signal.SIGKILL, "interrupted"), (signal.SIGINT, "interrupted")])
def test_a_training_that_was_ended_says_how_to_go_on_and_does(shell: Shell, blow: signal.Signals, status: str) -> None:
    with shell.started("rl", "@", "config.toml", "--folder", "run") as process:
        until(lambda: (shell.folder / "run/checkpoints/step_2/manifest.json").exists(), seconds=90)
        process.send_signal(blow)
        _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    assert process.returncode == (130 if blow == signal.SIGINT else -signal.SIGKILL)
    shown = shell("run", "show", "run").ok()
    done = int(shown.out.partition(" after ")[2].split()[0])
    assert done >= 2
    assert shown.out.startswith(f"digits · ./tiny · {status} after {done} steps")
    assert "next: sandlot rl --resume run\n" in shown.err
    assert shell("run", "show", "run", "--json").ok().record["status"] == status
    resumed = shell("rl", "--resume", "run", "--steps", str(done + 2), "--json").ok().record
    assert (resumed["status"], resumed["summary"]["steps"]) == ("done", done + 2)
    figures = shell("run", "show", "run", "--json").ok().record["metrics"]
    trained = [each["step"] for each in figures if "loss" in each]
    assert sorted(set(trained)) == list(range(1, done + 3))


def test_a_reward_that_always_raises_ends_the_training_with_the_authors_own_error(shell: Shell) -> None:
    ended = shell("rl", "@", "config.toml", "--folder", "run", 'env.args={"works" = false}')
    assert ended.code == 1
    assert "Traceback" not in ended.err
    assert "step 1 found nothing to learn from" in ended.err
    assert "LookupError" in ended.err
    assert "no dictionary" in ended.err
    assert shell("run", "show", "run").ok().out.startswith("digits · ./tiny · failed after 0 steps")
