"""What a publisher announces, checked as far as it can be before any file has come."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from packaging.version import Version

from sandlot.hub.packages.metadata import canonical_version, check_file_name
from sandlot.hub.packages.names import check_package_name
from sandlot.hub.problems import problem
from sandlot.hub.settings import Settings
from sandlot.ids import normal_name
from sandlot.records import JsonObject, Manifest, check_finite

MOST_TAGS = 20
LONGEST_TAG = 40
SCHEMA = 1
"""The newest schema of a manifest that is read."""
_MOST_MANIFEST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Announced:
    """A release that is to be: name and version in normal form."""

    name: str
    version: str
    manifest: Manifest

    @property
    def prerelease(self) -> bool:
        """Whether PEP 440 calls it one: alpha, beta, candidate or development release."""
        return Version(self.version).is_prerelease


def read_manifest(raw: JsonObject, *, name: str, settings: Settings) -> Announced:
    """The manifest of a package `name`. `manifest_invalid` and its kin say which field is wrong."""
    if len(msgspec.json.encode(raw)) > _MOST_MANIFEST_BYTES:
        raise problem("too_large", f"the manifest is larger than {_MOST_MANIFEST_BYTES} bytes")
    try:
        manifest = msgspec.convert(raw, Manifest)
    except msgspec.ValidationError as error:
        raise problem("manifest_invalid", f"the manifest is not valid: {error}") from None
    if manifest.schema > SCHEMA:
        detail = f"the manifest has the schema {manifest.schema}; this hub reads up to {SCHEMA}"
        raise problem("manifest_invalid", detail, hint="upgrade the hub")
    check_finite(manifest)
    normal = check_package_name(name, allowed=settings.allow_names)
    said = manifest.project.name
    if normal_name(said) != normal:
        raise problem("name_mismatch", f"the manifest is of {said!r}, the address of {name!r}")
    version = canonical_version(manifest.project.version)
    _check_files(manifest, normal, version=version, settings=settings)
    _check_tags(manifest.project.tags)
    return Announced(normal, version, manifest)


def _check_files(manifest: Manifest, name: str, *, version: str, settings: Settings) -> None:
    kinds = [file.kind for file in manifest.files]
    if kinds.count("wheel") != 1 or kinds.count("sdist") > 1:
        raise problem("manifest_invalid", f"a release is one wheel and at most one source archive; found {kinds}")
    if len({file.sha256 for file in manifest.files}) != len(manifest.files):
        raise problem("manifest_invalid", "two files of the release have the same SHA-256")
    for file in manifest.files:
        check_file_name(file, name, version=version)
        if len(file.sha256) != 64 or set(file.sha256) - set("0123456789abcdef"):
            raise problem("manifest_invalid", f"{file.name}: {file.sha256!r} is not a SHA-256 in hexadecimal digits")
        if file.size > settings.max_file_bytes:
            most = settings.max_file_bytes
            raise problem("too_large", f"{file.name} has {file.size} bytes; this hub takes files of at most {most}")
        if file.size < 1:
            raise problem("manifest_invalid", f"{file.name}: a size of {file.size} bytes cannot be")


def _check_tags(tags: list[str]) -> None:
    if len(tags) > MOST_TAGS:
        raise problem("manifest_invalid", f"there are {len(tags)} tags; a package has at most {MOST_TAGS}")
    for tag in tags:
        if not tag.strip() or len(tag) > LONGEST_TAG or set(tag) & set("[]\n"):
            raise problem("manifest_invalid", f"{tag!r} is not a tag: 1 to {LONGEST_TAG} characters, no brackets")
