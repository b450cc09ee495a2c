"""Whether two runs measured the same thing, by what is on record of them. Pure functions over their records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from sandlot.records import Run


def differing(first: Run, second: Run) -> list[tuple[str, str, str]]:
    """What of model and configuration the two runs do not share: name, first, second."""
    one, other = _flat({"model": first.model, **first.config}), _flat({"model": second.model, **second.config})
    names = [*one, *(name for name in other if name not in one)]
    return [(name, one.get(name, ""), other.get(name, "")) for name in names if one.get(name) != other.get(name)]


def cautions(first: Run, second: Run) -> list[str]:
    """Why the two may not have measured the same thing: other code, other tasks, unfinished."""
    found = []
    mine, others = ({one.name or one.id: one for one in run.environments} for run in (first, second))
    if mine.keys() != others.keys():
        found.append(f"They played different environments: {', '.join(mine)} and {', '.join(others)}.")
    for name in mine.keys() & others.keys():
        a, b = mine[name], others[name]
        if a.version != b.version:
            found.append(f"They played different versions of {name}: {a.version or 'none'} and {b.version or 'none'}.")
        elif a.digest and b.digest and a.digest != b.digest:
            found.append(f"The code of {name} was changed between them.")
        if a.tasks and b.tasks and a.tasks != b.tasks:
            found.append(f"Their lists of tasks of {name} differ; only what both have is compared.")
        if a.args != b.args:
            found.append(f"{name} was loaded with different arguments.")
    found += [f"{run.name or run.id} is {run.status}." for run in (first, second) if run.status != "done"]
    return found


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        elif value is not None:
            flat[prefix + name] = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return flat
