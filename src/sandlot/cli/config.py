"""`sandlot config`: a user's settings."""

from __future__ import annotations

import click

from sandlot.cli.lazy import Entry, LazyGroup, command
from sandlot.cli.output import Output
from sandlot.client import ClientSettings, read_settings, settings_file, write_setting
from sandlot.config import nearest
from sandlot.errors import Invalid

config_command = LazyGroup(
    "config",
    entries={
        "list": Entry("sandlot.cli.config", "Show all settings, and the file that they are in."),
        "get": Entry("sandlot.cli.config", "Print one setting."),
        "set": Entry("sandlot.cli.config", "Change a setting."),
        "unset": Entry("sandlot.cli.config", "Put a setting back to its default."),
    },
    help="Show and change settings.",
)


@command("list")
def list_command(out: Output) -> None:
    """Show all settings, and the file that they are in."""
    settings = read_settings()
    rows = [
        {"name": name, "value": getattr(settings, name), "about": field.description}
        for name, field in ClientSettings.model_fields.items()
    ]
    out.table(rows, {"name": "NAME", "value": "VALUE", "about": "ABOUT"}, record=settings.model_dump(mode="json"))
    out.say(f"from {settings_file()}")


@command("get")
@click.argument("name")
def get_command(out: Output, name: str) -> None:
    """Print the setting NAME."""
    if name not in ClientSettings.model_fields:
        near = nearest(name, list(ClientSettings.model_fields))
        raise Invalid(f"there is no setting {name!r}", hint=f"did you mean {near}?" if near else "sandlot config list")
    value = getattr(read_settings(), name)
    out.result({name: value}, str(value))


@command("set")
@click.argument("name")
@click.argument("value")
def set_command(out: Output, name: str, value: str) -> None:
    """Set NAME to VALUE."""
    settings = write_setting(name, value)
    out.result({name: getattr(settings, name)})
    out.say(f"{name} is {getattr(settings, name)}")


@command("unset")
@click.argument("name")
def unset_command(out: Output, name: str) -> None:
    """Put NAME back to its default."""
    settings = write_setting(name, None)
    out.result({name: getattr(settings, name)})
    value = getattr(settings, name)
    out.say(f"{name} is {value} again" if value else f"{name} is not set any more")
