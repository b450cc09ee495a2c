"""Where a page is run: an empty folder and home, an environment of its own, and a model that answers by a script.

Invariants: nothing of the user's own settings is seen or changed; nothing that a page starts goes on after it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from pathlib import Path

from tests.docs.answers import answer
from tests.docs.page import Block, Command, Page, Wrong, commands, missing_line
from tests.tiny import make_tiny_model

from sandlot.testing import MockServer

MODEL = "smollm2-135m"
HUB_PORT = 7350
PORTS = {"sandlot view": 7351, "sandlot serve": 8000}
"""Servers that a page starts at their default port. They are given a free one, and pages still read the default."""
ROOT = Path(__file__).parents[2]
_SECONDS = 180
_READY_SECONDS = 60
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Playground:
    """The place in which one page's blocks are run, in order."""

    def __init__(self, folder: Path, page: Page, *, endpoint: str) -> None:
        self.page = page
        self.work = folder / "work"
        self.home = folder / "home"
        self._here = folder / "shell.here"
        self._exports = folder / "shell.exports"
        self._logs = folder / "logs"
        for each in (self.work, self.home, self._logs):
            each.mkdir()
        self._here.write_text(str(self.work), encoding="utf-8")
        self._exports.write_text("", encoding="utf-8")
        self.python = make_environment(folder / "venv")
        self.hub_port = free_port()
        self._ports = {self.hub_port: HUB_PORT}
        self.environ = self._environ()
        self._background: list[subprocess.Popen[bytes]] = []
        self._interpreter: subprocess.Popen[str] | None = None
        self._register(endpoint)
        if "tiny-model" in page.set_up:
            make_tiny_model(self.home / ".cache" / "sandlot" / "models" / MODEL)

    def run(self, block: Block) -> str:
        """Runs a block and gives what it printed. `AssertionError` shows where it fails or differs."""
        place = f"{self.page.path.name}:{block.line}"
        if block.language == "console":
            return "".join(self._command(each, block, place) for each in commands(block))
        if block.language == "bash":
            return self._shell(f"set -euo pipefail\n{block.text}", block.exit_code, place)
        return self._python(block, place)

    def write(self, name: str, text: str) -> None:
        """Writes a file that a page shows, below the folder that the page is in."""
        path = (self._folder() / name).resolve()
        if not path.is_relative_to(self.work):
            raise Wrong(f"{self.page.path.name} writes {name}, outside of its folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def close(self) -> None:
        """Ends what the page started."""
        if self._interpreter is not None and self._interpreter.stdin is not None:
            self._interpreter.stdin.close()
            self._interpreter.wait(timeout=30)
        for process in self._background:
            process.terminate()
        for process in self._background:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=20)
            process.kill()

    def _command(self, command: Command, block: Block, place: str) -> str:
        if command.is_background:
            output = self._start(command.text.rstrip("& "), place)
        else:
            output = self._shell(command.text, block.exit_code, f"{place}\n$ {command.text}")
        missing = missing_line(command.shown, output)
        assert missing is None, f"{place}\n$ {command.text}\nshows {missing!r}, but it printed:\n{output}"
        return output

    def _shell(self, text: str, exit_code: int, place: str) -> str:
        for port, default in self._ports.items():
            text = text.replace(f":{default}", f":{port}")
        script = (
            f'cd "$(cat {self._here})"; . {self._exports}\n{text}\n'
            f"__code=$?; pwd > {self._here}; export -p > {self._exports}; exit $__code"
        )
        done = subprocess.run(
            ["bash", "-c", script],
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS,
            check=False,
        )
        output = self._plain(done.stdout.decode(errors="replace"))
        assert done.returncode == exit_code, f"{place}\nended with {done.returncode}:\n{output}"
        return output

    def _start(self, text: str, place: str) -> str:
        """Starts a server and waits until it tells its address."""
        for name, default in PORTS.items():
            if text.startswith(name):
                port = free_port()
                self._ports[port] = default
                text = f"{text} --port {port}"
        log = self._logs / f"{len(self._background)}.txt"
        with log.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", f'cd "$(cat {self._here})"; . {self._exports}; exec {text}'],
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self._background.append(process)
        deadline = time.monotonic() + _READY_SECONDS
        while "http://" not in (output := log.read_text(errors="replace")):
            assert process.poll() is None, f"{place}\n$ {text} &\nended with {process.returncode}:\n{output}"
            assert time.monotonic() < deadline, f"{place}\n$ {text} &\ntold no address:\n{output}"
            time.sleep(0.05)
        time.sleep(0.1)
        return self._plain(log.read_text(errors="replace"))

    def _python(self, block: Block, place: str) -> str:
        if self._interpreter is None:
            self._interpreter = subprocess.Popen(
                [str(self.python), str(Path(__file__).with_name("driver.py"))],
                env=self.environ,
                cwd=self.work,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        stdin, stdout = self._interpreter.stdin, self._interpreter.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"code": block.text, "name": place, "folder": str(self._folder())}) + "\n")
        stdin.flush()
        answered = json.loads(stdout.readline())
        assert not answered["error"], f"{place}\n{answered['error']}"
        return self._plain(answered["output"])

    def _folder(self) -> Path:
        return Path(self._here.read_text(encoding="utf-8").strip())

    def _plain(self, output: str) -> str:
        output = _COLOURS.sub("", output)
        for port, default in self._ports.items():
            output = output.replace(f":{port}", f":{default}")
        return output

    def _environ(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TMPDIR") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.home),
            "PATH": f"{self.python.parent}:/usr/local/bin:/usr/bin:/bin",
            "VIRTUAL_ENV": str(self.python.parent.parent),
            "SANDLOT_HUB": f"http://127.0.0.1:{self.hub_port}",
            "SANDLOT_HUB_PORT": str(self.hub_port),
            "SANDLOT_BUILD_ISOLATION": "0",
            "COLUMNS": "120",
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": "2",
        }

    def _register(self, endpoint: str) -> None:
        """Puts a scripted model where pages name a real one, so that no page needs weights, a network or a key."""
        names = (f"local:{MODEL}", "gpt-4.1-mini")
        entries = (f'[[endpoint]]\nid = "{name}"\nmodel = "{name}"\nurl = "{endpoint}"\n' for name in names)
        folder = self.home / ".config" / "sandlot"
        folder.mkdir(parents=True)
        (folder / "endpoints.toml").write_text("\n".join(entries), encoding="utf-8")


@contextlib.contextmanager
def playground(folder: Path, page: Page) -> Iterator[Playground]:
    """A place for one page, with its model."""
    with MockServer(answer) as server:
        place = Playground(folder, page, endpoint=server.url)
        try:
            yield place
        finally:
            place.close()


def make_environment(folder: Path) -> Path:
    """A virtual environment that has what this one has, and into which packages can be put. Returns its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    seen = [path for path in sys.path if path.endswith("site-packages")] + [str(ROOT / "src")]
    (site / "shared.pth").write_text("\n".join(seen) + "\n", encoding="utf-8")
    python = folder / "bin" / "python"
    for name, module, function in (
        ("sandlot", "sandlot.cli.main", "main"),
        ("pytest", "pytest", "console_main"),
        ("pip", "pip._internal.cli.main", "main"),
    ):
        script = folder / "bin" / name
        script.write_text(f"#!{python}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n")
        script.chmod(0o755)
    return python


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
