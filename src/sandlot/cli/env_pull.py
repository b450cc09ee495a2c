"""`sandlot env pull`: the source of a release as a folder."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from sandlot.cli.lazy import command
from sandlot.cli.options import hub_option, hub_reference
from sandlot.cli.output import Output
from sandlot.client import HubClient, extract_sdist
from sandlot.errors import NotFound
from sandlot.ids import module_name


@command("pull")
@click.argument("package", metavar="OWNER/NAME[@VERSION]")
@click.option("--into", metavar="FOLDER", help="The folder to make [default: ./NAME].")
@hub_option
def pull_command(out: Output, package: str, into: str | None, hub: str | None) -> None:
    """Fetch the source of a release into a new folder, to read it or to change it."""
    ref = hub_reference(package)
    with HubClient(hub) as client, tempfile.TemporaryDirectory(prefix="sandlot-pull-") as scratch:
        release = client.packages.release(ref)
        found = next((file for file in release.files if file.kind == "sdist"), None)
        if found is None:
            raise NotFound(f"{ref} has no source archive")
        archive = Path(scratch) / "source.tar.gz"
        client.connection.fetch(found.url, archive, sha256=found.sha256)
        folder = Path(into) if into else Path(module_name(release.name))
        files = extract_sdist(archive, folder)
    name = f"{release.owner}/{release.name}"
    out.result({"package": name, "version": release.version, "folder": str(folder), "files": files}, str(folder))
    out.say(f"{name}@{release.version}: {len(files)} files")
    out.next(
        f"sandlot eval ./{folder} -m MODEL -n 5 -r 2" if not folder.is_absolute() else f"sandlot eval {folder} -m MODEL"
    )
