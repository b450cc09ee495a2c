"""A home and a working folder of a test's own, and a way to call the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandlot.cli.main import run


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def record(self) -> Any:
        return json.loads(self.out)

    @property
    def problem(self) -> Any:
        return json.loads(self.err.strip().splitlines()[-1])


Shell = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("SANDLOT_HOME", str(folder))
    for name in ("SANDLOT_HUB", "SANDLOT_KEY"):
        monkeypatch.delenv(name, raising=False)
    work = tmp_path_factory.mktemp("work")
    monkeypatch.chdir(work)
    return folder


@pytest.fixture
def sandlot(capfd: pytest.CaptureFixture[str]) -> Shell:
    """Calls the command line in this process: `sandlot("env", "list").out`."""

    def call(*arguments: str) -> Outcome:
        capfd.readouterr()
        code = run(arguments)
        out, err = capfd.readouterr()
        return Outcome(code, out, err)

    return call
