"""`sandlot eval compare`: which run is better, by how much, on which tasks."""

from __future__ import annotations

from collections.abc import Iterator
from string import ascii_uppercase
from typing import Any

import click

from sandlot.cli.lazy import command
from sandlot.cli.output import Output
from sandlot.cli.run_show import run_folder
from sandlot.errors import Invalid
from sandlot.evals import Side, Versus, compare_sides, read_side
from sandlot.stats import TaskKey, TaskPair
from sandlot.store import RunFolder

_NAME = 48
"""Characters of a task's id that are shown."""


@command("compare")
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...")
@click.option("--tasks", default=10, show_default=True, type=click.IntRange(0), help="How many tasks to show.")
def compare_command(out: Output, runs: tuple[str, ...], tasks: int) -> None:
    """Say which RUN is better, by a test that is paired by task: each is compared with the first.

    A run is a folder, or the end of its id. The runs may differ in model, settings, or version of the environment.
    """
    if len(runs) > len(ascii_uppercase):
        raise Invalid(f"{len(runs)} runs were named; at most {len(ascii_uppercase)} are compared")
    sides: list[Side] = []
    for name in runs:
        with RunFolder.open(run_folder(name)) as folder:
            sides.append(read_side(folder))
    found = compare_sides(sides)
    names = dict(zip((side.run.id for side in sides), ascii_uppercase, strict=False))
    record = {
        "runs": [_side(side, names[side.run.id]) for side in sides],
        "comparisons": [_versus(each, names) for each in found],
        "tasks": [_across(key, sides, names) for key in _by_spread(sides)],
    }
    out.result(record, "\n".join(_lines(sides, found, names, tasks)))
    out.next(f"sandlot view {sides[0].path.parent.parent}")


def _side(side: Side, letter: str) -> dict[str, Any]:
    interval = side.interval
    return {
        "letter": letter,
        "id": side.run.id,
        "folder": str(side.path),
        "name": side.run.name,
        "model": side.run.model,
        "reward": None if interval is None else interval.mean,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "tasks": len(side.means),
        "rollouts": side.rollouts,
        "without_verdict": side.without_verdict,
    }


def _versus(versus: Versus, names: dict[str, str]) -> dict[str, Any]:
    figures = versus.figures
    winner = {"first": versus.first, "second": versus.second}.get(versus.verdict)
    return {
        "first": names[versus.first.run.id],
        "second": names[versus.second.run.id],
        "verdict": versus.verdict,
        "better": None if winner is None else names[winner.run.id],
        "difference": figures.difference,
        "low": figures.low,
        "high": figures.high,
        "p": figures.p,
        "p_corrected": versus.p,
        "test": figures.test,
        "detectable": figures.detectable,
        "n": figures.n,
        "wins": figures.wins,
        "losses": figures.losses,
        "left_out": figures.left_out,
        "tasks": [_task(pair) for pair in figures.tasks],
        "settings": [dict(zip(("name", "first", "second"), each, strict=True)) for each in versus.settings],
        "cautions": versus.cautions,
    }


def _task(pair: TaskPair) -> dict[str, Any]:
    environment, task_id = pair.key
    return {
        "environment": environment,
        "task_id": task_id,
        "first": pair.first,
        "second": pair.second,
        "difference": pair.difference,
    }


def _by_spread(sides: list[Side]) -> list[TaskKey]:
    """The tasks that several runs scored, first those on which the runs differ most."""
    keys = dict.fromkeys(key for side in sides for key in side.means)
    spreads = {key: spread for key in keys if (spread := _spread(key, sides)) is not None}
    return sorted(spreads, key=lambda key: (-spreads[key], key))


def _spread(key: TaskKey, sides: list[Side]) -> float | None:
    means = [side.means[key] for side in sides if key in side.means]
    return max(means) - min(means) if len(means) > 1 else None


def _across(key: TaskKey, sides: list[Side], names: dict[str, str]) -> dict[str, Any]:
    environment, task_id = key
    means = {names[side.run.id]: side.means.get(key) for side in sides}
    return {"environment": environment, "task_id": task_id, "means": means, "spread": _spread(key, sides)}


def _lines(sides: list[Side], found: list[Versus], names: dict[str, str], tasks: int) -> Iterator[str]:
    titles = {side.run.id: f"{side.run.name} · {side.run.model}" for side in sides}
    width = max(map(len, titles.values()))
    for side in sides:
        id = side.run.id
        yield f"{names[id]}  {titles[id]:<{width}}  {_mean(side)}  {side.path}"
    for each in found:
        first, second = names[each.first.run.id], names[each.second.run.id]
        yield ""
        yield from _sentences(each, first, second, several=len(found) > 1)
        for name, one, other in each.settings:
            yield f"  differs: {name}: {one or 'not set'} → {other or 'not set'}"
        for caution in each.cautions:
            yield f"  caution: {caution}"
        if len(found) == 1:
            yield from _task_lines(each, first, second, tasks)
    if len(found) > 1:
        yield from _table_of_tasks([_across(key, sides, names) for key in _by_spread(sides)], tasks)


def _sentences(versus: Versus, first: str, second: str, *, several: bool) -> Iterator[str]:
    figures = versus.figures
    if figures.difference is None:
        yield f"{second} − {first}: nothing to compare, they have no scored task in common"
        return
    interval = "" if figures.low is None else f" [{figures.low:+.3f}, {figures.high:+.3f}] (95 %)"
    p = "" if versus.p is None else f", p {_p(versus.p)} ({_TESTS[figures.test]}{', Holm' if several else ''})"
    yield f"{second} − {first}: {figures.difference:+.3f}{interval} over {_tasks(figures.n)} that both have{p}"
    equal = figures.n - figures.wins - figures.losses
    yield f"  {second} is better on {_tasks(figures.wins)}, worse on {figures.losses}, equal on {equal}"
    if figures.left_out:
        yield f"  left out: {_tasks(figures.left_out)} that only one of them scored"
    yield f"  {_VERDICTS[versus.verdict].format(first=first, second=second, would=_would(versus))}"


_TESTS = {"sign-flip": "sign-flip test", "t": "paired t-test"}
_VERDICTS = {
    "second": "{second} is better.",
    "first": "{first} is better.",
    "equal": "They are equal on every task.",
    "undecided": "Undecided: this may be chance.{would}",
    "too few tasks": "Too few tasks to say: fewer than 6 cannot show a difference, however large. Take more with -n.",
}


def _would(versus: Versus) -> str:
    size = versus.figures.detectable
    return "" if not size else f" So many tasks would have shown a difference of {size:.3f} (with a chance of 80 %)."


def _task_lines(versus: Versus, first: str, second: str, count: int) -> Iterator[str]:
    """The tasks on which the second lost and won most."""
    pairs = [pair for pair in versus.figures.tasks if pair.difference]
    if not pairs or not count:
        return
    losses = [pair for pair in pairs if pair.difference < 0]
    wins = [pair for pair in reversed(pairs) if pair.difference > 0]
    most = max(count - len(wins), -(-count // 2))
    lost = losses[:most]
    shown = [*lost, *wins[: count - len(lost)][::-1]]
    several = len({_task(pair)["environment"] for pair in pairs}) > 1
    rows = [_task(pair) for pair in shown]
    labels = _labels(rows, several=several)
    width = max(4, *map(len, labels))
    yield f"  {'TASK':<{width}}  {first:>6}  {second:>6}  {f'{second} − {first}':>7}"
    for label, row in zip(labels, rows, strict=True):
        yield f"  {label:<{width}}  {row['first']:6.3f}  {row['second']:6.3f}  {row['difference']:+7.3f}"
    if len(pairs) > len(shown):
        yield f"  and {len(pairs) - len(shown)} more tasks that differ; --tasks {len(pairs)} shows them"


def _table_of_tasks(rows: list[dict[str, Any]], count: int) -> Iterator[str]:
    """A row for each task on which the runs differ, a column for each run."""
    differing = [row for row in rows if row["spread"]]
    shown = differing[:count]
    if not shown:
        return
    labels = _labels(shown, several=len({row["environment"] for row in differing}) > 1)
    width = max(4, *map(len, labels))
    yield ""
    yield f"{'TASK':<{width}}  {'  '.join(f'{letter:>5}' for letter in shown[0]['means'])}  SPREAD"
    for label, row in zip(labels, shown, strict=True):
        means = "  ".join(f"{'-' if mean is None else f'{mean:.3f}':>5}" for mean in row["means"].values())
        yield f"{label:<{width}}  {means}  {row['spread']:6.3f}"
    if len(differing) > len(shown):
        yield f"and {len(differing) - len(shown):,} more tasks that differ; --tasks {len(differing)} shows them"


def _labels(rows: list[dict[str, Any]], *, several: bool) -> list[str]:
    """The tasks by their ids; with their environments, where there are several."""
    labels = [f"{row['environment']} {row['task_id']}" if several else row["task_id"] for row in rows]
    return [" ".join(label.split())[:_NAME] for label in labels]


def _mean(side: Side) -> str:
    interval = side.interval
    if interval is None:
        return f"no rollout scored of {side.rollouts}"
    sure = "" if interval.low is None else f" [{interval.low:.3f}, {interval.high:.3f}]"
    return f"{interval.mean:.3f}{sure} over {_rollouts(interval.n)} of {_tasks(len(side.means))}"


def _rollouts(count: int) -> str:
    return "1 rollout" if count == 1 else f"{count:,} rollouts"


def _tasks(count: int) -> str:
    return f"{count} task" if count == 1 else f"{count} tasks"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"
