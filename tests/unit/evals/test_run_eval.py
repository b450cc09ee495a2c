"""A run: what is missing is played, what is there stays, and all of it is accounted for once."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal

import pytest
from hypothesis import given, settings, strategies as st
from tests.unit.evals.fakes import REF, Player, Quiz, Watcher

from sandlot.errors import Conflict, Failed
from sandlot.evals import EvalConfig, folder_of_eval, plan_eval, run_eval
from sandlot.records import EnvironmentRef, RunEvent
from sandlot.store import EVENTS, RunFolder


def planned(tmp_path, quiz=None, model=None, ref=REF, **settings):
    settings = {"rollouts_per_task": 2, "retries": 0, "scoring_retries": 0, "output": tmp_path, **settings}
    return plan_eval(EvalConfig(**settings), playable=quiz or Quiz(), model=model or Player(), ref=ref)


def lines_of(path) -> list[bytes]:
    return (path / EVENTS).read_bytes().split(b"\n")[:-1]


async def test_every_rollout_is_played_saved_and_summed_up(tmp_path):
    watcher, model = Watcher(), Player({("t1", 0): [0.0], ("t2", 1): ["error"]})
    plan = planned(tmp_path, model=model)
    with folder_of_eval(plan) as folder:
        run = await run_eval(plan, folder=folder, progress=watcher)
        rows = {(row.task_id, row.index): row.status for row in folder.index()}
    assert len(rows) == 6
    assert rows["t2", 1] == "errored"
    assert (run.status, run.expected) == ("done", 6)
    assert (watcher.total, watcher.done_already, len(watcher.rollouts)) == (6, 0, 6)
    assert watcher.summary.reward == pytest.approx(4 / 5)
    assert run.summary["counts"]["errored"] == 1
    with RunFolder.open(folder.path) as again:
        assert again.run == run
    assert folder.path.parent == tmp_path / "evals"
    assert folder.path.name.startswith("quiz--player--")


async def test_without_a_folder_the_watcher_sees_everything_and_nothing_is_saved(tmp_path):
    watcher, plan = Watcher(), planned(tmp_path)
    run = await run_eval(plan, progress=watcher)
    assert len(watcher.rollouts) == 6
    assert run.summary["reward"] == 1.0
    assert list(tmp_path.iterdir()) == []


async def test_a_run_of_no_tasks_is_a_run_of_no_tasks(tmp_path):
    watcher, model = Watcher(), Player()
    run = await run_eval(planned(tmp_path, model=model, num_tasks=0), progress=watcher)
    assert (run.expected, run.status, dict(model.plays)) == (0, "done", {})
    assert (watcher.summary.reward, watcher.summary.counts["missing"]) == (None, 0)


async def test_resume_after_the_tasks_have_grown_plays_only_the_new_ones(tmp_path):
    first = planned(tmp_path, num_tasks=1)
    with folder_of_eval(first) as folder:
        await run_eval(first, folder=folder)
    before = lines_of(folder.path)
    model, watcher = Player(), Watcher()
    with RunFolder.resume(folder.path) as folder:
        run = await run_eval(planned(tmp_path, model=model, num_tasks=3), folder=folder, progress=watcher)
    assert sorted(model.plays) == [("t1", 0), ("t1", 1), ("t2", 0), ("t2", 1)]
    assert (watcher.total, watcher.done_already) == (6, 2)
    assert (run.id, run.expected, run.summary["rollouts"]) == (first.run.id, 6, 6)
    assert lines_of(folder.path)[: len(before)] == before


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"rollouts_per_task": 3}, "rollouts_per_task is 2 there and 3 here"),
        ({"seed": 5}, "seed is 0 there and 5 here"),
        ({"shuffle": True}, "shuffle is False there and True here"),
        ({"sampling": {"temperature": 0.5}}, "sampling.temperature is not set there and 0.5 here"),
        ({"sampling": {"extra": {"a": 1}}}, r"sampling.extra.a is not set there and 1 here"),
        ({"split": "train"}, "split is 'eval' there and 'train' here"),
        ({"on_scoring_error": "zero"}, "on_scoring_error is 'none' there and 'zero' here"),
        ({"num_tasks": 1}, "num_tasks gives 3 tasks there and 1 here, and may only grow"),
        ({"quiz": Quiz(4), "num_tasks": 3}, None),
        ({"max_concurrent": 1, "retries": 4, "pass_threshold": 0.9}, None),
        ({"quiz": Quiz(2)}, "num_tasks gives 3 tasks there and 2 here"),
    ],
)
async def test_resume_refuses_other_settings_by_name_and_only_those_that_matter(tmp_path, changes, named):
    first = planned(tmp_path)
    with folder_of_eval(first) as folder:
        await run_eval(first, folder=folder)
    before = lines_of(folder.path)
    with RunFolder.resume(folder.path) as folder:
        if named is None:
            await run_eval(planned(tmp_path, **changes), folder=folder)
            return
        with pytest.raises(Conflict) as refused:
            await run_eval(planned(tmp_path, **changes), folder=folder)
    assert named in refused.value.message
    assert lines_of(folder.path) == before


@pytest.mark.parametrize(
    ("ref", "named"),
    [
        ({"version": "0.2.0"}, "environment.version is '0.1.0' there and '0.2.0' here"),
        ({"digest": "sha256:22"}, "environment.digest"),
        ({"args": {"hard": True}}, "args.hard is not set there and True here"),
        ({"name": "other"}, "environment is 'quiz' there and 'other' here"),
    ],
)
async def test_resume_refuses_another_environment(tmp_path, ref, named):
    first = planned(tmp_path)
    fields = {"id": "./quiz", "name": "quiz", "version": "0.1.0", "digest": "sha256:11", "source": "path", **ref}
    with folder_of_eval(first) as folder, pytest.raises(Conflict) as refused:
        await run_eval(planned(tmp_path, ref=EnvironmentRef(**fields)), folder=folder)
    assert named in refused.value.message


async def test_resume_refuses_tasks_that_are_others(tmp_path):
    first = planned(tmp_path, quiz=Quiz(2))
    tasks = list(Quiz(4).tasks())[1:]
    with folder_of_eval(first) as folder, pytest.raises(Conflict, match="the tasks are others"):
        await run_eval(planned(tmp_path, quiz=Quiz(tasks)), folder=folder)


async def test_a_run_of_another_kind_is_not_an_evaluation(tmp_path):
    plan = planned(tmp_path)
    with folder_of_eval(plan) as folder:
        folder.append(RunEvent(run=type(plan.run)(id="x", kind="train", name="n")))
        with pytest.raises(Conflict, match="a run of kind train, not eval"):
            await run_eval(plan, folder=folder)


async def test_what_failed_is_played_again_and_its_history_stays(tmp_path):
    model = Player({("t0", 0): ["error", 0.5], ("t1", 1): ["ungraded", "error", 1.0]})
    first = planned(tmp_path, model=model)
    with folder_of_eval(first) as folder:
        run = await run_eval(first, folder=folder)
        assert run.summary["counts"] | {"scored": 4, "errored": 1, "unscored": 1} == run.summary["counts"]
    for _ in range(2):
        with RunFolder.resume(folder.path) as folder:
            run = await run_eval(planned(tmp_path, model=model), folder=folder)
            rollouts = {(r.task.id, r.index): r for r in folder.rollouts()}
            attempts = [(a.task, a.index, a.attempt, a.failure.boundary) for a in folder.attempts()]
    assert model.plays["t0", 0] == 2
    assert model.plays["t1", 1] == 3
    assert sum(model.plays.values()) == 6 + 1 + 2
    assert (rollouts["t0", 0].attempt, rollouts["t1", 1].attempt, rollouts["t2", 0].attempt) == (2, 3, 1)
    assert attempts == [("t0", 0, 1, "model"), ("t1", 1, 1, "scoring"), ("t1", 1, 2, "model")]
    assert (run.status, run.summary["counts"]["scored"]) == ("done", 6)


async def test_failed_rollouts_may_be_left_as_they_are(tmp_path):
    model = Player({("t0", 0): ["error", 0.5]})
    first = planned(tmp_path, model=model)
    with folder_of_eval(first) as folder:
        await run_eval(first, folder=folder)
    with RunFolder.resume(folder.path) as folder:
        run = await run_eval(planned(tmp_path, model=model, retry_failed=False), folder=folder)
    assert sum(model.plays.values()) == 6
    assert run.summary["counts"]["errored"] == 1


async def test_retries_within_a_run_count_on_from_those_before_it(tmp_path):
    model = Player({("t0", 0): ["error", "error", "error", 1.0]})
    first = planned(tmp_path, model=model, retries=1)
    with folder_of_eval(first) as folder:
        await run_eval(first, folder=folder)
        assert [a.attempt for a in folder.attempts()] == [1]
    with RunFolder.resume(folder.path) as folder:
        await run_eval(planned(tmp_path, model=model, retries=1), folder=folder)
        assert [a.attempt for a in folder.attempts()] == [1, 2, 3]
        assert [row.attempt for row in folder.index() if (row.task_id, row.index) == ("t0", 0)] == [4]


async def test_rollouts_that_are_judged_together_are_played_again_together(tmp_path):
    first = planned(tmp_path, quiz=Quiz(2, grouped=True), rollouts_per_task=3)
    with folder_of_eval(first) as folder:
        await run_eval(first, folder=folder)
    content = lines_of(folder.path)
    kept = [line for line in content if b'"id":"t0"' not in line or b'"index":1' not in line]
    (folder.path / EVENTS).write_bytes(b"\n".join(kept) + b"\n")
    quiz, model, watcher = Quiz(2, grouped=True), Player(), Watcher()
    with RunFolder.resume(folder.path) as folder:
        plan = planned(tmp_path, quiz=quiz, model=model, rollouts_per_task=3)
        run = await run_eval(plan, folder=folder, progress=watcher)
        assert len(folder.index()) == 6
    assert quiz.scored_together == [3]
    assert sorted(model.plays) == [("t0", 0), ("t0", 1), ("t0", 2)]
    assert (watcher.done_already, run.summary["rollouts"]) == (3, 6)


async def test_cancelling_saves_what_is_finished_and_marks_the_run(tmp_path):
    model = Player()
    model.hang = {("t1", 0)}
    plan = planned(tmp_path, model=model)
    with folder_of_eval(plan) as folder:
        watcher = Watcher()
        watcher.number = 5
        running = asyncio.create_task(run_eval(plan, folder=folder, progress=watcher))
        async with asyncio.timeout(5):
            await model.hung.wait()
            await watcher.enough.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert len(folder.index()) == 5
        run = folder.run
    assert (run.status, run.summary["counts"]["missing"], run.message) == ("interrupted", 1, None)
    model.hang.clear()
    with RunFolder.resume(folder.path) as folder:
        run = await run_eval(planned(tmp_path, model=model), folder=folder)
    assert (run.status, run.summary["counts"]["scored"], model.plays["t0", 0]) == ("done", 6, 1)


async def test_what_a_watcher_raises_ends_the_run_and_is_put_on_record(tmp_path):
    class Broken(Watcher):
        def rollout(self, rollout):
            raise RuntimeError("the terminal is gone")

    plan = planned(tmp_path)
    with folder_of_eval(plan) as folder:
        with pytest.raises(RuntimeError, match="terminal"):
            await run_eval(plan, folder=folder, progress=Broken())
        assert (folder.run.status, folder.run.message) == ("failed", "RuntimeError: the terminal is gone")


async def test_a_disk_that_is_full_ends_the_run_with_the_reason_and_it_can_go_on_later(tmp_path):
    """A limit on the size of files stands for the full disk."""
    plan = planned(tmp_path)
    with folder_of_eval(plan) as folder:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, ((folder.path / EVENTS).stat().st_size + 1500, hard))
            with pytest.raises(Failed, match="cannot be written: File too large"):
                await run_eval(plan, folder=folder)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, ignored)
        assert 0 < len(folder.index()) < 6
    with RunFolder.resume(folder.path) as folder:
        assert (await run_eval(planned(tmp_path), folder=folder)).summary["counts"]["scored"] == 6


outcomes = st.sampled_from([1.0, 0.0, 0.5, "error", "ungraded"])
scripts = st.dictionaries(
    st.tuples(st.sampled_from(["t0", "t1", "t2", "t3"]), st.integers(0, 2)), st.lists(outcomes, min_size=1, max_size=4)
)


@settings(max_examples=40, deadline=None)
@given(
    scripts,
    st.lists(st.tuples(st.integers(1, 14), st.booleans(), st.integers(0, 400)), max_size=4),
    st.booleans(),
    st.integers(0, 1),
)
def test_however_a_run_is_broken_off_everything_is_accounted_for_once(
    tmp_path_factory, script, lives, grouped, retries
):
    """Each life ends by being cancelled after some plays; then the file loses some bytes, as a crash may have it."""
    root = tmp_path_factory.mktemp("runs")
    model = Player(script)

    def plan():
        return planned(
            root,
            quiz=Quiz(4, grouped=grouped),
            model=model,
            rollouts_per_task=3,
            retries=retries,
            max_concurrent=5,
        )

    async def live(path, stop_after):
        model.victim = asyncio.current_task()
        model.stop_after = None if stop_after is None else sum(model.plays.values()) + stop_after
        with RunFolder.resume(path) as folder:
            return await run_eval(plan(), folder=folder)

    first = folder_of_eval(plan())
    first.close()
    path = first.path
    head = (path / EVENTS).stat().st_size
    for stop_after, torn, lost in lives:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(live(path, stop_after))
        if torn:
            content = (path / EVENTS).read_bytes()
            (path / EVENTS).write_bytes(content[: max(head, len(content) - lost)])
    run = asyncio.run(live(path, None))
    with RunFolder.open(path) as folder:
        names = sorted((row.task_id, row.index) for row in folder.index())
        problems = folder.problems()
    assert names == [(f"t{task}", index) for task in range(4) for index in range(3)]
    assert problems == []
    counts = run.summary["counts"]
    assert counts["scored"] + counts["unscored"] + counts["errored"] == 12
    assert counts["missing"] == counts["cancelled"] == 0
    assert run.status == "done"
