"""Installs releases of a hub into a project's interpreter.

Invariants: a release is fetched by its own URL with its sha256, never through an extra index; what is installed already
stays at its version, the SDK too; packages of two owners that would be imported by one name are not both installed; the
key is given to the installer only for a private package, and only for the hub's host.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet

from sandlot.api import FileInfo, ReleaseInfo
from sandlot.client.connection import normal_origin
from sandlot.client.interpreter import Distribution, Target
from sandlot.errors import Conflict, Failed, Invalid
from sandlot.ids import module_name, normal_name

INSTALL_SECONDS = 1800.0
SDK = "sandlot"


@dataclass(frozen=True, slots=True)
class Installed:
    """What became of one release. `changed` is False where it was there already."""

    owner: str
    name: str
    version: str
    digest: str
    changed: bool
    replaced: str | None = None
    """The version that was there before."""


def install_releases(
    releases: Sequence[ReleaseInfo], target: Target, *, netrc_key: tuple[str, str] | None = None
) -> list[Installed]:
    """Installs `releases` together into `target`, with what they depend on from the user's own index.

    `netrc_key` is the hub's origin and key, needed where a release is private. Raises `Conflict` for two owners of one
    import name or an SDK that does not fit, `Invalid` for a wrong Python version, `Failed` with the installer's words.
    """
    wanted = [(release, _wheel(release)) for release in releases]
    before = {release.name: target.find(release.name) for release in releases}
    _check_modules(releases, target)
    for release in releases:
        _check_versions(release, target)
    missing = [(release, file) for release, file in wanted if not _is_there(release, file, before[release.name])]
    if missing:
        requirements = [f"{release.name} @ {file.url}#sha256={file.sha256}" for release, file in missing]
        if target.find(SDK) is None:
            requirements.append(missing[0][0].install.sdk_requirement)
        stale = [each for each in (before[release.name] for release, _ in missing) if each is not None]
        with _netrc(netrc_key) as environment:
            _run_installer(target, requirements, stale, environment)
        target = target.again()
        for release, _ in missing:
            _note_origin(release, target.find(release.name))
    changed = {release.name for release, _ in missing}
    return [_outcome(release, before[release.name], release.name in changed) for release in releases]


def uninstall(name: str, target: Target) -> Distribution:
    """Removes one environment. Raises `Invalid` where it is not installed, or is a package of another kind."""
    found = target.find(name)
    if found is None:
        raise Invalid(f"{name} is not installed in {target.prefix}", hint="sandlot env list --installed")
    if not _is_environment(found):
        raise Invalid(
            f"{found.name} {found.version} in {target.prefix} is no environment: it does not depend on {SDK}",
            hint=f"if it is to go all the same: {_removal(found, target)}",
        )
    _run(_uninstall_command(target, [found.name]), dict(os.environ))
    return found


def _is_environment(found: Distribution) -> bool:
    return found.environment or found.owner is not None


def _removal(found: Distribution, target: Target) -> str:
    """The command that removes a package: ours does it for environments only."""
    if _is_environment(found):
        return f"sandlot env uninstall {found.name}"
    return f"{target.python} -m pip uninstall {found.name}"


def _outcome(release: ReleaseInfo, before: Distribution | None, changed: bool) -> Installed:
    return Installed(
        owner=release.owner,
        name=release.name,
        version=release.version,
        digest=release.digest,
        changed=changed,
        replaced=before.version if before is not None and changed else None,
    )


def _wheel(release: ReleaseInfo) -> FileInfo:
    found = [file for file in release.files if file.kind == "wheel"]
    if not found:
        raise Invalid(f"{release.owner}/{release.name}@{release.version} has no wheel, so it cannot be installed")
    return found[0]


def _is_there(release: ReleaseInfo, file: FileInfo, found: Distribution | None) -> bool:
    return found is not None and found.owner == release.owner and found.sha256 == file.sha256


def _check_modules(releases: Sequence[ReleaseInfo], target: Target) -> None:
    taken: dict[str, str] = {}
    for release in releases:
        full, module = f"{release.owner}/{release.name}", module_name(release.name)
        other = taken.setdefault(module, full)
        if other != full:
            raise Conflict(
                f"{full} and {other} are both imported as {module}, so only one of them can be installed",
                hint="use an environment of its own for each: python3 -m venv .venv",
            )
        for each in target.packages:
            same = normal_name(each.name) == release.name
            if same and (each.owner == release.owner or each.local):
                continue
            if same or module in each.modules:
                whose = f"{each.owner}/{each.name}" if each.owner else each.name
                raise Conflict(
                    f"{whose} {each.version} is installed in {target.prefix} and is imported as {module}, "
                    f"as {full} would be",
                    hint=f"remove it first ({_removal(each, target)}), or use another environment (--python)",
                )


def _check_versions(release: ReleaseInfo, target: Target) -> None:
    project = release.manifest.get("project", {})
    python = project.get("requires_python", "")
    if python and target.version not in SpecifierSet(python):
        raise Invalid(
            f"{release.owner}/{release.name}@{release.version} needs Python {python}; "
            f"{target.python} is {target.version}",
            hint="choose another interpreter with --python",
        )
    sdk = target.find(SDK)
    for text in project.get("dependencies", []):
        try:
            needed = Requirement(text)
        except InvalidRequirement:
            continue
        if sdk is not None and normal_name(needed.name) == SDK and not needed.specifier.contains(sdk.version, True):
            raise Conflict(
                f"{release.owner}/{release.name}@{release.version} needs {needed}; {sdk.version} is installed",
                hint=f"upgrade sandlot first: pip install '{release.install.sdk_requirement}'",
            )


@contextmanager
def _netrc(key: tuple[str, str] | None) -> Iterator[dict[str, str]]:
    """The installer's environment; with a key, it holds a netrc file that adds the hub's host to the user's own."""
    environment = dict(os.environ)
    environment.pop("SANDLOT_KEY", None)
    if key is None:
        yield environment
        return
    origin, secret = key
    own = Path(environment.get("NETRC") or Path.home() / ".netrc")
    lines = own.read_text(encoding="utf-8") + "\n" if own.is_file() else ""
    lines = f"machine {urlsplit(normal_origin(origin)).hostname} login __token__ password {secret}\n" + lines
    with tempfile.TemporaryDirectory(prefix="sandlot-install-") as scratch:
        file = Path(scratch) / "netrc"
        file.touch(mode=0o600)
        file.write_text(lines, encoding="utf-8")
        yield {**environment, "NETRC": str(file)}


def _run_installer(
    target: Target, requirements: Sequence[str], stale: Sequence[Distribution], environment: dict[str, str]
) -> None:
    uv = shutil.which("uv")
    if uv:
        again = [flag for each in stale for flag in ("--reinstall-package", each.name)]
        _run([uv, "pip", "install", "--quiet", "--python", str(target.python), *again, *requirements], environment)
        return
    if stale:
        # pip takes a release for installed when the version is the same, whatever the file; so the old one goes first.
        _run(_uninstall_command(target, [each.name for each in stale]), environment)
    command = [*_pip(target), "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    _run([*command, *requirements], environment)


def _uninstall_command(target: Target, names: Sequence[str]) -> list[str]:
    uv = shutil.which("uv")
    if uv:
        return [uv, "pip", "uninstall", "--quiet", "--python", str(target.python), *names]
    return [*_pip(target), "uninstall", "--quiet", "--yes", *names]


def _pip(target: Target) -> list[str]:
    if target.find("pip") is not None:
        return [str(target.python), "-m", "pip"]
    return [sys.executable, "-m", "pip", "--python", str(target.python)]


def _run(command: Sequence[str], environment: dict[str, str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=INSTALL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"the installer took more than {INSTALL_SECONDS:.0f} s and was stopped") from None
    if done.returncode == 0:
        return
    log = (done.stderr or done.stdout).strip()
    if "No module named pip" in log:
        raise Failed("neither uv nor pip is there to install with", hint="pip install uv, or python -m ensurepip")
    tool = Path(command[0]).name if "uv" in Path(command[0]).name else "pip"
    raise Failed(f"{tool} could not do it:\n" + "\n".join(f"    {line}" for line in log.splitlines()[-15:]))


def _note_origin(release: ReleaseInfo, found: Distribution | None) -> None:
    """Adds owner and content digest to the PEP 610 record, whose readers skip keys that they do not know.

    The file's own hash is written too: the installer has checked it, but uv does not put it on record.
    """
    if found is None or found.record is None:
        raise Failed(f"{release.name} was installed, but its record cannot be found")
    file = found.record.with_name("direct_url.json")
    record = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"url": _wheel(release).url}
    wheel = _wheel(release)
    origin = normal_origin(wheel.url)
    record["archive_info"] = {"hash": f"sha256={wheel.sha256}", "hashes": {"sha256": wheel.sha256}}
    record["sandlot"] = {"hub": origin, "owner": release.owner, "name": release.name, "digest": release.digest}
    content = json.dumps(record).encode()
    file.write_bytes(content)
    hashed = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    path = f"{found.record.parent.name}/direct_url.json"
    lines = [line for line in found.record.read_text(encoding="utf-8").splitlines() if not line.startswith(f"{path},")]
    found.record.write_text("\n".join([*lines, f"{path},sha256={hashed},{len(content)}"]) + "\n", encoding="utf-8")
