"""`sandlot hub`: runs a hub, and administers one on its own machine."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from sandlot.api import DEFAULT_SCOPES, SCOPES, KeyCreate
from sandlot.cli.lazy import Entry, LazyGroup, command
from sandlot.cli.output import Output
from sandlot.cli.overrides import RunCommand, overrides_of
from sandlot.client import write_key
from sandlot.hub import Hub, Settings, load_settings, open_hub, serve

_SHARED = {
    "user": Entry("sandlot.cli.hub", "Make accounts.", attribute="user_group", extra="hub"),
    "key": Entry("sandlot.cli.hub", "Make API keys.", attribute="key_group", extra="hub"),
}

hub_command = LazyGroup(
    "hub",
    entries={
        "serve": Entry("sandlot.cli.hub", "Run a hub on this machine.", extra="hub"),
        **_SHARED,
    },
    help="Run a hub and administer it.",
)
user_group = LazyGroup(
    "user",
    entries={"create": Entry("sandlot.cli.hub", "Make a user.", attribute="create_user_command")},
    help="Make accounts. Works on the hub's own files, on the machine that it runs on.",
)
key_group = LazyGroup(
    "key",
    entries={"create": Entry("sandlot.cli.hub", "Make an API key of a user.", attribute="create_key_command")},
    help="Make API keys. Works on the hub's own files, on the machine that it runs on.",
)


def settings_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which hub is meant."""
    return click.option("--data-dir", metavar="FOLDER", help="The folder of the hub's database and files.")(function)


@command("serve", cls=RunCommand, config_class=Settings)
@settings_options
@click.option("--host", help="The address to listen on [default: 127.0.0.1].")
@click.option("--port", type=click.IntRange(0, 65535), help="0 takes a free one [default: 7350].")
def serve_command(out: Output, data_dir: str | None, host: str | None, port: int | None) -> None:
    """Run a hub on this machine. An empty data folder works. Ctrl-C stops it.

    Every setting can be given as an option, in a file (@ hub.toml), or as SANDLOT_HUB_NAME in the environment.
    """
    settings = _settings(data_dir=data_dir, host=host, port=port)

    def ready(address: str) -> None:
        out.result({"url": address, "data_dir": str(settings.data_dir)}, address)
        out.say(f"the hub is at {address}, its data in {settings.data_dir}; Ctrl-C stops")
        out.next(
            f"sandlot hub user create NAME --data-dir {settings.data_dir}", f"sandlot login --hub {address} --name NAME"
        )

    with contextlib.suppress(KeyboardInterrupt):
        serve(settings, ready=ready)


@command("create", cls=RunCommand, config_class=Settings)
@click.argument("name")
@settings_options
@click.option("--password-stdin", is_flag=True, help="Read the password from stdin instead of asking for it.")
@click.option("--no-password", is_flag=True, help="Only keys will do for this user: sandlot hub key create NAME.")
@click.option("--admin", is_flag=True, help="May do everything.")
def create_user_command(
    out: Output, name: str, data_dir: str | None, password_stdin: bool, no_password: bool, admin: bool
) -> None:
    """Make the user NAME."""
    with _opened(_settings(data_dir=data_dir)) as hub:
        password = None
        if not no_password:
            password = (
                sys.stdin.readline().rstrip("\n")
                if password_stdin
                else click.prompt("password", hide_input=True, confirmation_prompt=True, err=True)
            )
        account = hub.accounts.create_user(name, password=password, admin=admin)
    out.result(account.model_dump(mode="json"), account.name)
    out.next("sandlot login --name " + name if password else f"sandlot hub key create {name}")


@command("create", cls=RunCommand, config_class=Settings)
@click.argument("user")
@settings_options
@click.option("--name", default="key", show_default=True, help="What the key is for.")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(SCOPES), help="What it may do. Repeat for several.")
@click.option("--owner", metavar="NAME", help="It acts on what this account owns only.")
@click.option("--days", type=click.IntRange(1, 3650), help="After how many days it expires [default: never].")
@click.option("--save-for", metavar="URL", help="Keep the key as your own for the hub at URL, and do not print it.")
def create_key_command(out: Output, user: str, data_dir: str | None, **options: Any) -> None:
    """Make an API key of USER. It is shown this once."""
    wanted = KeyCreate(
        name=options["name"],
        scopes=list(options["scopes"] or DEFAULT_SCOPES),
        owner=options["owner"],
        expires_in_days=options["days"],
    )
    with _opened(_settings(data_dir=data_dir)) as hub:
        made = hub.keys.create(user, wanted)
    record = made.model_dump(mode="json")
    if options["save_for"]:
        file = write_key(options["save_for"], made.secret)
        del record["secret"]
        out.result(record, made.prefix)
        out.say(f"the key of {user} for {options['save_for']} is in {file}")
        return
    out.result(record, made.secret)
    out.say("this is the only time that the key is shown")
    out.next("sandlot login --key-stdin")


@contextlib.contextmanager
def _opened(settings: Settings) -> Iterator[Hub]:
    hub = open_hub(settings)
    try:
        yield hub
    finally:
        hub.close()


def _settings(**options: Any) -> Settings:
    found = overrides_of(click.get_current_context())
    pairs = [*found.values, *((name, str(value)) for name, value in options.items() if value is not None)]
    files: list[Path] = found.files
    return load_settings(files[-1] if files else None, pairs)
