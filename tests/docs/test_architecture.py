"""ARCHITECTURE.md says what the tests hold: the tree, and who may import whom."""

from __future__ import annotations

import re

from tests.architecture.test_layers import MAY_IMPORT
from tests.architecture.tree import ROOT, SOURCE

TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
EVERYTHING = "every unit but testing"


def rows(heading: str) -> list[tuple[str, str]]:
    section = TEXT.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found = [re.fullmatch(r"\| (.+?) \| (.+?) \|", line) for line in section.splitlines()]
    return [(match[1], match[2]) for match in found if match and set(match[1]) != {"-"}][1:]


def test_the_table_of_imports_is_the_one_that_the_tests_hold() -> None:
    standing = set(MAY_IMPORT) - {"__main__"}
    written: dict[str, set[str]] = {}
    for units, allowed in rows("Who may import whom"):
        names = set() if allowed == "nothing" else set(allowed.split())
        for unit in units.replace(" (`__init__`)", "").split(", "):
            written[unit] = standing - {"testing", "cli"} if allowed == EVERYTHING else names
    assert written == {unit: MAY_IMPORT[unit] & standing for unit in standing}


def test_the_tree_names_every_unit_and_nothing_that_is_not_there() -> None:
    named = set()
    for places, _ in rows("The tree"):
        base = ""
        for place in re.findall(r"`([^`]+)`", places):
            base = place.rpartition("/")[0] if "/" in place and not place.endswith("/") else base
            path = ROOT / place if "/" in place else ROOT / base / place
            assert path.exists(), place
            named.add(path.resolve())
    units = {path for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert not units - named - {SOURCE / "__main__.py"}
