"""A release's static metadata, derived from its wheel: the hub's own reading, never the publisher's word."""

from __future__ import annotations

import email.parser
import email.policy

from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from sandlot.errors import Invalid
from sandlot.hub.problems import problem
from sandlot.ids import normal_name
from sandlot.records import Project, ReleaseFile

_LONGEST_TEXT = 1000
_WEB = ("https://", "http://")
"""Other links, such as `javascript:`, are left out: pages show them to be clicked."""


def canonical_version(text: str) -> str:
    """A version in its PEP 440 normal form. `version_invalid` if it is none, or has a local part (`+cpu`)."""
    try:
        version = Version(text)
    except InvalidVersion:
        hint = "write it like 1.2.0, 1.2.0rc1 or 1.2.0.post1"
        raise problem("version_invalid", f"{text!r} is not a PEP 440 version", hint=hint) from None
    if version.local is not None:
        raise problem("version_invalid", f"{text!r} has a local part, which cannot be published")
    return str(version)


def check_file_name(file: ReleaseFile, name: str, *, version: str) -> None:
    """`name_mismatch` unless the name of a wheel or source archive says this package and version."""
    try:
        if file.kind == "wheel":
            found_name, found_version, _, _ = parse_wheel_filename(file.name)
        else:
            found_name, found_version = parse_sdist_filename(file.name)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion) as error:
        raise problem("name_mismatch", f"{file.name!r} is not the name of a {file.kind}: {error}") from None
    if (found_name, str(found_version)) != (name, version):
        said = f"{found_name} {found_version}"
        raise problem("name_mismatch", f"{file.name} is a file of {said}; this release is {name} {version}")
    if file.kind == "sdist" and not file.name.endswith(".tar.gz"):
        raise problem("name_mismatch", f"{file.name}: a source archive must be a .tar.gz file")


def dist_info_folder(wheel: str) -> str:
    """The name of the `.dist-info` folder that a wheel must have."""
    return "-".join(wheel.split("-")[:2]) + ".dist-info"


def read_project(metadata: bytes, *, file: str) -> Project:
    """The project of a METADATA or PKG-INFO file. `wheel_malformed` says which field is wrong."""
    raw, _ = parse_email(metadata)
    try:
        requirements = [str(Requirement(text)) for text in raw.get("requires_dist", [])]
        requires_python = str(SpecifierSet(raw.get("requires_python", "")))
        name, version = normal_name(raw.get("name", "")), canonical_version(raw.get("version", ""))
    except (InvalidRequirement, InvalidSpecifier, Invalid) as error:
        raise problem("wheel_malformed", f"the metadata in {file} is not valid: {error}") from None
    return Project(
        name=name,
        version=version,
        summary=raw.get("summary", "")[:_LONGEST_TEXT],
        requires_python=requires_python,
        dependencies=requirements,
        license=(raw.get("license_expression") or raw.get("license") or "").strip().split("\n")[0][:200],
        tags=[word.strip() for word in raw.get("keywords", []) if word.strip()],
        readme=raw.get("description") or _payload(metadata),
        urls={label: url for label, url in raw.get("project_urls", {}).items() if url.startswith(_WEB)},
    )


def compare(declared: Project, found: Project, *, file: str) -> None:
    """`manifest_mismatch`, naming field and both values, where the manifest says other than a file."""
    for field in ("name", "version", "requires_python", "dependencies"):
        said, is_ = _comparable(declared, field), _comparable(found, field)
        if said != is_:
            detail = f"the manifest says {field} = {said!r}, the metadata in {file} says {is_!r}"
            raise problem("manifest_mismatch", detail, hint="build and push again: sandlot env push")


def _comparable(project: Project, field: str) -> object:
    value = getattr(project, field)
    try:
        if field == "name":
            return normal_name(value)
        if field == "version":
            return canonical_version(value)
        if field == "requires_python":
            return str(SpecifierSet(value))
        return sorted(str(Requirement(text)) for text in value)
    except (InvalidRequirement, InvalidSpecifier, Invalid) as error:
        raise problem("manifest_invalid", f"the manifest's {field} is not valid: {error}") from None


def _payload(metadata: bytes) -> str:
    message = email.parser.BytesParser(policy=email.policy.compat32).parsebytes(metadata)
    payload = message.get_payload()
    return payload if isinstance(payload, str) else ""
