"""The `sandlot` command as a user runs it: in a process of its own, with a home and a folder of its own."""

from __future__ import annotations

import json
import os
import signal
import site
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LIMIT = 180.0
_SOURCE = Path(__file__).parents[2] / "src"


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def record(self) -> Any:
        """What stdout says, read by a strict parser."""
        return json.loads(self.out, parse_constant=_refuse)

    def ok(self) -> Done:
        assert self.code == 0, f"exit code {self.code}\n{self.out}\n{self.err}"
        return self


@dataclass
class Shell:
    """Runs `sandlot` with the interpreter `python` in `folder`."""

    folder: Path
    home: Path
    python: str = sys.executable
    variables: dict[str, str] = field(default_factory=dict)

    def command(self, *arguments: str) -> list[str]:
        return [self.python, "-m", "sandlot", *arguments]

    @property
    def environ(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SANDLOT_", "VIRTUAL_ENV"))}
        return kept | {"SANDLOT_HOME": str(self.home), "COLUMNS": "200", **self.variables}

    def __call__(self, *arguments: str, stdin: str = "") -> Done:
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environ,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_LIMIT,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on; it is stopped at the end of the block."""
        with subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)
                    process.wait(30)


def new_shell(folder: Path, **variables: str) -> Shell:
    """A shell in an empty folder with an empty home."""
    (folder / "work").mkdir(parents=True)
    (folder / "home").mkdir()
    return Shell(folder / "work", folder / "home", variables=dict(variables))


def borrowing_venv(place: Path) -> Path:
    """A virtual environment that sees what is installed beside the tests: sandlot is there without a network."""
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True, timeout=_LIMIT)
    inside = next(place.glob("lib/python*/site-packages"))
    lent = [path for path in sys.path if "site-packages" in path] or site.getsitepackages()
    (inside / "lent.pth").write_text("\n".join([*lent, str(_SOURCE)]) + "\n")
    return place


def until(condition: Any, *, seconds: float = 30.0) -> None:
    """Waits for `condition()`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def write_package(
    folder: Path, module: str, body: str, *, version: str = "0.1.0", requires: Sequence[str] = ()
) -> Path:
    """A package with one module in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(body)
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "{module.replace("_", "-")}"\nversion = "{version}"\n'
        f"dependencies = {json.dumps(list(requires))}\n"
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        f'[tool.hatch.build.targets.wheel]\ninclude = ["{module}.py"]\n'
    )
    return folder


def _refuse(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")
