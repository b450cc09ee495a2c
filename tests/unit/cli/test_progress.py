"""Progress where nobody sees a terminal."""

from __future__ import annotations

import pytest

from sandlot.cli.output import Output
from sandlot.cli.progress import Bar


def test_without_a_terminal_a_line_comes_now_and_then_and_with_json_none(capsys: pytest.CaptureFixture[str]) -> None:
    for out, lines in (
        (Output(), ["playing: 2/4 rollouts, reward 0.500", "playing: 4/4 rollouts"]),
        (Output(json=True), []),
    ):
        now = [0.0]
        with Bar(out, "playing", 4, unit=" rollouts", clock=lambda now=now: now[0]) as bar:
            for done, note in enumerate(("", "reward 0.500", "", ""), start=1):
                now[0] += 6.0
                bar.advance(done, note)
        assert capsys.readouterr().err.splitlines() == lines
