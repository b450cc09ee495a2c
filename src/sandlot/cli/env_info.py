"""`sandlot env info` and `inspect`: what a package is and what is in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from sandlot.api import PackageInfo, ReleaseInfo
from sandlot.cli.lazy import command
from sandlot.cli.options import hub_option, hub_reference
from sandlot.cli.output import Output
from sandlot.client import HubClient
from sandlot.errors import Failed


@command("info")
@click.argument("package", metavar="OWNER/NAME[@VERSION]")
@hub_option
def info_command(out: Output, package: str, hub: str | None) -> None:
    """Show an environment: its releases, what it needs, what was seen when it was loaded."""
    ref = hub_reference(package)
    with HubClient(hub) as client:
        found = client.packages.get(ref)
        release = found.latest
        if ref.version or release is None:
            # Where every release is yanked none is the latest; the newest one then says what there was.
            newest = next((each.version for each in found.releases), None)
            release = client.packages.release(replace(ref, version=ref.version or newest))
    if not ref.version and found.latest is None:
        out.warn(f"every release of {found.owner}/{found.name} is yanked; it installs by its exact version only")
    record = found.model_dump(mode="json") | {"release": release.model_dump(mode="json")}
    out.result(record, _described(found, release))
    out.next(f"sandlot env install {release.owner}/{release.name}@{release.version}")


@command("inspect")
@click.argument("package", metavar="OWNER/NAME[@VERSION]")
@click.argument("file", required=False)
@hub_option
def inspect_command(out: Output, package: str, file: str | None, hub: str | None) -> None:
    """List the files inside a release, or print one of them."""
    ref = hub_reference(package)
    with HubClient(hub) as client:
        if file is None:
            entries = [entry.model_dump(mode="json") for entry in client.packages.sources(ref)]
            out.table(entries, {"path": "PATH", "size": "BYTES"})
            return
        found = client.packages.source(ref, file)
    if found.binary and not out.json:
        raise Failed(f"{file} is no text", hint=f"sandlot env pull {package}")
    out.result(found.model_dump(mode="json"), found.text)
    if found.truncated:
        out.warn(f"{file} is longer than the hub shows; sandlot env pull {package} fetches all of it")


def _described(package: PackageInfo, release: ReleaseInfo) -> str:
    probe: dict[str, Any] = release.manifest.get("probe") or {}
    project: dict[str, Any] = release.manifest.get("project") or {}
    rewards = [f"{each['name']} (weight {each.get('weight', 1.0):g})" for each in probe.get("rewards", [])]
    splits = [f"{each['name']} {each.get('size', 'endless')}" for each in probe.get("splits", [])]
    versions = [each.version + (" (yanked)" if each.yanked else "") for each in package.releases]
    fields = {
        "package": f"{package.owner}/{package.name}",
        "summary": package.summary,
        "version": release.version + (f", yanked: {release.yanked_reason}" if release.yanked else ""),
        "digest": release.digest,
        "published": f"{release.created_at[:10]} by {release.created_by}",
        "visibility": package.visibility,
        "tags": ", ".join(package.tags),
        "license": package.license,
        "python": project.get("requires_python", ""),
        "needs": ", ".join(project.get("dependencies", [])),
        "keys": ", ".join(probe.get("secrets", [])),
        "kind": probe.get("kind", ""),
        "tasks": ", ".join(splits),
        "rewards": ", ".join(rewards),
        "tools": ", ".join(each.get("name", "") for each in probe.get("tools", [])),
        "releases": ", ".join(versions),
        "pip": release.install.pip,
        "uv": release.install.uv,
    }
    lines = [f"{name:<11} {value}" for name, value in fields.items() if value]
    if probe.get("failure"):
        lines.append("unloadable  " + str(probe["failure"]).strip().splitlines()[-1])
    return "\n".join(lines)
