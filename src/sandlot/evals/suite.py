"""One file, many evaluations: `[[eval]]` blocks over the settings that stand above them, and sweeps.

Invariants: every evaluation is checked whole before one of them starts, and a wrong key is named with its block; what
the command line says holds for all of them; two that would be the same are one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from sandlot.config import build, merge, nearest, nested
from sandlot.errors import Invalid
from sandlot.evals.config import EvalConfig

MOST_EVALUATIONS = 1000
"""More evaluations than this in one call are taken for a sweep that was not meant."""


class EvalFile(EvalConfig):
    """What a config file of `sandlot eval` may hold: the settings of one evaluation, or what several have in common."""

    eval: list[dict[str, Any]] = Field(default_factory=list)
    """Several evaluations: each `[[eval]]` has any of the other keys, over what stands above."""
    sweep: dict[str, Any] = Field(default_factory=dict)
    """Lists of values for any of the other keys, such as `sampling.temperature = [0.0, 1.0]`: every combination of
    them is an evaluation of its own. It may stand in an `[[eval]]`, too: `[eval.sweep]`."""


def expand(table: Mapping[str, Any], over: Mapping[str, Any], *, source: str = "the config") -> list[EvalConfig]:
    """The evaluations that `table` describes, `over` having the last word on each. `Invalid` names what is wrong."""
    if "eval" in over:
        raise Invalid("[[eval]] blocks stand in a file", hint="sandlot eval @ evals.toml")
    shared, over_all = (
        {name: value for name, value in each.items() if name not in ("eval", "sweep")} for each in (table, over)
    )
    blocks = table.get("eval", [])
    if not isinstance(blocks, list) or not all(isinstance(block, Mapping) for block in blocks):
        raise Invalid(f"{source}: eval is a list of tables", hint="write [[eval]], with two brackets")
    configs: list[EvalConfig] = []
    seen: set[str] = set()
    for number, block in enumerate(blocks or [{}], start=1):
        where = f"{source}, [[eval]] {number}" if blocks else source
        settings = {name: value for name, value in block.items() if name != "sweep"}
        sweep: dict[str, Any] = {}
        for each in (table, block, over):
            sweep = merge(sweep, _table(each.get("sweep", {}), where))
        for point in _points(sweep, where):
            config = build(EvalConfig, merge(merge(merge(shared, settings), point), over_all), source=where)
            # Two evaluations may be equal and yet have been told different things: the second is what counts then.
            key = f"{config.model_dump_json()} {sorted(config.model_fields_set)}"
            if key not in seen:
                seen.add(key)
                configs.append(config)
            if len(configs) > MOST_EVALUATIONS:
                raise Invalid(f"{source} describes more than {MOST_EVALUATIONS} evaluations", hint="sweep over less")
    return configs


def differing_settings(configs: list[EvalConfig]) -> list[dict[str, Any]]:
    """For each of `configs` the settings, by dotted name, that not all of them share."""
    ignored = {"environments", "models", "output", "save"}
    flat = [dict(_leaves(config.model_dump(mode="json", exclude=ignored))) for config in configs]
    names = list(dict.fromkeys(name for table in flat for name in table))
    differing = [name for name in names if any(table.get(name) != flat[0].get(name) for table in flat)]
    return [{name: table.get(name) for name in differing} for table in flat]


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Invalid(f"{where}: sweep is a table of lists, found {value!r}", hint="sampling.temperature = [0.0, 1.0]")
    return value


def _points(sweep: Mapping[str, Any], where: str) -> Iterator[dict[str, Any]]:
    """Every combination of the sweep's values, as tables; one empty table where there is no sweep."""
    axes = dict(_leaves(sweep))
    for name, values in axes.items():
        top = name.partition(".")[0]
        if top not in EvalConfig.model_fields:
            near = nearest(top, list(EvalConfig.model_fields))
            raise Invalid(f"{where}: unknown key 'sweep.{name}'" + (f" (did you mean {near!r}?)" if near else ""))
        if not isinstance(values, list) or not values:
            raise Invalid(f"{where}: sweep.{name} needs a list of values, found {values!r}", hint=f"{name} = [1, 2]")
    for chosen in itertools.product(*axes.values()):
        point: dict[str, Any] = {}
        for name, value in zip(axes, chosen, strict=True):
            point = merge(point, nested(name, value))
        yield point


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
