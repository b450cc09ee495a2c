"""Small files that are never half written, and the run folders under a root."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from sandlot.errors import NotFound
from sandlot.records import RunEvent
from sandlot.store import EVENTS, RunFolder, folder_for, list_runs, read_entry, remove_leftovers, write_atomic


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "state.json"
    write_atomic(path, b"one")
    write_atomic(path, b"two" * 100_000)
    assert path.read_bytes() == b"two" * 100_000
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "taken"
    path.mkdir()
    (path / "inside").write_text("x")
    with pytest.raises(OSError, match=r"."):
        write_atomic(path, b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["taken"]


KILLED = """
import sys
from pathlib import Path
from sandlot.store import write_atomic
print("ready", flush=True)
number = 0
while True:
    number += 1
    write_atomic(Path(sys.argv[1]), str(number % 10).encode() * 3_000_000)
"""


def test_whenever_a_writer_is_killed_the_old_file_or_the_new_one_is_there(tmp_path):
    path = tmp_path / "checkpoint"
    for round_number in range(3):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(0.05 + 0.013 * round_number)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        process.stdout.close()
        if path.exists():
            content = path.read_bytes()
            assert len(content) == 3_000_000
            assert len(set(content)) == 1
    remove_leftovers(tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} <= {"checkpoint"}


def test_what_a_killed_writer_left_is_removed_when_the_run_goes_on(tmp_path, make):
    RunFolder.create(tmp_path, make.run()).close()
    (tmp_path / ".sandlot-00ff.tmp").write_bytes(b"half")
    (tmp_path / "mine.tmp").write_bytes(b"the user's own")
    RunFolder.resume(tmp_path).close()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [EVENTS, "mine.tmp"]


@pytest.mark.parametrize(
    ("name", "model", "expected"),
    [
        ("wordle", "openai/gpt-4.1-mini", "wordle--openai--gpt-4.1-mini--abcdefgh"),
        ("wordle", "local:/models/q wen", "wordle--local---models--q-wen--abcdefgh"),
        ("../../etc", "..", "etc--abcdefgh"),
        ("a\u2028b\nc", "", "a-b-c--abcdefgh"),
        ("x" * 300, "y" * 300, f"{'x' * 80}--{'y' * 80}--abcdefgh"),
    ],
)
def test_a_folders_name_is_readable_and_safe(tmp_path, make, name, model, expected):
    path = folder_for(tmp_path, make.run(name=name, model=model))
    assert path.parent == tmp_path / "evals"
    assert path.name == expected
    RunFolder.create(path, make.run()).close()


def test_a_name_that_is_taken_is_not_used_again(tmp_path, make):
    first = folder_for(tmp_path, make.run())
    RunFolder.create(first, make.run()).close()
    second = folder_for(tmp_path, make.run())
    assert second != first
    assert second.name.endswith(make.run().id)


def test_runs_are_found_wherever_they_are_under_the_root_newest_first(tmp_path, make):
    for number, kind in enumerate(["eval", "train", "eval"]):
        run = make.run(id=f"{number:026}", kind=kind, started=f"2026-01-0{number + 1}T00:00:00Z")
        RunFolder.create(folder_for(tmp_path / "outputs", run), run).close()
    RunFolder.create(tmp_path / ".hidden" / "run", make.run()).close()
    entries = list_runs(tmp_path)
    assert [entry.run.id[-1] for entry in entries] == ["2", "1", "0"]
    assert list_runs(entries[0].path) == [entries[0]]
    assert list_runs(tmp_path / ".hidden" / "run")[0].run == make.run()


def test_a_listing_shows_how_a_run_ended_and_whether_it_is_being_written(tmp_path, make):
    with RunFolder.create(tmp_path, make.run()) as folder:
        folder.append(make.event("a"))
        assert (read_entry(tmp_path).live, read_entry(tmp_path).run.status) == (True, "running")
    assert (read_entry(tmp_path).live, read_entry(tmp_path).run.status) == (False, "running")
    with RunFolder.resume(tmp_path) as folder:
        folder.append(RunEvent(run=make.run(status="done", summary={"reward": 1.0})))
    (entry,) = list_runs(tmp_path)
    assert (entry.live, entry.run.status, entry.run.summary) == (False, "done", {"reward": 1.0})
    assert entry.size == (tmp_path / EVENTS).stat().st_size


def test_a_folder_that_cannot_be_read_does_not_hide_the_others(tmp_path, make):
    RunFolder.create(tmp_path / "good", make.run()).close()
    for name, content in [("empty", b""), ("other", b'{"a":1}\n'), ("newer", b'{"event":"run","schema":7,"run":{}}\n')]:
        (tmp_path / name).mkdir()
        (tmp_path / name / EVENTS).write_bytes(content)
    entries = {entry.path.name: entry for entry in list_runs(tmp_path)}
    assert entries["good"].problem is None
    assert "not an event" in entries["empty"].problem
    assert "without an integer schema" in entries["other"].problem
    assert "schema 7" in entries["newer"].problem


def test_a_root_that_is_not_there_is_said(tmp_path):
    with pytest.raises(NotFound, match="there is no folder"):
        list_runs(tmp_path / "absent")
