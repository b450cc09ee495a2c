"""Makes the manifest of a release.

The static part is read from the wheel as it is, so that a hub derives the same one; the probed part comes from loading
the built wheel in a process of its own, which has a time limit. A probe that fails is recorded, not raised.
"""

from __future__ import annotations

import email.parser
import email.policy
import os
import subprocess
import sys
import tempfile
import traceback
import zipfile
from pathlib import Path
from typing import Literal

import msgspec

from sandlot import __version__
from sandlot.envs.load import Found, load
from sandlot.errors import Invalid, SandlotError
from sandlot.ids import content_digest, module_name, sha256_hex
from sandlot.records import EnvironmentRef, Manifest, Probe, Project, ReleaseFile

PROBE_SECONDS = 120.0
"""How long loading an environment may take when it is described."""
_FAILURE_CHARACTERS = 4000


def describe_release(wheel: Path, sdist: Path, *, python: Path | None = None) -> Manifest:
    """The manifest of a built release. `python` loads the environment for the probe (default: the running one).

    `Invalid` if the wheel has no readable metadata, or no module of the package's name.
    """
    entries = wheel_entries(wheel)
    project = read_project(entries)
    module = module_name(project.name)
    if f"{module}.py" not in entries and f"{module}/__init__.py" not in entries:
        tops = sorted({path.split("/")[0] for path in entries if ".dist-info/" not in path})
        raise Invalid(
            f"the wheel of {project.name} holds no module {module}; it holds {', '.join(tops) or 'nothing'}",
            hint=f'name the file {module}.py and list it under [tool.hatch.build] include = ["{module}.py"]',
        )
    return Manifest(
        project=project,
        files=[_release_file(wheel, "wheel"), _release_file(sdist, "sdist")],
        digest=wheel_digest(entries),
        sdk=__version__,
        probe=probe(wheel, module, python=python),
    )


def wheel_entries(wheel: Path) -> dict[str, bytes]:
    """The files in a wheel by path. `Invalid` if it is not a zip file."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return {entry.filename: archive.read(entry) for entry in archive.infolist() if not entry.is_dir()}
    except (zipfile.BadZipFile, OSError) as error:
        raise Invalid(f"{wheel.name} is not a wheel: {error}") from None


def wheel_digest(entries: dict[str, bytes]) -> str:
    """The content digest of a wheel: over its unpacked entries."""
    return content_digest(entries.items())


def read_project(entries: dict[str, bytes]) -> Project:
    """A wheel's own METADATA. `Invalid` if there is none or it names no project."""
    paths = [path for path in entries if path.count("/") == 1 and path.endswith(".dist-info/METADATA")]
    if len(paths) != 1:
        raise Invalid(f"the wheel holds {len(paths)} METADATA files; one was expected")
    parser = email.parser.BytesParser(policy=email.policy.compat32)
    fields = parser.parsebytes(entries[paths[0]])
    body = fields.get_payload(decode=True)

    def text(key: str) -> str:
        value = str(fields.get(key, "")).strip()
        return "" if value == "UNKNOWN" else value

    if not text("Name") or not text("Version"):
        raise Invalid("the wheel's METADATA names no project and version")
    urls = (line.partition(",") for line in fields.get_all("Project-URL", []))
    return Project(
        name=text("Name"),
        version=text("Version"),
        summary=text("Summary"),
        requires_python=text("Requires-Python"),
        dependencies=[str(line).strip() for line in fields.get_all("Requires-Dist", [])],
        license=text("License-Expression") or text("License"),
        tags=[tag.strip() for tag in text("Keywords").split(",") if tag.strip()],
        readme=body.decode("utf-8", errors="replace") if isinstance(body, bytes) else "",
        urls={label.strip(): url.strip() for label, _, url in urls},
    )


def probe(wheel: Path, module: str, *, python: Path | None = None, seconds: float = PROBE_SECONDS) -> Probe:
    """What `module` of `wheel` says when it is loaded. A failure, a crash or the limit is in `Probe.failure`."""
    with tempfile.TemporaryDirectory(prefix="sandlot-probe-") as scratch:
        unpacked, answer = Path(scratch) / "wheel", Path(scratch) / "probe.json"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
        code = "import sys; from sandlot.envs.manifest import write_probe; write_probe(*sys.argv[1:])"
        command = [str(python or sys.executable), "-c", code, str(unpacked), module, str(answer)]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env={key: value for key, value in os.environ.items() if key != "SANDLOT_KEY"},
                cwd=scratch,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Probe(failure=f"load_environment() took more than {seconds:.0f} s and was stopped")
        except OSError as error:
            return Probe(failure=f"{command[0]} could not be started: {error}")
        try:
            return msgspec.json.decode(answer.read_bytes(), type=Probe)
        except (OSError, msgspec.DecodeError):
            log = done.stderr.decode(errors="replace").strip()
            return Probe(failure=f"the process ended with exit code {done.returncode}\n{log}"[-_FAILURE_CHARACTERS:])


def write_probe(folder: str, module: str, answer: str) -> None:
    """Runs inside the probe's process: loads `module` from `folder`, writes what it describes to the file `answer`."""
    try:
        place = Found(ref=EnvironmentRef(id=module, name=module), module=module, path=Path(folder))
        found = load(place).describe()
    except Exception as error:  # the boundary to the author's code: whatever it raises is what the probe saw
        cause = error.__cause__ or error
        lines = traceback.format_exception(cause) if not isinstance(cause, SandlotError) else []
        found = Probe(failure="".join([*lines, str(error).replace(folder + "/", "")])[-_FAILURE_CHARACTERS:])
    Path(answer).write_bytes(msgspec.json.encode(found))


def _release_file(path: Path, kind: Literal["wheel", "sdist"]) -> ReleaseFile:
    content = path.read_bytes()
    return ReleaseFile(name=path.name, kind=kind, size=len(content), sha256=sha256_hex(content))
