"""What a hub can be told: from a TOML file, from `SANDLOT_HUB_…` variables, from options, each over the one before."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field

from sandlot.config import Config, build, config_home, merge, parse_value, read_toml

PREFIX = "SANDLOT_HUB_"

_MIB = 1024 * 1024


def default_folder() -> Path:
    """Where a hub keeps its data if it is not told: `$SANDLOT_HOME/hub`, else by the XDG rule."""
    if os.environ.get("SANDLOT_HOME"):
        return config_home() / "hub"
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "sandlot" / "hub"


class Settings(Config):
    """A hub's settings. The defaults make a working hub for one machine."""

    data_dir: Path = Field(default_factory=default_folder)
    """The folder of the database and of all files. It is made if it is not there."""
    database_url: str = ""
    """A SQLAlchemy URL, such as `postgresql+psycopg://…`. Empty: SQLite in the data folder."""
    host: str = "127.0.0.1"
    """The address to listen on. `0.0.0.0` opens the hub to the network."""
    port: int = Field(default=7350, ge=0, le=65535)
    """The port to listen on; 0 takes a free one."""
    public_url: str = Field(default="", pattern=r"^(https?://[^\s/]+)?$")
    """The address that users see, such as `https://hub.example.org`, if a proxy stands before the hub. Empty: the one
    that each request was made to."""
    sdk_wheel: Path | None = None
    """A wheel of sandlot, or a folder of them, to be served to environments. Empty: made from the running sandlot."""
    allow_names: list[str] = Field(default_factory=list)
    """Names of well-known distributions that packages of this hub may carry all the same."""
    max_file_bytes: int = Field(default=256 * _MIB, ge=1)
    """The largest file of a release."""
    max_unpacked_bytes: int = Field(default=1024 * _MIB, ge=1)
    """The most that a file of a release may unpack to."""
    max_archive_entries: int = Field(default=20_000, ge=1)
    """How many files an archive may hold."""
    max_batch_bytes: int = Field(default=256 * _MIB, ge=1)
    """The largest batch of a run's events, uncompressed."""
    max_line_bytes: int = Field(default=64 * _MIB, ge=1)
    """The longest event of a run."""
    upload_hours: int = Field(default=24, ge=1)
    """How long an upload that has begun can be committed."""
    session_days: int = Field(default=30, ge=1)
    """How long a browser stays signed in."""

    def database(self) -> str:
        """The URL of the database."""
        return self.database_url or f"sqlite:///{(self.data_dir / 'hub.sqlite3').absolute()}"


def load_settings(
    file: Path | None = None, overrides: Sequence[tuple[str, str]] = (), *, environ: Mapping[str, str] | None = None
) -> Settings:
    """Settings from a TOML file, then `SANDLOT_HUB_PORT=…` and its like, then overrides; else `Invalid`."""
    table = read_toml(file) if file else {}
    sources = [str(file)] if file else []
    for name, text in (os.environ if environ is None else environ).items():
        if name.startswith(PREFIX) and name.removeprefix(PREFIX).lower() in Settings.model_fields:
            table = merge(table, {name.removeprefix(PREFIX).lower(): _value(text)})
            sources.append(name)
    for name, text in overrides:
        table = merge(table, {name.replace("-", "_"): _value(text)})
    return build(Settings, table, source=" and ".join(sources) or "the hub's settings")


def _value(text: str) -> object:
    value = parse_value(text)
    return value if isinstance(value, int | list | bool) else text
