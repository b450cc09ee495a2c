"""`python -m sandlot.testing.server`: the mock endpoint as a program, for the shell and for load tests.

It prints its address as the only line on stdout, and runs until it is interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib

import click

from sandlot.errors import SandlotError
from sandlot.testing.faults import Fault
from sandlot.testing.mock_server import MockServer, echo


@click.command()
@click.option("--port", default=8000, show_default=True, help="Where to listen on 127.0.0.1; 0 takes a free port.")
@click.option("--answer", default=None, help="What to answer. Default: the last user message, said back.")
@click.option("--latency", default=0.0, show_default=True, help="Seconds before each answer.")
@click.option("--key", default=None, help="The API key to ask for. Default: any.")
@click.option("--fault", "faults", multiple=True, help="One for each first request: 429:2, html, half, reset, hang:5 …")
def main(port: int, answer: str | None, latency: float, key: str | None, faults: tuple[str, ...]) -> None:
    """An OpenAI-compatible endpoint without a model, for tests."""
    try:
        server = MockServer(
            echo if answer is None else answer,
            latency=latency,
            faults=[Fault.parse(fault) for fault in faults],
            key=key,
            port=port,
        )
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(server))
    except SandlotError as error:
        raise click.ClickException(error.message) from None


async def _serve(server: MockServer) -> None:
    async with server:
        click.echo(server.url)
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
