"""The figures of a run as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sandlot.records import Run


def report(title: str, summary: Mapping[str, Any]) -> str:
    """A summary as it is stored, for a person to read."""
    lines = [(name, value) for name, value in _lines(summary) if value]
    width = max(len(name) for name, _ in lines)
    return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in lines)])


def training_report(run: Run, *, status: str | None = None, steps: int | None = None) -> str:
    """How a training ended, with the held-out rewards before and after it.

    `status` and `steps` are what is known of one that was killed and could not put them on record.
    """
    done = run.summary.get("steps", 0) if steps is None else steps
    lines = [f"{run.name} · {run.model} · {status or run.status} after {done} steps"]
    for when in ("before", "after"):
        words = evaluation_words(run.summary.get(when) or {})
        if words:
            lines.append(f"  {when:<7} {words}")
    return "\n".join(lines)


def evaluation_words(metrics: Mapping[str, float]) -> str:
    """The held-out reward of each environment in a training's figures, with its interval; empty if there is none."""
    names = [name for name in metrics if name.startswith("eval/") and name.endswith("/reward")]
    return ", ".join(_evaluated(name.removesuffix("/reward"), metrics) for name in names)


def _evaluated(stem: str, metrics: Mapping[str, float]) -> str:
    words = f"{stem.removeprefix('eval/')} {metrics[f'{stem}/reward']:.3f}"
    if f"{stem}/low" in metrics and f"{stem}/high" in metrics:
        words += f" [{metrics[f'{stem}/low']:.3f}, {metrics[f'{stem}/high']:.3f}]"
    return words


def _lines(summary: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    yield "reward", _with_interval(summary.get("interval"), summary.get("reward"))
    passed = summary.get("passed")
    if passed:
        interval = f"[{_share(passed['low'])}, {_share(passed['high'])}]"
        yield "passed", f"{_share(passed['share'])} {interval}, from {passed['threshold']:g} on"
    rates = summary.get("pass_rates") or []
    yield "pass@k", ", ".join(f"{rate['k']}: {rate['at']:.3f}{_bounds(rate)}" for rate in rates)
    # With one try of each task the two are the same.
    yield "pass^k", ", ".join(f"{rate['k']}: {rate['hat']:.3f}" for rate in rates) if len(rates) > 1 else ""
    for name, value in (summary.get("rewards") or {}).items():
        yield name, f"{value['mean']:.3f}" + _of(value["n"], summary)
    for name, value in (summary.get("metrics") or {}).items():
        yield name, f"{value['mean']:.3f}" + _of(value["n"], summary)
    for name, interval in (summary.get("environments") or {}).items():
        yield name, _with_interval(interval, None)
    yield "rollouts", _counts(summary)
    rescored = summary.get("rescored")
    if rescored:
        yield "rescored", f"{rescored['at']}, {rescored['changed']} verdicts changed"
    yield "ended by", ", ".join(f"{stop} {count:,}" for stop, count in (summary.get("stops") or {}).items())
    yield "failures", ", ".join(f"{what} {count:,}" for what, count in (summary.get("failures") or {}).items())
    usage = summary.get("usage") or {}
    tokens = [f"{usage[key]:,} {word}" for key, word in _USAGE.items() if usage.get(key) is not None]
    yield "tokens", ", ".join(tokens)
    if summary.get("cost") is not None:
        yield "cost", f"${summary['cost']:.4f}"
    for key, name in (("seconds", "rollout"), ("model_seconds", "model"), ("environment_seconds", "environment")):
        yield name, ", ".join(f"{p} {_seconds(value)}" for p, value in (summary.get(key) or {}).items())


_USAGE = {"prompt_tokens": "in", "completion_tokens": "out", "reasoning_tokens": "reasoned", "cached_tokens": "cached"}


def _with_interval(interval: Mapping[str, Any] | None, mean: float | None) -> str:
    if interval is None:
        return "none: no rollout was scored" if mean is None else f"{mean:.3f}"
    sure = f"[{interval['low']:.3f}, {interval['high']:.3f}] (95 %)" if interval.get("low") is not None else ""
    over = f"over {_counted(interval['n'], 'rollout')} of {_counted(interval['clusters'], 'task')}"
    return f"{interval['mean']:.3f} {sure} {over}".replace("  ", " ")


def _counted(count: int, word: str) -> str:
    return f"1 {word}" if count == 1 else f"{count:,} {word}s"


def _bounds(rate: Mapping[str, Any]) -> str:
    return f" [{rate['low']:.3f}, {rate['high']:.3f}]" if rate.get("low") is not None else ""


def _counts(summary: Mapping[str, Any]) -> str:
    counts = {name: count for name, count in (summary.get("counts") or {}).items() if count}
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"


def _of(n: int, summary: Mapping[str, Any]) -> str:
    return "" if n == summary.get("scored") else f" over {n}"


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _seconds(value: float) -> str:
    if 0 < value < 0.0005:
        return "under 1 ms"
    return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.1f} s"
