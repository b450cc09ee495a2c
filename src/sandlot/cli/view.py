"""`sandlot view`: the pages of the runs on this machine."""

from __future__ import annotations

import contextlib
import webbrowser
from pathlib import Path

import click

from sandlot.cli.lazy import command
from sandlot.cli.output import Output
from sandlot.client import read_settings
from sandlot.errors import NotFound
from sandlot.hub import serve_view


@command("view")
@click.argument("folder", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=7351, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--open/--no-open", "opens", default=False, help="Open the pages in the browser.")
def view_command(out: Output, folder: str | None, host: str, port: int, opens: bool) -> None:
    """Serve the pages of the runs below FOLDER, also while they are running [default: of your settings, ./outputs].

    Ctrl-C stops it.
    """
    root = Path(folder or read_settings().outputs)
    if not root.is_dir():
        raise NotFound(f"there is no folder {root}", hint="run something first: sandlot eval ENV -m MODEL")

    def ready(address: str) -> None:
        out.result({"url": address, "folder": str(root)}, address)
        out.say(f"the runs below {root} are at {address}; Ctrl-C stops")
        if opens:
            webbrowser.open(address)

    with contextlib.suppress(KeyboardInterrupt):
        serve_view(root, host=host, port=port, ready=ready)
