"""Ten thousand rollouts under faults of every kind."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

from tests.unit.evals.fakes import REF, Quiz, Watcher

from sandlot.errors import ModelError
from sandlot.evals import EvalConfig, folder_of_eval, plan_eval, run_eval
from sandlot.models import Completion, Model
from sandlot.records import AssistantMessage


class Flaky(Model):
    """Fails one way or another in a third of its calls."""

    name = "flaky"

    def __init__(self) -> None:
        self._rng = Random(0)

    async def generate(self, messages, **_) -> Completion:
        await asyncio.sleep(0)
        drawn = self._rng.random()
        if drawn < 0.2:
            raise ModelError("503")
        if drawn < 0.25:
            raise TypeError("what an author never thought of")
        said = "ungraded" if drawn < 0.3 else "no number" if drawn < 0.33 else str(float(drawn < 0.6))
        return Completion(message=AssistantMessage(content=said), finish="length" if drawn > 0.95 else "stop")


async def test_ten_thousand_rollouts_under_random_faults_are_each_accounted_for_exactly_once(tmp_path) -> None:
    watcher = Watcher()
    config = EvalConfig(rollouts_per_task=4, output=tmp_path, max_concurrent=1000, retries=1)
    plan = plan_eval(config, playable=Quiz(2500), model=Flaky(), ref=REF)
    with folder_of_eval(plan) as folder:
        run = await run_eval(plan, folder=folder, progress=watcher)
        rows = folder.index()
    assert {(row.task_id, row.index) for row in rows} == {(f"t{t}", i) for t in range(2500) for i in range(4)}
    assert len(rows) == len(watcher.rollouts) == 10_000
    counts = run.summary["counts"]
    assert counts == {**dict.fromkeys(counts, 0), **Counter(row.status for row in rows)}
    assert all(counts[status] > 100 for status in ("scored", "truncated", "unscored", "errored"))
    assert run.summary["scored"] == counts["scored"] + counts["truncated"]
