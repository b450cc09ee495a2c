"""`sandlot login`, `logout` and `whoami`."""

from __future__ import annotations

import platform
import sys

import click

from sandlot.api import KeyCreate
from sandlot.cli.lazy import command
from sandlot.cli.options import hub_option
from sandlot.cli.output import Output
from sandlot.client import HubClient, forget_key, hub_origin, key_for, write_key, write_setting
from sandlot.errors import Invalid


@command("login")
@click.option("--name", help="The account's name; it is asked for if not given.")
@click.option("--key-stdin", is_flag=True, help="Read an API key from stdin instead of asking for a password.")
@click.option("--days", type=click.IntRange(1, 3650), help="After how many days the new key expires [default: never].")
@hub_option
def login_command(out: Output, name: str | None, key_stdin: bool, days: int | None, hub: str | None) -> None:
    """Sign in to a hub and keep an API key for it, in a file that only you can read."""
    origin = hub_origin(hub)
    if key_stdin:
        key = sys.stdin.readline().strip()
        if not key:
            raise Invalid("there is no key on stdin", hint='printf %s "$KEY" | sandlot login --key-stdin')
    else:
        name = name or click.prompt("name", err=True)
        password = click.prompt("password", hide_input=True, err=True)
        wanted = KeyCreate(name=f"login on {platform.node() or 'a machine'}"[:100], expires_in_days=days)
        with HubClient(origin) as client:
            key = client.accounts.login(name, password, key=wanted).secret
    with HubClient(origin, key=key) as client:
        me = client.accounts.me()
    file = write_key(origin, key)
    if hub:
        write_setting("hub", origin)
    out.result({"hub": origin, "account": me.account.name, "file": str(file)}, me.account.name)
    out.say(f"signed in to {origin} as {me.account.name}; the key is in {file}")
    out.next("sandlot env push ./my_env")


@command("logout")
@hub_option
def logout_command(out: Output, hub: str | None) -> None:
    """Forget the key of a hub. The hub itself still takes it until it expires or is revoked."""
    origin = hub_origin(hub)
    had = forget_key(origin)
    out.result({"hub": origin, "forgotten": had})
    out.say(f"forgot the key of {origin}" if had else f"there was no key of {origin}")


@command("whoami")
@hub_option
def whoami_command(out: Output, hub: str | None) -> None:
    """Show who the hub takes you for, and what your key may do."""
    with HubClient(hub) as client:
        me = client.accounts.me()
    record = me.model_dump(mode="json") | {"hub": client.origin, "key": key_for(client.origin) is not None}
    out.result(record, me.account.name)
    out.say(f"at {client.origin}; may: {', '.join(me.scopes)}; publishes under: {', '.join(me.owners)}")
