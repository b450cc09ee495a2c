"""The trainer-ops case about worker processes, where they play evaluations."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.e2e.shell import new_shell, until, write_package

from sandlot.store import RunFolder
from sandlot.testing import MockServer

SLOW = """
import pathlib
import asyncio
import os
import sandlot as sl

class Slow(sl.SingleTurnEnv):
    async def setup_state(self, state):
        print("an author prints on stdout")
        with pathlib.Path("playing").open("a") as file:
            file.write(f"{os.getpid()}\\n")
        await asyncio.sleep(0.5)

def right(completion, answer):
    return float(completion[-1]["content"] == answer)

def load_environment():
    rows = [{"question": f"say {n}", "answer": "ok"} for n in range(12)]
    return Slow(dataset=rows, rubric=sl.Rubric(funcs=[right]))
"""


def pids(folder: Path) -> list[int]:
    file = folder / "playing"
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_OPS_08_a_killed_worker_is_named_and_replaced_and_every_rollout_is_there_once(tmp_path: Path) -> None:
    shell = new_shell(tmp_path)
    write_package(shell.folder / "environments/slow", "slow", SLOW)
    with MockServer("ok") as server:
        arguments = ["slow", "-m", "mock", "-b", server.url, "-n", "12", "-r", "1", "--workers", "2", "-c", "10"]
        with shell.started("eval", *arguments, "--json") as process:
            until(lambda: len(pids(shell.folder)) >= 5)
            victim = pids(shell.folder)[0]
            begin = time.monotonic()
            os.kill(victim, signal.SIGKILL)
            out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert time.monotonic() - begin < 30
    (folder,) = (shell.folder / "outputs/evals").iterdir()
    with RunFolder.open(folder) as opened:
        names = [(row.task_id, row.index) for row in opened.index()]
        assert {row.status for row in opened.index()} == {"scored"}
        attempts = opened.attempts()
    assert len(names) == len(set(names)) == 12
    assert attempts
    assert {event.failure.message for event in attempts} == {f"its worker (process {victim}) was killed by SIGKILL"}
    assert len(set(pids(shell.folder))) == 3
    assert "an author prints" not in out


def test_OPS_08_workers_end_with_the_process_that_they_play_for(tmp_path: Path) -> None:
    shell = new_shell(tmp_path)
    write_package(shell.folder / "environments/slow", "slow", SLOW)
    with MockServer("ok", latency=30) as server:
        arguments = ["slow", "-m", "mock", "-b", server.url, "-n", "12", "-r", "1", "--workers", "2"]
        with shell.started("eval", *arguments) as process:
            until(lambda: len(set(pids(shell.folder))) == 2)
            process.send_signal(signal.SIGKILL)
            process.wait(10)
            until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in set(pids(shell.folder))))


def test_a_worker_that_cannot_load_the_environment_says_why(tmp_path: Path) -> None:
    shell = new_shell(tmp_path)
    text = SLOW.replace("def load_environment():", "def load_environment():\n    refuse_in_workers()")
    text += '\ndef refuse_in_workers():\n    import sys\n    if "eval_worker" in sys.argv[0]:\n        1 / 0\n'
    write_package(shell.folder / "environments/slow", "slow", text)
    done = shell("eval", "slow", "-m", "mock", "-b", "http://127.0.0.1:9/v1", "-n", "2", "--workers", "1")
    assert done.code == 2
    assert "a worker cannot play: load_environment of slow raised ZeroDivisionError" in done.err
