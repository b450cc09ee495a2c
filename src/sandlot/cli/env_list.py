"""`sandlot env list`: what the hub has, or what is installed."""

from __future__ import annotations

from itertools import islice

import click

from sandlot.cli.lazy import command
from sandlot.cli.options import hub_option, python_option
from sandlot.cli.output import Output
from sandlot.client import HubClient, find_target


@command("list")
@click.argument("words", nargs=-1)
@click.option("--owner", metavar="NAME", help="Of this account only.")
@click.option("--tag", metavar="TAG", help="With this tag only.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(min=1), help="At most so many.")
@click.option("--installed", is_flag=True, help="What is installed in the project's interpreter, instead.")
@python_option
@hub_option
def list_command(
    out: Output,
    words: tuple[str, ...],
    owner: str | None,
    tag: str | None,
    limit: int,
    installed: bool,
    python: str | None,
    hub: str | None,
) -> None:
    """List the environments of the hub that have all WORDS in their name or description."""
    if installed:
        _list_installed(out, python)
        return
    with HubClient(hub) as client:
        query = " ".join(words) or None
        found = list(islice(client.packages.search(text=query, owner=owner, tag=tag, limit=min(limit, 100)), limit + 1))
    shown = found[:limit]
    rows = [
        each.model_dump(mode="json") | {"package": f"{each.owner}/{each.name}", "updated": each.updated_at[:10]}
        for each in shown
    ]
    columns = {
        "package": "PACKAGE",
        "latest_version": "VERSION",
        "kind": "KIND",
        "updated": "UPDATED",
        "summary": "SUMMARY",
    }
    out.table(rows, columns, record=[each.model_dump(mode="json") for each in shown])
    if not shown:
        out.say(
            f"{client.origin} has no such environment"
            if query or owner or tag
            else f"{client.origin} has no environments yet"
        )
    elif len(found) > limit:
        out.say(f"there are more; --limit {limit * 4} shows them")


def _list_installed(out: Output, python: str | None) -> None:
    target = find_target(python)
    rows = [
        {
            "name": each.name,
            "version": each.version,
            "owner": each.owner,
            "digest": each.digest,
            "source": each.url or "index",
        }
        for each in sorted(target.packages, key=lambda each: each.name)
        if each.owner is not None or each.environment
    ]
    out.table(rows, {"name": "NAME", "version": "VERSION", "owner": "OWNER", "source": "FROM"})
    if not rows:
        out.say(f"no environment is installed in {target.prefix}")
