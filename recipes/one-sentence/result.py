"""What came out of the demo, read from its run folders."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from sandlot.evals import summarise
from sandlot.records import Rollout, conversation
from sandlot.store import RunFolder

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "environments" / "one_sentence"))
from one_sentence.grading import Asked, grade

from sandlot.stats import wilson

BARS = " ▁▂▃▄▅▆▇█"


class Runs(NamedTuple):
    """The folders of the demo's three runs."""

    before: Path
    train: Path
    after: Path


def rollouts_of(folder: Path) -> list[Rollout]:
    """The rollouts of a run."""
    with RunFolder.open(folder) as opened:
        return list(opened.rollouts())


def run_id(folder: Path) -> str:
    """The id of a run."""
    with RunFolder.open(folder) as opened:
        return opened.run.id


def table(runs: Runs) -> str:
    """Strict success and reward before and after with 95 % intervals, and the control that must not explain it."""
    both = [rollouts_of(runs.before), rollouts_of(runs.after)]
    summaries = [summarise(rollouts, threshold=1.0) for rollouts in both]
    passed = [summary.passed for summary in summaries]
    cut = [first_sentence_passes(rollouts) for rollouts in both]
    rows = [
        ["", "before", "after"],
        ["strict success", *(share(each.share, each.low, each.high) if each else "–" for each in passed)],
        ["reward", *(number(each.reward, each.interval) for each in summaries)],
        ["first sentence only", *(share(count / total, *wilson(count, total)) for count, total in cut)],
    ]
    width = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["   ".join(cell.ljust(width[column]) for column, cell in enumerate(row)).rstrip() for row in rows]
    return "\n".join(lines) + (
        f"\n\n{len(both[0])} rollouts of {summaries[0].tasks} tasks, 95 % intervals. Strict: all that was asked holds."
        "\nFirst sentence only: the same answers, cut after their first sentence: what brevity alone would give."
    )


def first_sentence_passes(rollouts: list[Rollout]) -> tuple[int, int]:
    """How many answers would pass if they were cut after the first sentence, and of how many."""
    count = 0
    for rollout in rollouts:
        text = str(conversation(rollout)[-1].get("content") or "").strip()
        match = re.match(r"[^.!?\n]*[.!?]", text)
        fields = rollout.task.fields
        asked = Asked(*(fields[name] for name in Asked._fields))
        graded = grade(match.group(0) if match else text, asked)
        count += graded.product == 1
    return count, len(rollouts)


def curve(folder: Path) -> str:
    """The mean reward of each step's rollouts as a row of bars, and in figures at both ends."""
    with RunFolder.open(folder) as opened:
        rewards: dict[int, list[float]] = {}
        for rollout in opened.rollouts():
            if rollout.split == "train" and rollout.reward is not None and rollout.step is not None:
                rewards.setdefault(rollout.step, []).append(rollout.reward)
    means = [sum(values) / len(values) for _, values in sorted(rewards.items())]
    bars = "".join(BARS[min(8, max(1, round(mean * 8)))] for mean in means)
    return f"  {means[0]:.2f} {bars} {means[-1]:.2f}   ({len(means)} steps)" if means else "  no steps"


def sentences(runs: Runs) -> str:
    """What the model wrote for the same three tasks before and after."""
    lines = []
    written = {}
    for name, folder in (("before", runs.before), ("after", runs.after)):
        written[name] = {(each.task.id, each.index): each for each in rollouts_of(folder)}
    for key in sorted(written["before"].keys() & written["after"].keys())[:3]:
        lines.append(f"  {written['before'][key].task.prompt[-1]['content']}")
        for name in ("before", "after"):
            rollout = written[name][key]
            text = " ".join(str(conversation(rollout)[-1].get("content") or "").split())
            mark = "✓" if (rollout.reward or 0) >= 1 else "·"
            lines.append(f"    {name:6} {mark} {text[:90]}{'…' if len(text) > 90 else ''}")
    return "\n".join(lines)


def share(value: float, low: float, high: float) -> str:
    """A share with its interval, in per cent."""
    return f"{value:.1%} [{low:.1%}, {high:.1%}]"


def number(value: float | None, interval: Any) -> str:
    """A mean with its interval."""
    if value is None:
        return "–"
    return f"{value:.2f} [{interval.low:.2f}, {interval.high:.2f}]" if interval else f"{value:.2f}"
