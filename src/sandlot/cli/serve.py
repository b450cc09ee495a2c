"""`sandlot serve`: a local model behind an OpenAI-compatible API."""

from __future__ import annotations

import contextlib
from typing import Any

import click

from sandlot.cli.lazy import command
from sandlot.cli.output import Output
from sandlot.cli.overrides import RunCommand, overrides_of
from sandlot.inference import ServeConfig, serve


@command("serve", cls=RunCommand, config_class=ServeConfig)
@click.argument("model", required=False)
@click.option("--host", help="The address to listen on [default: 127.0.0.1].")
@click.option("--port", type=click.IntRange(0, 65535), help="0 takes a free one [default: 8000].")
@click.option("--dry-run", is_flag=True, help="Print the resolved config and start nothing.")
def serve_command(out: Output, model: str | None, host: str | None, port: int | None, dry_run: bool) -> None:
    """Serve MODEL, a name such as smollm2-135m or a folder. Ctrl-C stops it."""
    given: dict[str, Any] = {"model": model, "host": host, "port": port}
    given = {name: value for name, value in given.items() if value is not None}
    config = overrides_of(click.get_current_context()).config(ServeConfig, given, under={})
    if dry_run:
        out.result(config.model_dump(mode="json"), config.model_dump_json(indent=2))
        return

    def ready(address: str) -> None:
        out.result({"url": address, "model": config.model}, address)
        out.say(f"{config.model} is at {address}; Ctrl-C stops")
        out.next(f"sandlot eval ENV -m {config.name or config.model} -b {address} -n 5 -r 2")

    with contextlib.suppress(KeyboardInterrupt):
        serve(config, ready=ready, progress=out.say)
