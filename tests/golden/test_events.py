"""Event files that older versions wrote read for ever, and say what they said. Never rewrite a golden file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandlot.records import decode_event, encode_event
from sandlot.store import RunFolder

HERE = Path(__file__).parent


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "events.jsonl").write_bytes((HERE / "events-1.jsonl").read_bytes())
    with RunFolder.open(tmp_path) as folder:
        yield folder


def test_schema_1_every_line_is_read_and_written_back_the_same():
    lines = (HERE / "events-1.jsonl").read_bytes().split(b"\n")[:-1]
    assert len(lines) == 11
    for line in lines:
        assert decode_event(encode_event(decode_event(line))) == decode_event(line)


def test_schema_1_the_run(folder):
    run = folder.run
    assert (run.status, run.kind, run.seed, run.expected) == ("done", "train", 7, 4)
    assert run.summary == {"reward": {"mean": 0.7}}
    (environment,) = run.environments
    assert (environment.owner, environment.name, environment.version) == ("ada", "wordle", "0.3.0")
    assert (environment.commit, environment.dirty) == ("9c1d2e", True)
    assert environment.args == {"words": ["crane"]}


def test_schema_1_a_rollout_with_everything(folder):
    rollout = next(folder.rollouts())
    assert rollout.task.id == "t-é\u2028"
    assert rollout.task.prompt[1]["content"][0]["text"] == "Guess\u2028the\u0085word\x0c!"
    assert rollout.task.fields == {"target": "crane", "history": []}
    assert [turn.parent for turn in rollout.turns] == [-1, 0]
    assert rollout.turns[0].completion["tool_calls"][0]["function"]["arguments"] == '{"w":"slate"}'
    tokens = rollout.turns[0].tokens
    assert (tokens.prompt, tokens.sampled, tokens.logprobs, tokens.versions) == (
        [1, 2, 3],
        [4, 5],
        [-0.5, None],
        [3, 3],
    )
    assert (rollout.reward, rollout.status, rollout.step, rollout.split) == (0.7, "truncated", 4, "train")
    assert rollout.verdict.rewards[0].feedback == "Yes."
    assert (rollout.sampling.top_k, rollout.sampling.stop) == (-1, ["\n\n"])
    assert rollout.left_out == ["connection"]
    assert rollout.state == {"history": [["slate", "-----"]]}


def test_schema_1_verdicts_attempts_metrics_and_what_was_played_again(folder):
    rows = folder.index()
    assert [(row.id, row.status, row.reward) for row in rows] == [
        ("r1", "truncated", 0.7),
        ("r4", "scored", 1.0),
        ("r3", "scored", 0.5),
    ]
    assert [row.id for row in folder.replaced()] == ["r2"]
    assert rows[0].first_words == "The word is crane"
    assert rows[2].scores == {"correct": 0.5, "rescored": 1.0}
    assert [attempt.failure.type for attempt in folder.attempts()] == ["SandboxError"]
    assert [(metrics.step, metrics.values) for metrics in folder.metrics()] == [
        (4, {"loss": 0.5, "reward/mean": 0.6, "eval/reward": 0.5})
    ]
    assert folder.problems() == []
