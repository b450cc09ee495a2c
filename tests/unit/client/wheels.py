"""Makes small wheels and an index of them, for tests that install."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
    python: str = "",
) -> Path:
    """A wheel with one module of the package's name, or with `files`."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {each}\n" for each in requires)
    metadata += f"Requires-Python: {python}\n" if python else ""
    entries = dict(files or {f"{module}.py": f"VERSION = {version!r}\n"})
    entries[f"{info}/METADATA"] = metadata
    entries[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for path, text in entries.items():
        hashed = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        record += f"{path},sha256={hashed},{len(text.encode())}\n"
    entries[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w") as archive:
        for path, text in entries.items():
            archive.writestr(path, text)
    return target


def make_index(folder: Path, wheels: Sequence[Path]) -> str:
    """A PEP 503 index on disk that holds `wheels`; its URL."""
    projects: dict[str, list[Path]] = {}
    for wheel in wheels:
        projects.setdefault(wheel.name.split("-")[0].replace("_", "-"), []).append(wheel)
    for project, files in projects.items():
        page = "".join(f'<a href="{file.as_uri()}">{file.name}</a>\n' for file in files)
        (folder / project).mkdir(parents=True, exist_ok=True)
        (folder / project / "index.html").write_text(f"<!DOCTYPE html><html><body>{page}</body></html>")
    return folder.as_uri()
