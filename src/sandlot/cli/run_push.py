"""`sandlot run push`: sends a run to the hub."""

from __future__ import annotations

import click

from sandlot.cli.lazy import command
from sandlot.cli.options import hub_option
from sandlot.cli.output import Output
from sandlot.cli.progress import Bar
from sandlot.cli.run_show import run_folder
from sandlot.client import HubClient, push_run


@command("push")
@click.argument("run")
@click.option("--owner", metavar="NAME", help="The account that the run belongs to [default: your own].")
@click.option("--public", is_flag=True, help="Let everyone see it.")
@click.option("--unpublished", is_flag=True, help="Send it though the hub does not have its environment.")
@hub_option
def push_command(out: Output, run: str, owner: str | None, public: bool, unpublished: bool, hub: str | None) -> None:
    """Send RUN (its folder, or the end of its id) to the hub.

    What the hub has already is not sent again, so a push that broke off just goes on.
    """
    path = run_folder(run)
    with HubClient(hub, timeout=300.0) as client, Bar(out, "sending", 0, unit=" bytes") as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.advance(done)

        pushed = push_run(
            client,
            path,
            owner=owner,
            visibility="public" if public else "private",
            unpublished=unpublished,
            progress=progress,
        )
    record = {name: getattr(pushed, name) for name in pushed.__slots__}
    out.result(record, pushed.url)
    out.say(f"sent {pushed.sent} bytes" if pushed.sent else "the hub has all of it already")
