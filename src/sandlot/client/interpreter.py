"""Asks a Python interpreter about itself: where it is, whether packages may be put there, and what is installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandlot.errors import Failed, Invalid, NotFound
from sandlot.ids import normal_name

_QUESTION = r"""
import importlib.metadata as metadata, json, os, re, sys, sysconfig
found = []
for each in metadata.distributions():
    name = each.metadata["Name"]
    if not name:
        continue
    direct = each.read_text("direct_url.json")
    tops, record = set(), ""
    for path in each.files or ():
        first = str(path).replace("\\", "/").split("/")
        if first[-1] == "RECORD" and first[0].endswith(".dist-info"):
            record = str(path.locate())
        if len(first) == 1 and first[0].endswith(".py"):
            tops.add(first[0][:-3])
        elif len(first) == 2 and first[1] == "__init__.py":
            tops.add(first[0])
    found.append({"name": name, "version": each.version, "direct_url": json.loads(direct) if direct else {},
                  "record": record, "modules": sorted(tops),
                  "environment": any(re.match(r"sandlot\b(?![-_.])", line) for line in each.requires or ())})
stdlib = sysconfig.get_path("stdlib")
print(json.dumps({
    "executable": sys.executable, "prefix": sys.prefix, "virtual": sys.prefix != sys.base_prefix,
    "version": "%d.%d.%d" % sys.version_info[:3],
    "managed": sys.prefix == sys.base_prefix and os.path.exists(os.path.join(stdlib, "EXTERNALLY-MANAGED")),
    "packages": found}))
"""
_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Distribution:
    """A package that is installed, with what its PEP 610 record says of where it came from."""

    name: str
    version: str
    modules: tuple[str, ...] = ()
    """What it can be imported as."""
    url: str = ""
    """Empty where it was found by name in an index."""
    sha256: str = ""
    """Of the file at the URL."""
    local: bool = False
    """Whether the URL is a folder of this machine."""
    owner: str | None = None
    """The hub account, where `sandlot env install` put it there."""
    digest: str | None = None
    """The release's content digest, likewise."""
    record: Path | None = None
    """Its RECORD file."""
    environment: bool = False
    """Whether it depends on sandlot."""


@dataclass(frozen=True, slots=True)
class Target:
    """An interpreter into which packages can be installed. `chosen` says why it is this one."""

    python: Path
    version: str
    prefix: Path
    chosen: str
    packages: tuple[Distribution, ...]

    def find(self, name: str) -> Distribution | None:
        """The installed package of a name in whatever spelling, or None."""
        wanted = normal_name(name)
        return next((each for each in self.packages if _normal(each.name) == wanted), None)

    def again(self) -> Target:
        """The same interpreter, asked anew."""
        return _asked(self.python, self.chosen)


def find_target(
    python: str | None = None, *, folder: Path | None = None, environ: Mapping[str, str] | None = None
) -> Target:
    """The interpreter of the project: `python` if given, else `$VIRTUAL_ENV`, else `.venv` in `folder`, else our own.

    `Invalid` with the remedy where that is the tool's own environment (pipx, uv tool) or one that the operating system
    manages; `NotFound` where there is no interpreter.
    """
    environ = os.environ if environ is None else environ
    place = (folder or Path.cwd()) / ".venv"
    active = environ.get("VIRTUAL_ENV")
    if python:
        return _asked(_executable(Path(python).expanduser()), f"--python {python}")
    if active:
        return _asked(_executable(Path(active)), "the active virtual environment")
    if place.is_dir():
        return _asked(_executable(place), f"the virtual environment {place}")
    return _asked(Path(sys.executable), "the interpreter that runs sandlot")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _executable(path: Path) -> Path:
    if path.is_file():
        return path
    for inside in ("bin/python", "Scripts/python.exe"):
        if (path / inside).is_file():
            return path / inside
    raise NotFound(f"there is no Python interpreter at {path}", hint="make one: python3 -m venv .venv")


def _asked(python: Path, chosen: str) -> Target:
    try:
        done = subprocess.run(
            [str(python), "-I", "-c", _QUESTION], capture_output=True, text=True, timeout=_SECONDS, check=True
        )
        answer = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, json.JSONDecodeError) as error:
        raise Failed(f"{python} does not work as a Python interpreter: {error}") from None
    prefix = Path(answer["prefix"])
    if (prefix / "pipx_metadata.json").exists() or (prefix / "uv-receipt.toml").exists():
        raise Invalid(
            f"{prefix} is where sandlot itself was installed as a tool; packages do not belong there",
            hint="make an environment for your project: python3 -m venv .venv",
        )
    if answer["managed"]:
        raise Invalid(
            f"{answer['executable']} belongs to the operating system, which manages its packages",
            hint="make an environment for your project: python3 -m venv .venv",
        )
    packages = tuple(_distribution(each) for each in answer["packages"])
    return Target(Path(python), answer["version"], prefix, chosen, packages)


def _distribution(answer: Mapping[str, object]) -> Distribution:
    direct = answer["direct_url"]
    direct = direct if isinstance(direct, dict) else {}
    archive = direct.get("archive_info") or {}
    hashes = archive.get("hashes") or dict([str(archive.get("hash", "=")).split("=", 1)])
    modules = answer["modules"]
    release = direct.get("sandlot") or {}
    return Distribution(
        name=str(answer["name"]),
        version=str(answer["version"]),
        modules=tuple(str(each) for each in modules) if isinstance(modules, list) else (),
        url=str(direct.get("url", "")),
        sha256=str(hashes.get("sha256", "")),
        local="dir_info" in direct,
        owner=release.get("owner"),
        digest=release.get("digest"),
        record=Path(str(answer["record"])) if answer["record"] else None,
        environment=bool(answer["environment"]),
    )
