"""Progress where nobody sees a terminal."""

from __future__ import annotations

import pytest

from sandlot.cli.output import Output
from sandlot.cli.progress import Bar


def test_without_a_terminal_a_line_comes_now_and_then_and_with_json_none(capsys: pytest.CaptureFixture[str]) -> None:
    for out, lines in (
        (Output(), ["playing: 2/4 rollouts, reward 0.500, about 12 s left", "playing: 4/4 rollouts"]),
        (Output(json=True), []),
    ):
        now = [0.0]
        with Bar(out, "playing", 4, unit=" rollouts", clock=lambda now=now: now[0]) as bar:
            for done, note in enumerate(("", "reward 0.500", "", ""), start=1):
                now[0] += 6.0
                bar.advance(done, note)
        assert capsys.readouterr().err.splitlines() == lines


def test_ten_thousand_rollouts_are_a_line_every_ten_seconds_that_says_how_long_it_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = [0.0]
    with Bar(Output(), "quiz · m", 10_000, unit=" rollouts", clock=lambda: now[0]) as bar:
        bar.advance(1_000)
        for done in range(1_001, 10_001):
            now[0] += 0.0625
            bar.advance(done, "reward 0.500, $1.25")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 56
    assert lines[0] == "quiz · m: 1,160/10,000 rollouts, reward 0.500, $1.25, about 9 min left"
    assert lines[-1] == "quiz · m: 9,960/10,000 rollouts, reward 0.500, $1.25, about 2 s left"
