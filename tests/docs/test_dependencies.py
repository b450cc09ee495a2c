"""Every dependency has a reason on record, and the base install stays small."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib

from packaging.requirements import Requirement
from tests.docs.playground import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RECORD = (ROOT / "docs" / "decisions" / "0004-dependencies.md").read_text(encoding="utf-8")
MOST = 35


def names(requirements: list[str]) -> set[str]:
    return {Requirement(each).name.lower() for each in requirements}


def closure(roots: set[str]) -> set[str]:
    """The distributions that come with `roots`, as they are installed here."""
    seen: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        for text in importlib.metadata.distribution(name).requires or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                waiting.append(needed.name)
    return seen


def test_every_dependency_stands_in_the_record_of_what_each_does_for_us() -> None:
    extras = PROJECT["optional-dependencies"]
    wanted = names([*PROJECT["dependencies"], *extras["hub"], *extras["train"]])
    assert not {name for name in wanted if name not in RECORD}


def test_the_base_install_is_small_and_as_the_record_says() -> None:
    found = closure(names(PROJECT["dependencies"]))
    # The record counts sandlot itself. Which ones come along differs a little between versions of Python.
    said = re.search(r"The base install is (\d+) distributions", RECORD)
    assert said is not None
    assert len(found) + 1 <= MOST
    assert abs(len(found) + 1 - int(said[1])) <= 3
