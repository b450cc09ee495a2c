"""A hub in its own process, and clean places to install into."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_SERVE = """
import sys, pathlib
from sandlot.hub import Settings, serve
serve(Settings(data_dir=pathlib.Path(sys.argv[1]), port=0), ready=lambda url: print(url, flush=True))
"""
_LIMIT = 120.0


@contextmanager
def live_hub(folder: Path) -> Iterator[str]:
    """The address of a hub that serves `folder`."""
    with running_hub(folder) as (url, server):
        try:
            yield url
        finally:
            server.terminate()
            server.wait(20)


@contextmanager
def running_hub(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A hub that serves `folder`: its address and its process, which the caller ends."""
    command = [sys.executable, "-c", _SERVE, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        url = server.stdout.readline().strip()
        assert url.startswith("http://"), server.stderr.read()
        yield url, server


@dataclass(frozen=True)
class Place:
    """A clean virtual environment, and nobody's settings."""

    folder: Path
    home: Path

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        environ = {**kept, "HOME": str(self.home), "PIP_NO_CACHE_DIR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        environ |= {"NO_PROXY": "127.0.0.1,localhost", "UV_NO_CACHE": "1", "PIP_NO_INPUT": "1", **variables}
        return subprocess.run(
            command, env=environ, cwd=self.home, capture_output=True, text=True, timeout=_LIMIT, check=False
        )

    def pip(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.python, "-m", "pip", *arguments, **variables)

    def uv(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        verb, *rest = arguments
        return self.run(sys.executable, "-m", "uv", "pip", verb, "--python", self.python, *rest, **variables)

    def version(self, name: str) -> str | None:
        """The version of a distribution that is installed here."""
        code = "import importlib.metadata as m, sys\ntry: print(m.version(sys.argv[1]))\nexcept Exception: print('')"
        return self.run(self.python, "-c", code, name).stdout.strip() or None


def new_place(folder: Path) -> Place:
    """A virtual environment with pip in it."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, timeout=_LIMIT)
    (folder / "home").mkdir()
    return Place(folder / "venv", folder / "home")
