"""`sandlot env install` and `uninstall`: releases in a project's interpreter."""

from __future__ import annotations

from typing import Any

import click

from sandlot.api import ReleaseInfo
from sandlot.cli.lazy import command
from sandlot.cli.options import hub_option, hub_reference, python_option
from sandlot.cli.output import Output
from sandlot.client import HubClient, Installed, find_target, install_releases, uninstall


@command("install")
@click.argument("packages", nargs=-1, required=True, metavar="OWNER/NAME[@VERSION]...")
@python_option
@hub_option
def install_command(out: Output, packages: tuple[str, ...], python: str | None, hub: str | None) -> None:
    """Install environments from the hub, with what they depend on.

    Each comes by its own address and checksum; what is installed already stays at its version.
    """
    done = install_from_hub(out, packages, python=python, hub=hub)
    out.result([_record(each) for each in done], "\n".join(f"{each.owner}/{each.name}@{each.version}" for each in done))
    out.next(f"sandlot eval {done[0].name} -m MODEL -n 5 -r 2")


def install_from_hub(out: Output, packages: tuple[str, ...], *, python: str | None, hub: str | None) -> list[Installed]:
    """Installs `packages` and says what happened to each."""
    refs = [hub_reference(text) for text in packages]
    target = find_target(python)
    with HubClient(hub) as client:
        releases: list[ReleaseInfo] = []
        private = False
        for ref in refs:
            releases.append(client.packages.release(ref))
            private = private or client.packages.get(ref).visibility == "private"
        out.say(f"installing into {target.prefix} ({target.chosen}, Python {target.version})")
        key = client.connection.key
        done = install_releases(
            releases, target, netrc_key=(client.origin, key) if private and key is not None else None
        )
    for each in done:
        out.say(_words(each))
    for release in releases:
        if release.yanked:
            reason = release.yanked_reason or "no reason given"
            out.warn(f"{release.owner}/{release.name}@{release.version} was yanked: {reason}")
    return done


@command("uninstall")
@click.argument("name")
@python_option
def uninstall_command(out: Output, name: str, python: str | None) -> None:
    """Remove an installed environment. What it depends on stays."""
    found = uninstall(name.rpartition("/")[2].partition("@")[0], find_target(python))
    out.result({"name": found.name, "version": found.version}, f"{found.name} {found.version}")
    out.say(f"removed {found.name} {found.version}")


def _words(done: Installed) -> str:
    name = f"{done.owner}/{done.name}@{done.version}"
    if not done.changed:
        return f"{name} was installed already"
    return f"installed {name}" + (f", in place of {done.replaced}" if done.replaced else "")


def _record(done: Installed) -> dict[str, Any]:
    return {name: getattr(done, name) for name in done.__slots__}
