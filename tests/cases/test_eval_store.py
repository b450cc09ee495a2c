"""The eval-store cases: what is saved, what is resumed, and which numbers come out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st
from tests.unit.evals.fakes import REF, Player, Quiz

from sandlot.evals import EvalConfig, folder_of_eval, plan_eval, run_eval, summarise, task_scores
from sandlot.records import Rollout, RolloutEvent, Run, RunEvent, Task, Turn, Verdict, encode_event
from sandlot.stats import mean_interval, pass_at_k, standard_error
from sandlot.store import EVENTS, RunFolder, remove_leftovers, write_atomic


def planned(root: Path, model: Player, **settings):
    settings = {"rollouts_per_task": 2, "retries": 0, "output": root, **settings}
    return plan_eval(EvalConfig(**settings), playable=Quiz(4), model=model, ref=REF)


def rollout(
    id: str, *, task: str = "t", index: int = 0, reward: float = 1.0, text: str = "", member: str = ""
) -> Rollout:
    turn = Turn(prompt=[], completion={"role": "assistant", "content": text})
    return Rollout(
        id=id,
        task=Task(id=task, environment=member),
        index=index,
        environment="e",
        model="m",
        turns=[turn],
        stop="done",
        verdict=Verdict(reward=reward),
    )


BREAKS = ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r", "\n", "\r\n", "\x00"]


@pytest.mark.parametrize("mark", BREAKS)
def test_EVAL_01_characters_that_other_readers_take_for_line_ends_are_text(tmp_path, mark):
    with RunFolder.create(tmp_path / "run", Run(id="r", kind="eval", name="n")) as folder:
        folder.append(RolloutEvent(rollout=rollout("a", text=f"x{mark}y", task=f"t{mark}")))
        folder.append(RolloutEvent(rollout=rollout("b", index=1)))
    for _ in range(2):
        with RunFolder.resume(tmp_path / "run") as folder:
            first, second = folder.rollouts()
            assert (first.turns[0].completion["content"], first.task.id) == (f"x{mark}y", f"t{mark}")
            assert second.id == "b"
            assert folder.problems() == []


@given(text=st.text())
def test_EVAL_01_any_text_at_all_stays_on_one_line(text):
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert b"\n" not in encode_event(RolloutEvent(rollout=rollout("a", text=text)))


async def test_EVAL_02_half_a_line_is_never_appended_to(tmp_path):
    plan = planned(tmp_path, Player())
    with folder_of_eval(plan) as folder:
        for number in range(5):
            task, index = divmod(number, 2)
            folder.append(RolloutEvent(rollout=_of_quiz(f"t{task}", index)))
    path = folder.path / EVENTS
    good = path.read_bytes()
    path.write_bytes(good + b'{"id": 6, "rew')
    with RunFolder.resume(folder.path) as again:  # Resumed, and it crashes after two more, in the middle of a third.
        again.append(RolloutEvent(rollout=_of_quiz("t2", 1)))
        again.append(RolloutEvent(rollout=_of_quiz("t3", 0)))
    path.write_bytes(path.read_bytes() + encode_event(RolloutEvent(rollout=_of_quiz("t3", 1)))[:40])
    model = Player()
    with RunFolder.resume(folder.path) as again:
        await run_eval(planned(tmp_path, model), folder=again)
        names = [(row.task_id, row.index) for row in again.index()]
    assert dict(model.plays) == {("t3", 1): 1}
    assert path.read_bytes().startswith(good)
    assert [json.loads(line)["schema"] for line in path.read_bytes().split(b"\n")[:-1]]
    assert sorted(names) == [(f"t{task}", index) for task in range(4) for index in range(2)]


def _of_quiz(task: str, index: int) -> Rollout:
    return Rollout(
        id=f"{task}.{index}",
        task=Task(id=task),
        index=index,
        environment="quiz",
        model="player",
        stop="answered",
        verdict=Verdict(reward=1.0),
    )


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.unit.evals.fakes import REF, Player, Quiz
from sandlot.evals import EvalConfig, folder_of_eval, plan_eval, run_eval

class Killer:
    seen = 0
    def started(self, total, done_already): pass
    def rollout(self, rollout):
        self.seen += 1
        if self.seen == 7:
            os.kill(os.getpid(), signal.SIGKILL)
    def finished(self, summary): pass

model = Player({("t0", 1): ["error"], ("t2", 0): ["error"]})
model.hang = {("t3", 1)}
config = EvalConfig(rollouts_per_task=2, retries=0, output=Path(sys.argv[1]))
plan = plan_eval(config, playable=Quiz(4), model=model, ref=REF)
with folder_of_eval(plan) as folder:
    asyncio.run(run_eval(plan, folder=folder, progress=Killer()))
"""


def killed_run(root: Path) -> int:
    here = Path(__file__).parents[2]
    command = [sys.executable, "-c", KILLED, str(root)]
    return subprocess.run(command, cwd=here, env={**os.environ, "PYTHONPATH": str(here)}, check=False).returncode


async def test_EVAL_04_after_a_kill_what_failed_and_what_is_missing_is_played_and_the_rest_is_kept(tmp_path):
    assert killed_run(tmp_path) == -signal.SIGKILL
    (path,) = (tmp_path / "evals").iterdir()
    before = (path / EVENTS).read_bytes()
    model = Player()
    with RunFolder.resume(path) as folder:
        fine = {row.id: folder.line_at(row) for row in folder.index() if row.status == "scored"}
        assert len(fine) == 5
        run = await run_eval(planned(tmp_path, model), folder=folder)
        after = {row.id: folder.line_at(row) for row in folder.index()}
        attempts = [(event.task, event.index, event.failure.message) for event in folder.attempts()]
    assert sorted(model.plays) == [("t0", 1), ("t2", 0), ("t3", 1)]
    assert sum(model.plays.values()) == 3
    assert {id: after[id] for id in fine} == fine
    assert (path / EVENTS).read_bytes().startswith(before)
    assert sorted(attempts) == [("t0", 1, "503"), ("t2", 0, "503")]
    assert (run.status, run.summary["counts"]["scored"]) == ("done", 8)


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [(4, 1, 1, 0.25), (4, 1, 2, 0.5), (4, 1, 4, 1.0), (5, 2, 3, 0.9), (200, 1, 1, 0.005), (2, 0, 5, None)],
)
def test_EVAL_05_pass_at_k_is_unbiased_and_not_reported_where_k_is_above_n(n, c, k, expected):
    assert pass_at_k(n, c, k) == (None if expected is None else pytest.approx(expected, abs=1e-15))
    rollouts = [rollout(str(index), index=index, reward=float(index < c)) for index in range(n)]
    rates = {rate.k: rate.at for rate in summarise(rollouts).pass_rates}
    assert rates.get(k, pass_at_k(n, c, k)) == (None if expected is None else pytest.approx(expected, abs=1e-15))
    assert all(rate <= n for rate in rates)


def test_EVAL_05_a_reward_above_nought_is_not_yet_a_pass():
    assert summarise([rollout("a", reward=0.1)]).pass_rates[0].at == 0.0


@pytest.mark.parametrize("ids", [("0", "0"), ("0", "1")])
def test_EVAL_07_problems_of_different_environments_are_different_problems(tmp_path, ids):
    rollouts = [
        rollout(f"{member}{index}", task=task, index=index, reward=reward, member=member)
        for (member, reward), task in zip([("math", 1.0), ("code", 0.0)], ids, strict=True)
        for index in range(2)
    ]
    with RunFolder.create(tmp_path, Run(id="r", kind="eval", name="both", expected=4)) as folder:
        for one in rollouts:
            folder.append(RolloutEvent(rollout=one))
        assert len(folder.index()) == 4
        summary = summarise(folder.rollouts(), expected=4)
        scores = task_scores(folder.rollouts())
    assert (summary.tasks, summary.solved_all, summary.counts["missing"]) == (2, 0.5, 0)
    assert [score.mean for score in scores] == [1.0, 0.0]


async def test_EVAL_07_a_group_of_environments_is_resumed_task_by_task_of_each(tmp_path):
    quiz = Quiz([Task(id="t0", environment="math"), Task(id="t0", environment="code")])
    config = EvalConfig(output=tmp_path, rollouts_per_task=2)
    plan = plan_eval(config, playable=quiz, model=Player(), ref=REF)
    with folder_of_eval(plan) as folder:
        run = await run_eval(plan, folder=folder)
        lines = (folder.path / EVENTS).read_bytes().split(b"\n")[:-1]
    assert (run.summary["tasks"], run.summary["rollouts"]) == (2, 4)
    kept = [line for line in lines if not (b'"environment":"code"' in line and b'"index":1' in line)]
    assert len(kept) == len(lines) - 1
    (folder.path / EVENTS).write_bytes(b"\n".join(kept) + b"\n")
    model = Player()
    plan = plan_eval(config, playable=quiz, model=model, ref=REF)
    with RunFolder.resume(folder.path) as folder:
        run = await run_eval(plan, folder=folder)
    assert (sum(model.plays.values()), run.summary["rollouts"]) == (1, 4)


REWRITES = """
import sys
from pathlib import Path
from sandlot.store import write_atomic
number = 0
while True:
    number += 1
    write_atomic(Path(sys.argv[1]), (b'{"v": ' + b"%d" % (number % 10) * 2_000_000 + b"}"))
    print(number, flush=True)
"""


def test_EVAL_10_a_killed_save_leaves_the_old_file_or_the_new_one(tmp_path):
    path = tmp_path / "state.json"
    write_atomic(path, b'{"v": 1}')
    for wanted in (2, 3, 5):
        process = subprocess.Popen([sys.executable, "-c", REWRITES, str(path)], stdout=subprocess.PIPE)
        for _ in range(wanted):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        process.stdout.close()
        content = path.read_bytes()
        assert content.startswith(b'{"v": ')
        assert content.endswith(b"}")
        assert len(set(content[6:-1])) == 1
    remove_leftovers(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


async def test_EVAL_12_the_saved_run_names_everything_that_made_its_scores(tmp_path):
    config = EvalConfig(output=tmp_path, seed=3, sampling={"temperature": 0.7}, num_tasks=2)
    ref = type(REF)(id="quiz", name="quiz", version="0.1.0", digest="sha256:11", commit="9c1d", dirty=False)
    plan = plan_eval(config, playable=Quiz(), model=Player(seed=3), ref=ref)
    with folder_of_eval(plan) as folder:
        await run_eval(plan, folder=folder)
    saved = json.loads((folder.path / EVENTS).read_bytes().split(b"\n")[-2])["run"]
    (environment,) = saved["environments"]
    assert {"id", "name", "version", "digest", "commit", "dirty", "tasks"} <= set(environment)
    assert environment["dirty"] is False
    assert saved["model"] == "player"
    assert saved["config"]["sampling"]["temperature"] == 0.7
    assert saved["seed"] == 3
    assert saved["sdk"]
    assert saved["started"] <= saved["ended"]


@pytest.mark.parametrize(("scores", "expected"), [([1, 0, 1, 1], 0.25), ([1], None), ([], None)])
def test_EVAL_13_the_standard_error_of_too_little_is_not_a_number_nobody_can_read(scores, expected):
    assert standard_error(scores) == expected
    rollouts = [rollout(str(i), task=str(i), reward=float(score)) for i, score in enumerate(scores)]
    figures = summarise(rollouts, expected=4)
    interval = mean_interval([[score] for score in scores])
    assert (None if interval is None else interval.stderr) == expected
    assert (None if figures.interval is None else figures.interval.stderr) == expected
    run = Run(
        id="r", kind="eval", name="n", summary=json.loads(json.dumps(msgspec.to_builtins(figures), allow_nan=False))
    )
    assert b"NaN" not in encode_event(RunEvent(run=run))
    assert run.summary["counts"]["missing"] == 4 - len(scores)


def test_EVAL_15_a_record_has_the_same_id_whatever_the_seed():
    import sandlot as vf

    rows = [{"question": f"What is {number}?", "answer": str(number)} for number in range(30)]
    env = vf.SingleTurnEnv(dataset=rows, rubric=vf.Rubric(funcs=[lambda completion, **kwargs: 1.0]))

    def chosen(seed):
        config = EvalConfig(shuffle=True, seed=seed, num_tasks=10)
        tasks = plan_eval(config, playable=env.playable, model=Player(), ref=REF).tasks
        return {task.answer: task.id for task in tasks}

    first, second = chosen(1), chosen(2)
    assert list(first) != list(second)
    common = first.keys() & second.keys()
    assert common
    assert all(first[answer] == second[answer] for answer in common)
