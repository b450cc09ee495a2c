"""Which Python there is in a sandbox of the original API, and which packages beside its own library.

Invariants: a sandbox sees Python's own library and the packages that were asked for by name, never the folder that
they are installed in, because an environment may be among them, with its answers.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
from pathlib import Path

from sandlot.envs.repl_packages import found

PACKAGES = "/opt/packages"
PROGRAMS = "/opt/bin"
"""First in the path: `python` and `python3` are there."""

_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"


@functools.cache
def interpreter() -> tuple[str | None, dict[str, str]]:
    """The Python of a sandbox and what has to be bound for it: this process's own, else the system's; None: none."""
    base = Path(sys.base_prefix).resolve()
    own = str(Path(getattr(sys, "_base_executable", None) or sys.executable).resolve())
    if base.is_relative_to("/usr"):
        return own, {}
    if _reachable(base):
        beside = base / "lib" / _VERSION / "site-packages"
        return own, {str(base): str(base), **({str(beside): ""} if beside.is_dir() else {})}
    return shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin"), {}


def packages(requirements: str) -> tuple[dict[str, str], list[str]]:
    """What has to be bound for the packages in `requirements`, and those that are not here or cannot be seen."""
    paths, missing = found(requirements)
    python, _ = interpreter()
    same = python is not None and Path(python).resolve().name in (_VERSION, "python")
    hidden = [path for path in paths if not same or not _reachable(path)]
    if hidden:
        names = [match.group() for word in requirements.split() if (match := re.match(r"[\w.-]+", word))]
        return {}, sorted(names)
    return {f"{PACKAGES}/{path.name}": str(path) for path in paths}, missing


def _reachable(path: Path) -> bool:
    """Whether whom commands run as can get there. Where this is root, they run as a user without rights."""
    if os.geteuid() != 0:
        return True
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents) if folder.is_dir())
