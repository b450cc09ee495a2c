"""Wheels and source archives made by hand, and the manifest that a publisher sends with them."""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from sandlot.ids import content_digest, normal_name, sha256_hex
from sandlot.records import JsonObject, Manifest, Probe, Project, ReleaseFile

_TIME = (2020, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Built:
    """A release as it lies on a publisher's disk."""

    manifest: Manifest
    contents: dict[str, bytes]
    """By SHA-256."""

    @property
    def json(self) -> JsonObject:
        return msgspec.to_builtins(self.manifest)

    @property
    def wheel(self) -> ReleaseFile:
        return self.manifest.files[0]

    @property
    def wheel_bytes(self) -> bytes:
        return self.contents[self.wheel.sha256]


def metadata_text(name: str, version: str, *, requires: tuple[str, ...] = (), extra: str = "") -> str:
    lines = [f"Metadata-Version: 2.3\nName: {name}\nVersion: {version}\nSummary: Numbers, sorted"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    lines += ["License-Expression: MIT", "Requires-Python: >=3.9"]
    return "\n".join(lines) + f"\n{extra}\n# {name}\n\nA readme.\n"


def zip_bytes(entries: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in entries.items():
            info = zipfile.ZipInfo(path, _TIME)
            info.external_attr = 0o100644 << 16
            archive.writestr(info, content, compress_type=zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def with_record(entries: Mapping[str, bytes], dist_info: str) -> dict[str, bytes]:
    record = io.StringIO()
    writer = csv.writer(record, lineterminator="\n")
    for path, content in entries.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        writer.writerow([path, f"sha256={digest}", len(content)])
    writer.writerow([f"{dist_info}/RECORD", "", ""])
    return {**entries, f"{dist_info}/RECORD": record.getvalue().encode()}


def wheel_entries(
    name: str, version: str, *, body: str = "", metadata: str | None = None, requires: tuple[str, ...] = ()
) -> dict[str, bytes]:
    module = normal_name(name).replace("-", "_")
    dist_info = f"{module}-{version}.dist-info"
    text = metadata if metadata is not None else metadata_text(name, version, requires=requires)
    entries = {
        f"{module}.py": f"VERSION = {version!r}\n{body}".encode(),
        f"{dist_info}/METADATA": text.encode(),
        f"{dist_info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    return with_record(entries, dist_info)


def sdist_bytes(name: str, version: str, *, members: Mapping[str, bytes] | None = None) -> bytes:
    root = f"{normal_name(name).replace('-', '_')}-{version}"
    files = {"PKG-INFO": metadata_text(name, version).encode(), "README.md": b"# hello\n", "sub/rows.jsonl": b"{}\n"}
    return tar_bytes({f"{root}/{path}": content for path, content in {**files, **(members or {})}.items()})


def tar_bytes(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, content in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=0)


def release_of(
    name: str,
    version: str,
    *,
    wheel: bytes,
    entries: Mapping[str, bytes],
    sdist: bytes | None = None,
    **project: object,
) -> Built:
    module = normal_name(name).replace("-", "_")
    contents = {sha256_hex(wheel): wheel}
    files = [
        ReleaseFile(
            name=f"{module}-{version}-py3-none-any.whl", kind="wheel", size=len(wheel), sha256=sha256_hex(wheel)
        )
    ]
    if sdist is not None:
        contents[sha256_hex(sdist)] = sdist
        sdist_file = ReleaseFile(
            name=f"{module}-{version}.tar.gz", kind="sdist", size=len(sdist), sha256=sha256_hex(sdist)
        )
        files.append(sdist_file)
    fields = {"name": name, "version": version, "requires_python": ">=3.9", "summary": "Numbers, sorted", **project}
    manifest = Manifest(
        project=msgspec.convert(fields, Project),
        files=files,
        digest=content_digest(entries.items()),
        probe=Probe(kind="single-turn"),
    )
    return Built(manifest, contents)


def build(
    name: str = "gsm-env",
    version: str = "0.1.0",
    *,
    body: str = "",
    requires: tuple[str, ...] = (),
    sdist: bool = True,
    tags: tuple[str, ...] = (),
) -> Built:
    """A release as the client would build it."""
    entries = wheel_entries(name, version, body=body, requires=requires)
    archive = sdist_bytes(name, version) if sdist else None
    project = {"dependencies": list(requires), "tags": list(tags)}
    return release_of(name, version, wheel=zip_bytes(entries), entries=entries, sdist=archive, **project)
