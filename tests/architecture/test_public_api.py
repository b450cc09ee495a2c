"""The public names and how they are called, held against a snapshot: nothing disappears or changes unseen.

After a change that is meant: `python -m tests.architecture.test_public_api` writes the snapshot anew.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import sandlot

SNAPSHOT = Path(__file__).parents[1] / "golden" / "public_api.txt"


def described(name: str) -> list[str]:
    value = getattr(sandlot, name)
    if not inspect.isclass(value):
        return [f"{name}{inspect.signature(value)}" if inspect.isroutine(value) else name]
    lines = [f"class {name}"]
    for member, attribute in sorted(inspect.getmembers_static(value)):
        function = attribute.__func__ if isinstance(attribute, classmethod | staticmethod) else attribute
        ours = getattr(function, "__module__", "") or ""
        if member.startswith("_") and member != "__init__":
            continue
        if inspect.isfunction(function) and ours.startswith("sandlot"):
            lines.append(f"    {member}{inspect.signature(function)}")
        elif isinstance(attribute, property):
            lines.append(f"    {member} (property)")
    return lines


def surface() -> str:
    names = sorted(name for name in sandlot.__all__ if name != "__version__")
    text = "\n".join(line for name in names for line in described(name)) + "\n"
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def test_the_public_api_is_as_the_snapshot_says() -> None:
    assert surface() == SNAPSHOT.read_text(encoding="utf-8")


if __name__ == "__main__":
    SNAPSHOT.write_text(surface(), encoding="utf-8")
