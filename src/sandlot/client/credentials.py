"""Keys of hubs, by origin, in one file that only its user can read.

`$SANDLOT_KEY` is a key for the hub of the settings (or of `$SANDLOT_HUB`), and never goes to any other.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from sandlot.client.connection import normal_origin
from sandlot.client.settings import hub_origin
from sandlot.config import config_home
from sandlot.errors import Invalid


def key_for(origin: str) -> str | None:
    """The key for a hub, or None."""
    origin = normal_origin(origin)
    from_environment = os.environ.get("SANDLOT_KEY")
    if from_environment and origin == hub_origin():
        return from_environment
    return known_keys().get(origin)


def known_keys() -> dict[str, str]:
    """The keys in the file, by origin. `Invalid` if it cannot be read."""
    file = _file()
    try:
        text = file.read_text(encoding="utf-8")
        if file.stat().st_mode & 0o077:
            file.chmod(0o600)
    except FileNotFoundError:
        return {}
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise Invalid(f"{file} is not a file of keys", hint="remove it and sign in again: sandlot login")
    return found


def write_key(origin: str, key: str) -> Path:
    """Keeps `key` for a hub, in place of an older one. Returns the file, which is made with mode 0600."""
    return _write({**known_keys(), normal_origin(origin): key})


def forget_key(origin: str) -> bool:
    """Removes the key of a hub from the file; False if there was none."""
    keys = known_keys()
    if keys.pop(normal_origin(origin), None) is None:
        return False
    _write(keys)
    return True


def _write(keys: dict[str, str]) -> Path:
    file = _file()
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as handle:
        json.dump(keys, handle, indent=2)
        os.fchmod(handle.fileno(), 0o600)
    fresh.replace(file)
    return file


def _file() -> Path:
    return config_home() / "credentials.json"
