"""A run in figures, from its rows. Pure functions; means leave out what has no reward, and counts say how many."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from sandlot.hub.runs.source import OUTCOMES, RolloutRow, RunSummary, StepScore, TaskScore
from sandlot.records import Run
from sandlot.stats import Interval, mean, mean_interval, pass_at_k, percentiles

PASSED = 0.5
"""The reward from which a rollout passes where the run's config does not say."""

WHISKERS_FROM = 3
"""So many rollouts a task must have for its own interval: that of two covers everything and says nothing."""

ROUNDING = 1e-9
"""So much may be missing: a weighted sum that should be 1 is sometimes just below."""


def summarise_rows(rows: Sequence[RolloutRow], run: Run) -> RunSummary:
    """The summary of `run`. Of a training run, reward and pass@k are those of its last held-out evaluation."""
    counted = _last_evaluation(rows) if run.kind == "train" else rows
    tasks = _by_task(counted)
    rewards = [_rewards(group) for group in tasks.values()]
    overall = mean_interval(rewards)
    given = _rewards(rows)
    counts = Counter(row.status for row in rows)
    threshold = pass_threshold(run)
    return RunSummary(
        rollouts=len(rows),
        expected=run.expected,
        tasks=len(tasks),
        counts={status: counts[status] for status in OUTCOMES if counts[status]},
        reward=overall.mean if overall else None,
        half_width=half_width(overall),
        lowest=min(given, default=None),
        highest=max(given, default=None),
        pass_at=_pass_at(rewards, threshold),
        pass_threshold=threshold,
        by_environment=_by_environment(counted),
        scores=_mean_scores(counted),
        task_scores=_task_scores(tasks),
        seconds=percentiles(row.seconds for row in rows if row.seconds > 0),
        parts=_parts(rows),
        tokens=_whole(_sum(row.tokens for row in rows)),
        cost=_sum(row.cost for row in rows),
        step_scores=step_scores(rows) if any(row.step is not None for row in rows) else [],
    )


def pass_threshold(run: Run) -> float:
    """The reward from which a rollout of `run` passes."""
    given = run.config.get("pass_threshold")
    return float(given) if isinstance(given, int | float) and not isinstance(given, bool) else PASSED


def half_width(interval: Interval | None) -> float | None:
    """Half of a 95 % interval, or None where there is none."""
    return None if interval is None or interval.high is None else interval.high - interval.mean


def step_scores(rows: Iterable[RolloutRow]) -> list[StepScore]:
    """The points of a training run's curves, by split, environment and step."""
    groups: defaultdict[tuple[int, str, str], list[RolloutRow]] = defaultdict(list)
    for row in rows:
        if row.step is not None:
            groups[row.step, row.split, row.environment].append(row)
    return [_step_score(key, some) for key, some in sorted(groups.items())]


def _step_score(key: tuple[int, str, str], rows: list[RolloutRow]) -> StepScore:
    step, split, environment = key
    rewards = [_rewards(group) for group in _by_task(rows).values()]
    interval = mean_interval(rewards)
    judged = [group for group in rewards if len(group) > 1]
    return StepScore(
        step=step,
        split=split,
        environment=environment,
        n=interval.n if interval else 0,
        mean=interval.mean if interval else None,
        half_width=half_width(interval),
        truncated=sum(row.status == "truncated" for row in rows) / len(rows),
        tokens=mean([float(row.tokens) for row in rows if row.tokens is not None]),
        zero_signal=mean([float(min(group) == max(group)) for group in judged]),
    )


def _last_evaluation(rows: Sequence[RolloutRow]) -> Sequence[RolloutRow]:
    steps = [row.step for row in rows if row.split == "eval" and row.step is not None]
    last = max(steps, default=None)
    return [row for row in rows if row.split == "eval" and row.step == last] if last is not None else rows


def _by_task(rows: Iterable[RolloutRow]) -> dict[tuple[str, str], list[RolloutRow]]:
    tasks: defaultdict[tuple[str, str], list[RolloutRow]] = defaultdict(list)
    for row in rows:
        tasks[row.environment, row.task_id].append(row)
    return tasks


def _rewards(rows: Iterable[RolloutRow]) -> list[float]:
    return [row.reward for row in rows if row.reward is not None]


def _task_scores(tasks: dict[tuple[str, str], list[RolloutRow]]) -> list[TaskScore]:
    scores = []
    for (environment, task_id), rows in tasks.items():
        interval = mean_interval([[value] for value in _rewards(rows)])
        if interval:
            scores.append(
                TaskScore(
                    task_id=task_id,
                    mean=interval.mean,
                    n=interval.n,
                    low=interval.low if interval.n >= WHISKERS_FROM else None,
                    high=interval.high if interval.n >= WHISKERS_FROM else None,
                    environment=environment,
                )
            )
    return sorted(scores, key=lambda score: (score.mean, score.task_id))


def _pass_at(rewards: Sequence[Sequence[float]], threshold: float) -> dict[str, tuple[float, float | None]]:
    """pass@k for the powers of two up to the most tries that most tasks have, and for that number itself."""
    most = max((len(group) for group in rewards), default=0)
    found: dict[str, tuple[float, float | None]] = {}
    for k in sorted({k for k in (1, 2, 4, 8, 16, 32, 64) if k < most} | {most}):
        if k < 1:
            continue
        chances = [pass_at_k(len(group), sum(value >= threshold - ROUNDING for value in group), k) for group in rewards]
        known = [[chance] for chance in chances if chance is not None]
        interval = mean_interval(known)
        if interval is not None and len(known) * 2 > len(rewards):
            found[str(k)] = (interval.mean, half_width(interval))
    return found


def _by_environment(rows: Sequence[RolloutRow]) -> dict[str, tuple[float, float | None, int]]:
    names = sorted({row.environment for row in rows})
    if len(names) < 2:
        return {}
    found: dict[str, tuple[float, float | None, int]] = {}
    for name in names:
        tasks = _by_task(row for row in rows if row.environment == name)
        interval = mean_interval([_rewards(group) for group in tasks.values()])
        if interval:
            found[name] = (interval.mean, half_width(interval), interval.n)
    return found


def _mean_scores(rows: Iterable[RolloutRow]) -> dict[str, float]:
    values: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, value in row.scores.items():
            values[name].append(value)
    return {name: sum(some) / len(some) for name, some in values.items()}


def _parts(rows: Sequence[RolloutRow]) -> dict[str, float]:
    timed = [row for row in rows if row.seconds > 0]
    if not timed:
        return {}
    model = sum(row.model_seconds for row in timed) / len(timed)
    environment = sum(row.environment_seconds for row in timed) / len(timed)
    scoring = sum(row.scoring_seconds for row in timed) / len(timed)
    total = sum(row.seconds for row in timed) / len(timed)
    other = max(0.0, total - model - environment - scoring)
    return {"model": model, "environment": environment, "scoring": scoring, "other": other}


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
