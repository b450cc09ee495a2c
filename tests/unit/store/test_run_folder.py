"""A run folder as its writers and readers see it."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings, strategies as st

from sandlot.errors import Conflict, Failed, Invalid, NotFound
from sandlot.records import (
    AttemptEvent,
    Failure,
    MetricsEvent,
    Reward,
    RunEvent,
    Verdict,
    VerdictEvent,
    encode_event,
)
from sandlot.store import EVENTS, RunFolder


def test_what_was_appended_is_read_back_in_order(tmp_path, make):
    with RunFolder.create(tmp_path / "run", make.run()) as folder:
        for number in range(5):
            folder.append(make.event(f"r{number}", index=number))
    with RunFolder.open(tmp_path / "run") as folder:
        assert [rollout.id for rollout in folder.rollouts()] == ["r0", "r1", "r2", "r3", "r4"]
        assert list(folder.rollouts())[3] == make.rollout("r3", index=3)
        assert folder.run == make.run()


def test_the_last_run_event_and_the_last_verdict_win(tmp_path, make):
    with RunFolder.create(tmp_path, make.run()) as folder:
        folder.append(make.event("a", reward=None, failure=None))
        assert [row.status for row in folder.index()] == ["unscored"]
        folder.append(VerdictEvent(rollout="a", verdict=Verdict(reward=0.25)))
        folder.append(make.event("b", index=1))
        folder.append(
            VerdictEvent(
                rollout="a", verdict=Verdict(reward=0.5, rewards=[Reward(name="x", value=0.5)], metrics={"y": 2})
            )
        )
        folder.append(RunEvent(run=make.run(status="done")))
        assert folder.run.status == "done"
        first, second = folder.index()
        assert (first.status, first.reward, first.scores) == ("scored", 0.5, {"x": 0.5, "y": 2.0})
        assert second.reward == 1.0
        assert [rollout.reward for rollout in folder.rollouts()] == [0.5, 1.0]


def test_a_rollout_that_was_played_again_counts_once_and_the_first_play_stays_in_the_file(tmp_path, make):
    with RunFolder.create(tmp_path, make.run()) as folder:
        folder.append(make.event("a", reward=None))
        folder.append(make.event("b", index=1))
        folder.append(make.event("c", reward=0.5, attempt=2))
        assert [row.id for row in folder.index()] == ["c", "b"]
        assert [row.id for row in folder.replaced()] == ["a"]
        assert b'"id":"a"' in folder.line_at(folder.replaced()[0])
        with pytest.raises(NotFound, match="no rollout a"):
            folder.row("a")


def test_the_same_task_in_another_environment_split_or_step_is_another_rollout(tmp_path, make):
    with RunFolder.create(tmp_path, make.run(kind="train")) as folder:
        folder.append(make.event("a", split="train", step=1))
        folder.append(make.event("b", split="train", step=2))
        folder.append(make.event("c", split="eval", step=2))
        folder.append(make.event("d", split="eval", step=2, environment="other"))
        assert len(folder.index()) == 4
        assert len(folder.done()) == 4


def test_done_is_what_has_a_verdict_unless_told_otherwise(tmp_path, make):
    with RunFolder.create(tmp_path, make.run()) as folder:
        folder.append(make.event("a", index=0))
        folder.append(make.event("b", index=1, truncated=True))
        folder.append(make.event("c", index=2, reward=None))
        folder.append(make.event("d", index=3, reward=None, failure=None))
        folder.append(make.event("e", index=4, stop="cancelled"))
        assert sorted(key.index for key in folder.done()) == [0, 1]
        assert sorted(key.index for key in folder.done(("scored", "errored"))) == [0, 2]


def test_metrics_of_a_step_are_joined_and_attempts_are_kept(tmp_path, make):
    attempt = AttemptEvent(task="t", index=0, attempt=1, failure=Failure(boundary="model", type="E", message="m"))
    with RunFolder.create(tmp_path, make.run(kind="train")) as folder:
        folder.append(MetricsEvent(step=2, values={"loss": 1.0}, at=1.0))
        folder.append(MetricsEvent(step=1, values={"loss": 3.0}, at=2.0))
        folder.append(MetricsEvent(step=2, values={"loss": 0.5, "eval": 0.1}, at=3.0))
        folder.append(attempt)
        assert [(m.step, m.values) for m in folder.metrics()] == [(1, {"loss": 3.0}), (2, {"loss": 0.5, "eval": 0.1})]
        assert folder.attempts() == [attempt]


def test_a_reader_sees_what_a_writer_adds_and_reads_only_that(tmp_path, make):
    with RunFolder.create(tmp_path, make.run()) as writer, RunFolder.open(tmp_path) as reader:
        assert reader.index() == []
        writer.append(make.event("a"))
        (row,) = reader.index()
        writer.append(make.event("b", index=1))
        rows = reader.index()
        assert rows[0] is row
        assert reader.rollout_at(rows[1]) == make.rollout("b", index=1)


def test_a_reader_waits_for_the_rest_of_a_line_that_is_being_written(tmp_path, make):
    with RunFolder.create(tmp_path, make.run()) as folder:
        folder.append(make.event("a"))
    line = encode_event(make.event("b", index=1))
    with RunFolder.open(tmp_path) as reader, (tmp_path / EVENTS).open("ab", buffering=0) as file:
        file.write(line[:50])
        assert [row.id for row in reader.index()] == ["a"]
        file.write(line[50:] + b"\n" + encode_event(make.event("c", index=2)))
        assert [row.id for row in reader.index()] == ["a", "b", "c"]
        file.write(b"\n")
        assert [row.id for row in reader.index()] == ["a", "b", "c"]
        assert reader.problems() == []


def test_a_reader_starts_again_when_a_torn_line_was_cut_off_behind_its_back(tmp_path, make):
    with RunFolder.create(tmp_path, make.run()) as folder:
        folder.append(make.event("a"))
        size = (tmp_path / EVENTS).stat().st_size
        folder.append(make.event("b", index=1))
        with RunFolder.open(tmp_path) as reader:
            assert len(reader.index()) == 2
            os.truncate(tmp_path / EVENTS, size)
            assert [row.id for row in reader.index()] == ["a"]


@pytest.mark.parametrize("kept", [1, 30, -1])
def test_a_torn_last_line_is_cut_off_when_the_folder_is_written_on(tmp_path, make, kept):
    with RunFolder.create(tmp_path, make.run()) as folder:
        folder.append(make.event("a"))
    good = (tmp_path / EVENTS).read_bytes()
    (tmp_path / EVENTS).write_bytes(good + encode_event(make.event("b", index=1))[:kept])
    with RunFolder.open(tmp_path) as folder:
        assert [row.id for row in folder.index()] == ["a"]
    with RunFolder.resume(tmp_path) as folder:
        assert (tmp_path / EVENTS).read_bytes() == good
        folder.append(make.event("c", index=2))
        assert [row.id for row in folder.index()] == ["a", "c"]


def test_a_whole_line_that_lost_only_its_newline_is_kept(tmp_path, make):
    with RunFolder.create(tmp_path, make.run()) as folder:
        folder.append(make.event("a"))
    good = (tmp_path / EVENTS).read_bytes()
    (tmp_path / EVENTS).write_bytes(good[:-1])
    with RunFolder.resume(tmp_path) as folder:
        assert [row.id for row in folder.index()] == ["a"]
    assert (tmp_path / EVENTS).read_bytes() == good


@pytest.mark.parametrize(
    "junk", [b'{"id": 6, "rew', b"not json", b"[]", b'{"event":"rollout","schema":1}', b"\xff\xfe"]
)
def test_a_corrupt_line_in_the_middle_is_named_by_its_number(tmp_path, make, junk):
    with RunFolder.create(tmp_path, make.run()) as folder:
        folder.append(make.event("a"))
    with (tmp_path / EVENTS).open("ab") as file:
        file.write(junk + b"\n" + encode_event(make.event("b", index=1)) + b"\n")
    with RunFolder.open(tmp_path) as folder:
        assert [row.id for row in folder.index()] == ["a", "b"]
        assert [problem.line for problem in folder.problems()] == [3]
        with pytest.raises(Invalid, match=r"events\.jsonl, line 3: not an event|line 3: an event without") as caught:
            folder.rollouts()
        assert "sed -i 3d" in caught.value.hint
    with pytest.raises(Invalid, match="line 3"):
        RunFolder.resume(tmp_path)
    subprocess.run(caught.value.hint.split("with: ")[1], shell=True, check=True)
    with RunFolder.resume(tmp_path) as folder:
        assert [rollout.id for rollout in folder.rollouts()] == ["a", "b"]


def test_a_newer_schema_is_refused_by_name(tmp_path, make):
    with RunFolder.create(tmp_path, make.run()):
        pass
    with (tmp_path / EVENTS).open("ab") as file:
        file.write(b'{"event":"rollout","schema":9,"rollout":{}}\n')
    with (
        RunFolder.open(tmp_path) as folder,
        pytest.raises(Invalid, match=r"line 2: an event of schema 9.*up to 1") as no,
    ):
        folder.index()
    assert "upgrade" in no.value.hint
    with pytest.raises(Invalid, match="schema 9"):
        RunFolder.resume(tmp_path)


def test_blank_lines_and_carriage_returns_do_no_harm(tmp_path, make):
    with RunFolder.create(tmp_path, make.run()) as folder:
        folder.append(make.event("a"))
    content = (tmp_path / EVENTS).read_bytes().replace(b"\n", b"\r\n") + b"\r\n\n"
    (tmp_path / EVENTS).write_bytes(content)
    with RunFolder.resume(tmp_path) as folder:
        assert [rollout.id for rollout in folder.rollouts()] == ["a"]


def test_a_number_that_is_not_finite_is_refused_and_leaves_no_line(tmp_path, make):
    with RunFolder.create(tmp_path, make.run()) as folder:
        before = (tmp_path / EVENTS).read_bytes()
        with pytest.raises(Invalid, match=r"verdict\.reward is nan"):
            folder.append(make.event("a", reward=float("nan")))
        assert (tmp_path / EVENTS).read_bytes() == before


def test_two_writers_cannot_hold_one_folder_and_readers_need_no_leave(tmp_path, make):
    with RunFolder.create(tmp_path, make.run()):
        with pytest.raises(Conflict, match="being written by another process"):
            RunFolder.resume(tmp_path)
        RunFolder.open(tmp_path).close()
    RunFolder.resume(tmp_path).close()


def test_a_run_is_never_overwritten(tmp_path, make):
    RunFolder.create(tmp_path, make.run()).close()
    before = (tmp_path / EVENTS).read_bytes()
    with pytest.raises(Conflict, match="holds a run already"):
        RunFolder.create(tmp_path, make.run(name="another"))
    assert (tmp_path / EVENTS).read_bytes() == before


def test_a_run_that_cannot_be_stored_leaves_no_half_made_folder(tmp_path, make):
    with pytest.raises(Invalid, match=r"run\.config\.lr is inf"):
        RunFolder.create(tmp_path / "run", make.run(config={"lr": float("inf")}))
    RunFolder.create(tmp_path / "run", make.run()).close()


def test_paths_that_cannot_hold_a_run_are_refused_with_a_reason(tmp_path, make):
    (tmp_path / "file").write_text("x")
    with pytest.raises(Invalid, match="is a file; a folder for the run was expected"):
        RunFolder.create(tmp_path / "file", make.run())
    with pytest.raises(Failed, match="cannot be written: Not a directory"):
        RunFolder.create(tmp_path / "file" / "run", make.run())
    with pytest.raises(NotFound, match="not a run folder: no such folder"):
        RunFolder.open(tmp_path / "absent")
    with pytest.raises(NotFound, match=r"not a run folder: no events\.jsonl in it"):
        RunFolder.resume(tmp_path)
    with pytest.raises(NotFound, match="not a run folder"):
        RunFolder.open(tmp_path / "file")
    (tmp_path / EVENTS).write_bytes(b"")
    with pytest.raises(Invalid, match="has no run event"):
        RunFolder.open(tmp_path).run  # noqa: B018


def test_a_folder_open_for_reading_or_closed_refuses_writes(tmp_path, make):
    folder = RunFolder.create(tmp_path, make.run())
    folder.close()
    folder.close()
    with pytest.raises(Invalid, match="not open for writing"):
        folder.append(make.event("a"))
    with pytest.raises(Invalid, match="was closed"):
        folder.index()
    with RunFolder.open(tmp_path) as reader, pytest.raises(Invalid, match="not open for writing"):
        reader.append(make.event("a"))


def test_when_the_disk_is_full_the_file_stays_whole(tmp_path, make):
    """A limit on the size of files stands for the full disk: both take part of a line and then refuse."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with RunFolder.create(tmp_path, make.run()) as folder:
        folder.append(make.event("a"))
        size = (tmp_path / EVENTS).stat().st_size
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
            with pytest.raises(Failed, match="cannot be written: File too large"):
                folder.append(make.event("b", index=1, text="long " * 100))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, ignored)
        assert (tmp_path / EVENTS).stat().st_size == size
        folder.append(make.event("c", index=2))
        assert [rollout.id for rollout in folder.rollouts()] == ["a", "c"]


def test_threads_may_append_at_once(tmp_path, make):
    with RunFolder.create(tmp_path, make.run()) as folder:

        def work(thread: int) -> None:
            for number in range(50):
                folder.append(make.event(f"{thread}-{number}", task=str(thread), index=number, text="x" * 3000))
                folder.index()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({rollout.id for rollout in folder.rollouts()}) == 200


WRITER = """
import sys
from pathlib import Path
from sandlot.records import Rollout, RolloutEvent, Run, Task, Verdict
from sandlot.store import RunFolder
folder = RunFolder.create(Path(sys.argv[1]), Run(id="r", kind="eval", name="n"))
for index in range(1_000_000):
    verdict = Verdict(reward=1.0, metrics={"x" * 2000: 1.0})
    folder.append(RolloutEvent(rollout=Rollout(
        id=str(index), task=Task(id="t"), index=index, environment="e", model="m", verdict=verdict)))
    print(index, flush=True)
"""


def test_a_killed_writer_loses_nothing_that_was_appended(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "run")], stdout=subprocess.PIPE)
    told = 0
    for line in process.stdout:
        told = int(line)
        if told >= 200:
            break
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    rest = process.stdout.read().split()
    told = max(told, int(rest[-2]) if len(rest) > 1 else told)
    process.stdout.close()
    with RunFolder.resume(tmp_path / "run") as folder:
        indices = [row.index for row in folder.index()]
        assert indices == list(range(len(indices)))
        assert len(indices) > told


texts = st.text(st.characters(blacklist_categories=["Cs"]), max_size=30)


@settings(max_examples=60, deadline=None)
@given(st.lists(texts, min_size=1, max_size=6), st.data())
def test_wherever_a_file_is_torn_every_line_before_the_tear_survives(make, tmp_path_factory, texts, data):
    path = tmp_path_factory.mktemp("torn")
    with RunFolder.create(path, make.run()) as folder:
        ends = []
        for index, text in enumerate(texts):
            folder.append(make.event(str(index), index=index, text=text, task=text))
            ends.append((path / EVENTS).stat().st_size)
    start = (path / EVENTS).read_bytes().index(b"\n") + 1
    cut = data.draw(st.integers(start, ends[-1]))
    os.truncate(path / EVENTS, cut)
    whole = sum(end - 1 <= cut for end in ends)
    for _ in range(2):
        with RunFolder.resume(path) as folder:
            kept = list(folder.rollouts())
            assert [rollout.task.id for rollout in kept] == texts[:whole]
