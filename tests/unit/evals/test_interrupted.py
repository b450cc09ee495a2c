"""Ctrl-C on a real process: what is finished is saved, and the run can go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.unit.evals.fakes import REF, Player, Quiz

from sandlot.evals import EvalConfig, plan_eval, run_eval
from sandlot.store import RunFolder, list_runs

HERE = Path(__file__).parents[3]

HANGS = """
import asyncio, sys
from pathlib import Path
from tests.unit.evals.fakes import REF, Player, Quiz
from sandlot.evals import EvalConfig, folder_of_eval, plan_eval, run_eval

class Teller:
    seen = 0
    def started(self, total, done_already): pass
    def rollout(self, rollout):
        self.seen += 1
        if self.seen == 7:
            print("seven", flush=True)
    def finished(self, summary): pass

model = Player()
model.hang = {("t3", 1)}
plan = plan_eval(EvalConfig(rollouts_per_task=2, output=Path(sys.argv[1])), playable=Quiz(4), model=model, ref=REF)
with folder_of_eval(plan) as folder:
    try:
        asyncio.run(run_eval(plan, folder=folder, progress=Teller()))
    except KeyboardInterrupt:
        sys.exit(130)
"""


def interrupted(root: Path) -> int:
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    command = [sys.executable, "-c", HANGS, str(root)]
    with subprocess.Popen(command, cwd=HERE, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"seven\n"
        process.send_signal(signal.SIGINT)
        return process.wait(10)


async def test_ctrl_c_saves_what_is_finished_and_the_run_goes_on_from_there(tmp_path):
    assert interrupted(tmp_path) == 130
    (entry,) = list_runs(tmp_path)
    assert (entry.live, entry.run.status, entry.run.summary["counts"]["missing"]) == (False, "interrupted", 1)
    model = Player()
    config = EvalConfig(rollouts_per_task=2, output=tmp_path)
    with RunFolder.resume(entry.path) as folder:
        run = await run_eval(plan_eval(config, playable=Quiz(4), model=model, ref=REF), folder=folder)
    assert dict(model.plays) == {("t3", 1): 1}
    assert (run.status, run.summary["counts"]["scored"]) == ("done", 8)
