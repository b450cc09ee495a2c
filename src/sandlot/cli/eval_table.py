"""Several evaluations as one table: a row for each environment with each model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandlot.envs import Found
from sandlot.evals import EvalConfig, differing_settings
from sandlot.records import Run

_NUMBERS = ("PASS@", "SCORED", "COST", "TIME", "TASKS")


@dataclass(frozen=True, slots=True)
class Pair:
    """One environment with one model, and its settings."""

    found: Found
    config: EvalConfig
    model: str

    def __str__(self) -> str:
        return f"{self.found.ref.name or self.found.ref.id} · {self.model}"

    @property
    def environment(self) -> str:
        """Equal for those that one loaded environment can serve."""
        return json.dumps([self.found.ref.id, self.config.args], sort_keys=True, default=repr)


@dataclass(frozen=True, slots=True)
class Done:
    """A pair as it ended, and where its run is; `run` is None for one that could not be played."""

    pair: Pair
    run: Run | None = None
    folder: Path | None = None
    first_failure: str = ""
    """What the first rollout without a verdict says; empty if there was none."""
    problem: str = ""
    """Why it could not be played."""

    @property
    def failure(self) -> str:
        """Why the pair has no figures; empty if it has some, or was asked for none."""
        if self.run is None:
            return self.problem
        if self.run.expected and not self.run.summary.get("scored"):
            first = self.first_failure or "nothing"
            return f"not one rollout of {self.run.name} was scored; the first says {first}"
        return ""

    @property
    def stopped(self) -> str:
        """Why not everything was played; empty if it was."""
        run = self.run
        if run is None or run.status == "done":
            return ""
        played = run.summary.get("rollouts", 0)
        return f"{run.message or run.status}; {played:,} of {run.expected or 0:,} rollouts were played"


def table_rows(done: Sequence[Done]) -> list[dict[str, Any]]:
    """A row for each pair, with the figures as numbers. `settings` tells apart rows of the same pair."""
    labels = _labels(done)
    return [_row(each, settings) for each, settings in zip(done, labels, strict=True)]


def comparable(done: Sequence[Done]) -> str:
    """The command that compares the runs of the first environment that has several; empty if there is none."""
    groups: dict[str, list[Path]] = {}
    for each in done:
        if each.folder is not None and not each.failure:
            groups.setdefault(each.pair.found.ref.id, []).append(each.folder)
    several = next((folders for folders in groups.values() if len(folders) > 1), [])
    return f"sandlot eval compare {' '.join(map(str, several))}" if several else ""


def aligned_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as text. What failed is said in place of its figures."""
    tries = sorted({int(k) for row in rows for k in _shown_tries(row)})
    table = [dict(_cells(row, tries)) for row in rows]
    columns = [name for name in table[0] if any(line[name] for line in table)]
    widths = {name: max(len(name), *(len(line[name]) for line in table)) for name in columns}
    lines = ["  ".join(_placed(name, name, widths[name]) for name in columns)]
    for row, line in zip(rows, table, strict=True):
        if row["failure"]:
            known = "  ".join(line[name].ljust(widths[name]) for name in columns if name in _NAMES)
            lines.append(f"{known}  failed: {_short(row['failure'])}")
        else:
            lines.append("  ".join(_placed(name, line[name], widths[name]) for name in columns))
    return "\n".join(line.rstrip() for line in lines)


_NAMES = ("ENVIRONMENT", "MODEL", "SETTINGS")


def _labels(done: Sequence[Done]) -> list[dict[str, Any]]:
    """What tells a row from the others of its environment and model."""
    groups: dict[str, list[int]] = {}
    for number, each in enumerate(done):
        groups.setdefault(str(each.pair), []).append(number)
    labels: list[dict[str, Any]] = [{} for _ in done]
    for numbers in groups.values():
        for number, label in zip(numbers, differing_settings([done[n].pair.config for n in numbers]), strict=True):
            labels[number] = label
    return labels


def _row(done: Done, settings: dict[str, Any]) -> dict[str, Any]:
    run, pair = done.run, done.pair
    summary = run.summary if run is not None else {}
    interval = summary.get("interval") or {}
    return {
        "environment": run.name if run is not None else pair.found.ref.name or pair.found.ref.id,
        "model": run.model if run is not None else pair.model,
        "settings": settings,
        "folder": str(done.folder) if done.folder else None,
        "reward": summary.get("reward"),
        "low": interval.get("low"),
        "high": interval.get("high"),
        "tasks": summary.get("tasks"),
        "scored": summary.get("scored"),
        "expected": run.expected if run is not None else None,
        "counts": summary.get("counts") or {},
        "pass_at": {str(rate["k"]): rate["at"] for rate in summary.get("pass_rates") or []},
        "cost": summary.get("cost"),
        "seconds": summary.get("seconds") or {},
        "failure": done.failure or None,
        "stopped": done.stopped or None,
    }


def _shown_tries(row: Mapping[str, Any]) -> list[str]:
    """One try and the most there are."""
    tries = list(row["pass_at"])
    return list(dict.fromkeys([*tries[:1], *tries[-1:]]))


def _cells(row: Mapping[str, Any], tries: Sequence[int]) -> Iterator[tuple[str, str]]:
    yield "ENVIRONMENT", row["environment"]
    yield "MODEL", row["model"]
    yield "SETTINGS", ", ".join(f"{name}={json.dumps(value)}" for name, value in row["settings"].items())
    yield "REWARD", _number(row["reward"])
    yield "95 %", "" if row["low"] is None else f"[{row['low']:.3f}, {row['high']:.3f}]"
    for k in tries:
        yield f"PASS@{k}", _number(row["pass_at"].get(str(k)))
    yield "TASKS", f"{row['tasks'] or 0:,}"
    yield "SCORED", f"{row['scored'] or 0:,}/{row['expected'] or 0:,}"
    yield "COST", "" if row["cost"] is None else f"${row['cost']:.4f}"
    for name in ("p50", "p95"):
        value = row["seconds"].get(name)
        yield (
            f"TIME {name.upper()}",
            "" if value is None else f"{1000 * value:.0f} ms" if value < 1 else f"{value:.1f} s",
        )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _placed(name: str, text: str, width: int) -> str:
    return text.rjust(width) if name.startswith(_NUMBERS) else text.ljust(width)


def _short(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= 100 else f"{line[:99]}…"
