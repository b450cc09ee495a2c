"""Builds a release out of a package's folder: wheel, source distribution and manifest.

Invariants: it is built from a copy that holds only what may be published, by the standard build front end and at a
fixed time, so that an unchanged tree gives the same digest; the folder itself is never written to; what is wrong with
the project is said before anything is built.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from sandlot.config import nearest, read_toml
from sandlot.envs.manifest import describe_release
from sandlot.envs.sources import Sources, copy_sources, find_secrets, list_sources
from sandlot.errors import Failed, Invalid, MissingDependency, NotFound
from sandlot.ids import normal_name
from sandlot.records import Manifest

BUILD_SECONDS = 600.0
"""How long a build may take."""
_EPOCH = "1577836800"
"""2020-01-01: the time of every file in a release, unless SOURCE_DATE_EPOCH says another."""
_PROJECT_KEYS = (
    "name", "version", "description", "readme", "requires-python", "license", "license-files", "authors", "maintainers",
    "keywords", "classifiers", "urls", "scripts", "gui-scripts", "entry-points", "dependencies",
    "optional-dependencies", "dynamic", "tags", "import-names", "import-namespaces",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Built:
    """A release on disk, ready to be published."""

    wheel: Path
    sdist: Path
    manifest: Manifest
    sources: Sources


def build_release(
    folder: Path,
    target: Path,
    *,
    isolated: bool = True,
    allow_secrets: Sequence[str] = (),
    python: Path | None = None,
) -> Built:
    """Builds the package in `folder` into the folder `target`.

    `isolated` builds with a fresh copy of the build backend, which has to be fetched; otherwise with the installed one.
    `allow_secrets` names files that may hold what looks like a key. `python` is the interpreter that loads the
    environment to describe it (default: the running one). Raises `NotFound` where there is no pyproject.toml,
    `Invalid` for what is wrong in the project, `Failed` with the end of the build's log.
    """
    check_project(folder)
    sources = list_sources(folder)
    secrets = [place for place in find_secrets(sources) if place.rpartition(":")[0] not in allow_secrets]
    if secrets:
        raise Invalid(
            f"what looks like a key is written in {', '.join(secrets)}; nothing was built",
            hint="read it from an environment variable, or allow the file with --allow-secret FILE",
        )
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sandlot-build-") as scratch:
        tree = Path(scratch) / folder.resolve().name
        copy_sources(sources, tree)
        _move_tags(tree / "pyproject.toml")
        _run_build(tree, Path(scratch) / "dist", isolated=isolated)
        wheel, sdist = (_the_one(Path(scratch) / "dist", suffix) for suffix in (".whl", ".tar.gz"))
        wheel, sdist = (Path(shutil.copy2(file, target)) for file in (wheel, sdist))
    return Built(wheel, sdist, describe_release(wheel, sdist, python=python), sources)


def check_project(folder: Path) -> dict[str, Any]:
    """The `[project]` table of the package in `folder`. `NotFound` or `Invalid` says what is missing or wrong in it."""
    file = folder / "pyproject.toml"
    if not folder.is_dir():
        raise NotFound(f"there is no folder {folder}", hint="sandlot env init my-env makes one")
    if not file.is_file():
        raise NotFound(
            f"{folder} holds no pyproject.toml, so it is not a package",
            hint="name the package's own folder, or start one with sandlot env init my-env",
        )
    table = read_toml(file)
    project = table.get("project")
    if not isinstance(project, dict):
        raise Invalid(f"{file} has no [project] table", hint='add [project] with name = "my-env" and version = "0.1.0"')
    dynamic = project.get("dynamic", [])
    for key in ("name", "version"):
        if key not in dynamic and not isinstance(project.get(key), str):
            raise Invalid(f"[project] in {file} has no {key}", hint=f'add {key} = "{_EXAMPLES[key]}" under [project]')
    for key in project:
        if key not in _PROJECT_KEYS:
            near = nearest(key, _PROJECT_KEYS)
            raise Invalid(
                f"[project] in {file} has an unknown key {key!r}", hint=f"did you mean {near}?" if near else None
            )
    normal_name(project["name"])
    _check_version(project.get("version"), file)
    _check_tags(table, file)
    return project


_EXAMPLES = {"name": "my-env", "version": "0.1.0"}


def project_tags(table: dict[str, Any]) -> list[str]:
    """The search tags of a pyproject.toml: of `[tool.sandlot]`, `[project] tags` and `keywords`, sorted."""
    project, tool = table.get("project", {}), table.get("tool", {}).get("sandlot", {})
    return sorted({*tool.get("tags", []), *project.get("tags", []), *project.get("keywords", [])})


def _check_version(version: str | None, file: Path) -> None:
    try:
        found = Version(version) if version is not None else None
    except InvalidVersion:
        raise Invalid(
            f"[project] version {version!r} in {file} is not a version",
            hint="write it like 0.1.0 or 0.2.0rc1 (PEP 440)",
        ) from None
    if found is not None and found.local:
        raise Invalid(f"version {version} in {file} is a local one ('+{found.local}') and cannot be published")


def _check_tags(table: dict[str, Any], file: Path) -> None:
    tool = table.get("tool", {}).get("sandlot", {})
    for place, value in (
        ("[tool.sandlot] tags", tool.get("tags", [])),
        ("[project] tags", table["project"].get("tags", [])),
        ("[project] keywords", table["project"].get("keywords", [])),
    ):
        if not isinstance(value, list) or not all(isinstance(tag, str) and tag.strip() for tag in value):
            raise Invalid(f"{place} in {file} is {value!r}", hint='write a list of words, such as ["math", "tools"]')
        if any("," in tag or "\n" in tag for tag in value):
            raise Invalid(f"{place} in {file}: a tag holds a comma or a line break", hint="write each tag by itself")


def _move_tags(file: Path) -> None:
    """Writes all tags as `keywords`, which every build backend puts into the wheel; some refuse `[project] tags`."""
    text = file.read_text(encoding="utf-8")
    table = tomllib.loads(text)
    tags = project_tags(table)
    if "tags" not in table["project"] and set(tags) == set(table["project"].get("keywords", [])):
        return
    listed = ", ".join('"' + tag.replace("\\", "\\\\").replace('"', '\\"') + '"' for tag in tags)
    lines = list(_without_keys(text.splitlines(), ("tags", "keywords")))
    header = next(index for index, line in enumerate(lines) if _HEADER.match(line))
    lines[header + 1 : header + 1] = [
        f"# The tags of this package, put together when it was published.\nkeywords = [{listed}]"
    ]
    changed = "\n".join(lines) + "\n"
    expected = {**table["project"], "keywords": tags}
    expected.pop("tags", None)
    if tomllib.loads(changed)["project"] != expected:
        raise Invalid(
            "the tags could not be moved out of [project] in pyproject.toml",
            hint='write them as keywords = ["..."] under [project]',
        )
    file.write_text(changed, encoding="utf-8")


_HEADER = re.compile(r"^\s*\[\s*project\s*\]\s*(#.*)?$")


def _without_keys(lines: list[str], keys: Sequence[str]) -> Iterator[str]:
    """`lines` without the values that `keys` have in the `[project]` table, however many lines they take."""
    inside = False
    index = 0
    while index < len(lines):
        line = lines[index]
        if re.match(r"^\s*\[", line):
            inside = bool(_HEADER.match(line))
        width = 1
        if inside and re.match(rf"^\s*({'|'.join(keys)})\s*=", line):
            width = _value_width(lines[index:])
        else:
            yield line
        index += width


def _value_width(lines: list[str]) -> int:
    for width in range(1, len(lines) + 1):
        try:
            tomllib.loads("\n".join(lines[:width]))
        except tomllib.TOMLDecodeError:
            continue
        return width
    return 1


def _run_build(tree: Path, target: Path, *, isolated: bool) -> None:
    command = [sys.executable, "-m", "build", "--outdir", str(target)]
    if not isolated:
        command.append("--no-isolation")
    elif shutil.which("uv"):
        command += ["--installer", "uv"]
    environment = {"SOURCE_DATE_EPOCH": _EPOCH, **os.environ, "NO_COLOR": "1", "PYTHONHASHSEED": "0"}
    environment.pop("PYTHONPATH", None)
    with _time_limit(BUILD_SECONDS, "the build"):
        done = subprocess.run(
            [*command, str(tree)], capture_output=True, text=True, env=environment, timeout=BUILD_SECONDS, check=False
        )
    if done.returncode == 0:
        return
    log = (done.stdout + done.stderr).strip()
    if "No module named build" in log:
        raise MissingDependency("the package `build` is not installed beside sandlot", hint="pip install build")
    raise Failed(
        "the package did not build; the end of the log:\n"
        + "\n".join(f"    {line}" for line in log.splitlines()[-15:]),
        hint="if the build backend could not be fetched: install it, and add --no-isolation" if isolated else None,
    )


@contextmanager
def _time_limit(seconds: float, what: str) -> Iterator[None]:
    try:
        yield
    except subprocess.TimeoutExpired:
        raise Failed(f"{what} took more than {seconds:.0f} s and was stopped") from None


def _the_one(folder: Path, suffix: str) -> Path:
    found = sorted(folder.glob(f"*{suffix}"))
    if len(found) != 1:
        raise Failed(f"the build made {len(found)} files *{suffix}; one was expected")
    if suffix == ".whl" and not found[0].name.endswith("-none-any.whl"):
        raise Invalid(
            f"{found[0].name} runs on one kind of machine only; a published environment is pure Python",
            hint="put compiled parts into a package of their own and depend on it",
        )
    if not zipfile.is_zipfile(found[0]) and suffix == ".whl":
        raise Failed(f"the build made {found[0].name}, which is not a zip file")
    return found[0]
