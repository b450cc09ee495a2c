"""`sandlot env push`: builds a release and publishes it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from sandlot.cli.lazy import command
from sandlot.cli.options import hub_option, package_folder, python_option
from sandlot.cli.output import Output
from sandlot.client import HubClient, find_target
from sandlot.envs import Built, build_release
from sandlot.errors import Failed, SandlotError

_SHOWN_FILES = 20


@command("push")
@click.argument("folder", default=".")
@click.option("--owner", metavar="NAME", help="The account to publish under [default: your own].")
@click.option(
    "--visibility",
    type=click.Choice(["public", "private"]),
    help="Of a new package [default: private]. For one that exists it has to agree.",
)
@click.option(
    "--isolation/--no-isolation",
    default=True,
    envvar="SANDLOT_BUILD_ISOLATION",
    help="Build with a fresh or with the installed build backend.",
)
@click.option("--strict", is_flag=True, help="Stop if the environment cannot be loaded to describe it.")
@click.option(
    "--allow-secret", "allowed", metavar="FILE", multiple=True, help="Publish FILE though it seems to hold a key."
)
@click.option("--dry-run", is_flag=True, help="Build and list, but publish nothing.")
@python_option
@hub_option
def push_command(out: Output, folder: str, **options: Any) -> None:
    """Build the environment in FOLDER (a path or a name) and publish it to the hub.

    A release cannot be changed afterwards: publishing the same content again does nothing, other content needs a new
    version.
    """
    place = package_folder(folder)
    with tempfile.TemporaryDirectory(prefix="sandlot-push-") as scratch:
        out.say(f"building {place}")
        built = build_release(
            place,
            Path(scratch),
            isolated=options["isolation"],
            allow_secrets=options["allowed"],
            python=_probing_python(options["python"]),
        )
        _show(out, built)
        probe = built.manifest.probe
        if probe is not None and probe.failure:
            if options["strict"]:
                raise Failed(
                    f"the environment could not be loaded:\n{_indented(probe.failure)}", hint="nothing was published"
                )
            out.warn(
                f"the environment could not be loaded, so the hub cannot show its tasks:\n{_indented(probe.failure)}"
            )
        if options["dry_run"]:
            out.result(_record(built), _title(built))
            out.say("nothing was published (--dry-run)")
            return
        _publish(out, built, options)


def _publish(out: Output, built: Built, options: dict[str, Any]) -> None:
    with HubClient(options["hub"], timeout=300.0) as client:
        owner = options["owner"] or client.accounts.me().account.name
        files = {built.wheel.name: built.wheel, built.sdist.name: built.sdist}
        published = client.packages.publish(owner, built.manifest, files, visibility=options["visibility"])
        release = published.release
        name = f"{release.owner}/{release.name}@{release.version}"
        page = f"{client.origin}/{release.owner}/{release.name}"
    record = _record(built) | {
        "owner": release.owner,
        "created": published.created,
        "hub": client.origin,
        "page": page,
        "requirement": release.install.requirement,
    }
    out.result(record, name)
    out.say(f"published {name} at {page}" if published.created else f"{name} was published before with this content")
    out.next(f"sandlot env install {name}")


def _probing_python(asked: str | None) -> Path | None:
    """The project's interpreter where it has sandlot, so that the environment finds what it depends on; else ours."""
    try:
        target = find_target(asked)
    except SandlotError:
        if asked:
            raise
        return None
    return target.python if target.find("sandlot") is not None else None


def _show(out: Output, built: Built) -> None:
    sent, left_out = built.sources.sent, built.sources.left_out
    out.say(f"sends {len(sent)} files: {_listed(sent)}")
    if left_out:
        out.say("left out: " + _listed([f"{path} ({reason})" for path, reason in left_out.items()]))


def _listed(items: list[str]) -> str:
    more = f" and {len(items) - _SHOWN_FILES} more" if len(items) > _SHOWN_FILES else ""
    return ", ".join(items[:_SHOWN_FILES]) + more


def _title(built: Built) -> str:
    project = built.manifest.project
    return f"{project.name} {project.version} {built.manifest.digest}"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.strip().splitlines()[-12:])


def _record(built: Built) -> dict[str, Any]:
    manifest = built.manifest
    return {
        "name": manifest.project.name,
        "version": manifest.project.version,
        "digest": manifest.digest,
        "files": [{"name": file.name, "size": file.size, "sha256": file.sha256} for file in manifest.files],
        "sent": built.sources.sent,
        "left_out": built.sources.left_out,
        "probe_failure": manifest.probe.failure if manifest.probe is not None else None,
    }
