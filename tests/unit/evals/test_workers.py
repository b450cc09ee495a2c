"""Rollouts in worker processes: whoever is killed, every rollout is on record exactly once."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.unit.evals.fakes import REF, Player, Quiz, Watcher

from sandlot.errors import Failed, Invalid
from sandlot.evals import Crew, EvalConfig, folder_of_eval, plan_eval, run_eval
from sandlot.store import RunFolder

HERE = Path(__file__).parents[3]

WORKER = """
"a worker of the tests"
import asyncio, json, os, random, signal, sys
from sandlot.evals import Broken, send, work
from sandlot.engine import PlayPolicy, seed_of
from sandlot.records import Sampling
from tests.unit.evals.fakes import Player, Quiz

incoming, outgoing = os.dup(0), os.dup(1)
os.dup2(2, 1)
opening = b""
while (byte := os.read(incoming, 1)) != b"\\n":
    opening += byte
told = json.loads(opening)
if told.get("broken"):
    send(outgoing, Broken(message="no such thing", hint="make it"))
    sys.exit(1)
if told.get("stillborn"):
    os._exit(3)

class Fragile(Quiz):
    async def setup(self, state):
        print("an author prints")
        task, index = self.names[state["rng"].random()]
        scar = os.path.join(told["folder"], f"{task}.{index}")
        with open(scar, "a") as file:
            file.write("x")
        if os.path.getsize(scar) <= told["deaths"].get(f"{task}.{index}", 0):
            os.kill(os.getpid(), signal.SIGKILL)
        if told.get("slow"):
            await asyncio.sleep(told["slow"])
        return state

quiz = Fragile(12, grouped=told["grouped"])
quiz.names = {random.Random(seed_of(0, f"t{t}", i)).random(): (f"t{t}", i) for t in range(12) for i in range(2)}
policy = PlayPolicy(max_concurrent=4, retries=0)
asyncio.run(work(quiz, Player(), policy=policy, sampling=Sampling(), pipes=(incoming, outgoing)))
"""


def crew(folder: Path, *, deaths: dict[str, int] | None = None, count: int = 2, retries: int = 2, **more) -> Crew:
    scars = folder / "scars"
    scars.mkdir(exist_ok=True)
    told = {"folder": str(scars), "deaths": deaths or {}, "grouped": False, **more}
    return Crew(
        command=[sys.executable, "-c", WORKER],
        opening=msgspec.json.encode(told),
        count=count,
        max_concurrent=8,
        retries=retries,
        environment="quiz",
        model="player",
    )


def workers_of(pid: int) -> list[str]:
    """The processes that `pid` started and that are still there."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    commands = [Path(f"/proc/{child}/cmdline").read_text() for child in children]
    return [child for child, command in zip(children, commands, strict=True) if "worker" in command]


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE))


def planned(folder: Path, *, tasks: int = 6, grouped: bool = False, **settings):
    config = EvalConfig(**{"rollouts_per_task": 2, "output": folder, **settings})
    return plan_eval(config, playable=Quiz(tasks, grouped=grouped), model=Player(), ref=REF)


async def test_a_run_in_workers_has_the_rollouts_of_one_without(tmp_path: Path) -> None:
    watcher = Watcher()
    with folder_of_eval(plan := planned(tmp_path)) as folder:
        run = await run_eval(plan, folder=folder, progress=watcher, crew=crew(tmp_path))
        names = sorted((row.task_id, row.index) for row in folder.index())
        assert folder.attempts() == []
    assert names == [(f"t{task}", index) for task in range(6) for index in range(2)]
    assert (run.status, run.summary["reward"], len(watcher.rollouts)) == ("done", 1.0, 12)


async def test_what_a_killed_worker_had_is_played_by_another_and_the_try_is_on_record(tmp_path: Path) -> None:
    with folder_of_eval(plan := planned(tmp_path)) as folder:
        run = await run_eval(plan, folder=folder, crew=crew(tmp_path, deaths={"t1.0": 1}))
        rollouts = {(each.task.id, each.index): each for each in folder.rollouts()}
        attempts = folder.attempts()
    assert len(rollouts) == 12
    assert run.summary["counts"]["scored"] == 12
    assert rollouts["t1", 0].attempt == 2
    tried = [event for event in attempts if (event.task, event.index) == ("t1", 0)]
    assert [(event.attempt, event.failure.type) for event in tried] == [(1, "WorkerDied")]
    assert "was killed by SIGKILL" in tried[0].failure.message


async def test_a_rollout_that_kills_every_worker_is_given_up_and_takes_no_other_with_it(tmp_path: Path) -> None:
    with folder_of_eval(plan := planned(tmp_path)) as folder:
        run = await run_eval(plan, folder=folder, crew=crew(tmp_path, deaths={"t2.1": 99}))
        statuses = {(row.task_id, row.index): row.status for row in folder.index()}
        failures = [each.failure for each in folder.rollouts() if each.failure is not None]
    assert run.status == "done"
    assert len(statuses) == 12
    # Its sibling is of the same task, which is played as one; all others are fine.
    assert {name for name, status in statuses.items() if status == "errored"} <= {("t2", 0), ("t2", 1)}
    assert statuses["t2", 1] == "errored"
    assert {failure.boundary for failure in failures} == {"infrastructure"}


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(
    deaths=st.dictionaries(
        st.tuples(st.integers(0, 5), st.integers(0, 1)).map(lambda pair: f"t{pair[0]}.{pair[1]}"),
        st.integers(1, 3),
        max_size=3,
    ),
    grouped=st.booleans(),
    count=st.integers(1, 3),
)
def test_however_workers_die_every_rollout_is_accounted_for_exactly_once(tmp_path_factory, deaths, grouped, count):
    root = tmp_path_factory.mktemp("runs")
    watcher = Watcher()
    with folder_of_eval(plan := planned(root, grouped=grouped)) as folder:
        run = asyncio.run(
            run_eval(
                plan,
                folder=folder,
                progress=watcher,
                crew=crew(root, deaths=deaths, count=count, grouped=grouped),
            )
        )
        names = sorted((row.task_id, row.index) for row in folder.index())
    everything = [(f"t{task}", index) for task in range(6) for index in range(2)]
    assert names == sorted((each.task.id, each.index) for each in watcher.rollouts) == everything
    assert sum(run.summary["counts"].values()) == 12
    assert run.summary["counts"]["missing"] == 0


async def test_cancelling_ends_the_workers_and_resuming_plays_the_rest(tmp_path: Path) -> None:
    watcher = Watcher()
    watcher.number = 2
    with folder_of_eval(plan := planned(tmp_path, tasks=12)) as folder:
        running = asyncio.ensure_future(
            run_eval(plan, folder=folder, progress=watcher, crew=crew(tmp_path, slow=0.1, count=1))
        )
        await asyncio.wait_for(watcher.enough.wait(), 30)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert folder.run.status == "interrupted"
        assert 2 <= len(folder.index()) < 24
    assert not workers_of(os.getpid())
    with RunFolder.resume(folder.path) as again:
        run = await run_eval(planned(tmp_path, tasks=12), folder=again, crew=crew(tmp_path))
        names = [(row.task_id, row.index) for row in again.index()]
    assert run.status == "done"
    assert len(names) == len(set(names)) == 24


async def test_a_worker_that_cannot_play_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="a worker cannot play: no such thing"):
        await run_eval(planned(tmp_path), crew=crew(tmp_path, broken=True))
    with pytest.raises(Failed, match="ended with exit code 3 before it could play"):
        await run_eval(planned(tmp_path), crew=crew(tmp_path, stillborn=True))


async def test_a_limit_stops_workers_as_it_stops_one_process(tmp_path: Path) -> None:
    with folder_of_eval(plan := planned(tmp_path, tasks=12, limits={"cost": 1.0})) as folder:
        run = await run_eval(plan, folder=folder, crew=crew(tmp_path, slow=0.05, count=1))
    assert run.status == "interrupted"
    assert 4 <= run.summary["rollouts"] < 24
