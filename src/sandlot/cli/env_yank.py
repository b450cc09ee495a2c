"""`sandlot env yank`: takes a release out of what is chosen by default, or back into it."""

from __future__ import annotations

import click

from sandlot.cli.lazy import command
from sandlot.cli.options import hub_option, hub_reference
from sandlot.cli.output import Output
from sandlot.client import HubClient


@command("yank")
@click.argument("package", metavar="OWNER/NAME@VERSION")
@click.option("--reason", default="", help="Why, for those who meet it.")
@click.option("--undo", is_flag=True, help="Take the yank back.")
@hub_option
def yank_command(out: Output, package: str, reason: str, undo: bool, hub: str | None) -> None:
    """Take a release out of what is chosen by default. Whoever names its exact version still gets it."""
    ref = hub_reference(package)
    with HubClient(hub) as client:
        release = client.packages.unyank(ref) if undo else client.packages.yank(ref, reason=reason)
    out.result(release.model_dump(mode="json"), f"{release.owner}/{release.name}@{release.version}")
    out.say(
        "it is chosen by default again"
        if undo
        else "it is no longer chosen by default; its exact version still installs"
    )
