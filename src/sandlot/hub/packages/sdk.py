"""The wheel of sandlot that every owner index serves, so that an environment installs from its hub alone.

Invariants: the wheel is that of the running sandlot unless the settings name another; it is made from the installed
distribution without a build tool and without the network; the same installation gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import sqlalchemy as sa
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from sandlot.errors import NotFound
from sandlot.hub.blobs import BlobStore
from sandlot.hub.db import Database, upsert
from sandlot.hub.packages.archives import Limits, read_wheel
from sandlot.hub.packages.links import file_path, requirement
from sandlot.hub.packages.metadata import dist_info_folder, read_project
from sandlot.hub.packages.tables import sdk_files
from sandlot.hub.problems import problem

NAME = "sandlot"

_FROM_BUILD = re.compile(r"(METADATA|entry_points\.txt|licenses/.+)$")
"""What a build wrote into `.dist-info`; the rest there is the installer's."""
_WHEEL = b"Wheel-Version: 1.0\nGenerator: sandlot\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class SdkFile:
    """A wheel of sandlot that the hub has."""

    name: str
    version: str
    size: int
    sha256: str
    metadata_sha256: str
    requires_python: str
    created_at: str


class Sdk:
    """The SDK's wheels of a hub."""

    def __init__(self, db: Database, blobs: BlobStore, *, limits: Limits) -> None:
        self._db = db
        self._blobs = blobs
        self._limits = limits

    def install(self, source: Path | None, *, at: str) -> None:
        """Takes the wheel in `source` (a wheel, or a folder of them), or that of the running sandlot, at time `at`."""
        for name, content in _from_settings(source) if source else [installed_wheel(NAME)]:
            self._add(name, content, at=at)

    def files(self, connection: sa.Connection) -> list[SdkFile]:
        """All of them, the newest last."""
        found = [SdkFile(**row) for row in connection.execute(sa.select(sdk_files)).mappings()]
        return sorted(found, key=lambda file: (file.created_at, Version(file.version)))

    def requirement(self, connection: sa.Connection, owner: str, *, origin: str) -> str:
        """A direct reference to the newest one under an owner; empty if the hub has none."""
        found = self.files(connection)
        if not found:
            return ""
        newest = found[-1]
        url = origin + file_path(owner, newest.sha256, name=newest.name)
        return requirement(NAME, url, sha256=newest.sha256)

    def _add(self, name: str, content: bytes, *, at: str) -> None:
        contents = read_wheel(io.BytesIO(content), name, dist_info=dist_info_folder(name), limits=self._limits)
        project = read_project(contents.metadata, file=name)
        with self._db.read() as connection:
            sha256 = hashlib.sha256(content).hexdigest()
            same = sa.select(sdk_files.c.name).where((sdk_files.c.name == name) & (sdk_files.c.sha256 == sha256))
            if connection.execute(same).first() and self._blobs.has(sha256):
                return
        blob = self._blobs.put([content])
        row = {
            "name": name,
            "version": project.version,
            "size": blob.size,
            "sha256": blob.sha256,
            "metadata_sha256": self._blobs.put([contents.metadata]).sha256,
            "requires_python": project.requires_python,
            "created_at": at,
        }
        with self._db.write() as connection:
            upsert(connection, sdk_files, values=row)


def installed_wheel(name: str) -> tuple[str, bytes]:
    """A wheel of an installed distribution: its file name and its bytes. `NotFound` if it is not installed.

    The package's files are those that its RECORD lists; for an editable installation, which lists none, those that
    stand in the package's folder. Its metadata is what the installer wrote down.
    """
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        hint = "install it, or name a wheel with the setting sdk_wheel"
        raise NotFound(f"{name} is not installed as a distribution, so there is no wheel to serve", hint=hint) from None
    stem = f"{name.replace('-', '_')}-{distribution.version}"
    entries = {**_package_files(distribution, name), **_metadata_files(distribution, f"{stem}.dist-info")}
    return f"{stem}-py3-none-any.whl", pack_wheel(entries, f"{stem}.dist-info")


def pack_wheel(entries: dict[str, bytes], dist_info: str) -> bytes:
    """A wheel of these files: RECORD and WHEEL are added. Equal files give equal bytes."""
    entries = {**entries, f"{dist_info}/WHEEL": _WHEEL}
    record = "".join(f"{path},sha256={_digest(content)},{len(content)}\n" for path, content in sorted(entries.items()))
    entries[f"{dist_info}/RECORD"] = f"{record}{dist_info}/RECORD,,\n".encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        # Installers want the metadata last, where a reader of the table of contents finds it at once.
        for path in sorted(entries, key=lambda path: (path.startswith(dist_info), path)):
            info = zipfile.ZipInfo(path, _EPOCH)
            info.external_attr = 0o100644 << 16
            archive.writestr(info, entries[path], compress_type=zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _package_files(distribution: metadata.Distribution, name: str) -> dict[str, bytes]:
    package = name.replace("-", "_")
    listed = [path for path in distribution.files or [] if path.parts[0] == package and _is_source(Path(path))]
    if listed:
        return {path.as_posix(): Path(str(path.locate())).read_bytes() for path in listed}
    folder = Path(__file__).parents[2]
    found = (path for path in folder.rglob("*") if path.is_file() and _is_source(path))
    return {f"{package}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in found}


def _metadata_files(distribution: metadata.Distribution, dist_info: str) -> dict[str, bytes]:
    entries = {}
    for path in distribution.files or []:
        inside = path.as_posix().partition(".dist-info/")[2]
        if path.parts[0].endswith(".dist-info") and _FROM_BUILD.match(inside):
            entries[f"{dist_info}/{inside}"] = Path(str(path.locate())).read_bytes()
    return entries


def _is_source(path: Path) -> bool:
    return "__pycache__" not in path.parts and path.suffix not in (".pyc", ".pyo")


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def _from_settings(source: Path) -> Iterable[tuple[str, bytes]]:
    found = sorted(source.glob(f"{NAME}-*.whl")) if source.is_dir() else [source]
    if not found or not found[0].is_file():
        raise NotFound(f"sdk_wheel: there is no wheel of {NAME} at {source}")
    try:
        found.sort(key=lambda path: parse_wheel_filename(path.name)[1])
    except InvalidWheelFilename as error:
        raise problem("wheel_malformed", f"sdk_wheel: {error}") from None
    return [(path.name, path.read_bytes()) for path in found]
