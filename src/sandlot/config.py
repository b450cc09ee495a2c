"""Configuration: strict classes, TOML files and dotted overrides, and where a user's files are.

Invariants: a config is checked whole before anything heavy is imported; an unknown key fails by name with the nearest
known one; every field has a sentence under it, which the reference prints; reading a config never installs, downloads
or imports what it names.
"""

from __future__ import annotations

import difflib
import os
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from sandlot.errors import Invalid, NotFound

ConfigT = TypeVar("ConfigT", bound="Config")


class Config(BaseModel):
    """The base of every config class: unknown keys are refused, and a bare string under a field documents it."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, validate_default=True)


def read_toml(path: Path) -> dict[str, Any]:
    """The table in a TOML file. `NotFound` or `Invalid`, naming file and line."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except IsADirectoryError:
        raise Invalid(f"{path} is a folder; a TOML file was expected") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} is not valid TOML: {error}") from None


def build(cls: type[ConfigT], table: Mapping[str, Any], *, source: str = "the config") -> ConfigT:
    """`table` as a `cls`. `Invalid` lists everything that is wrong with it, each with its dotted name."""
    try:
        return cls.model_validate(dict(table))
    except ValidationError as error:
        problems = [_problem(cls, entry) for entry in error.errors(include_url=False)]
        raise Invalid(f"{source}: " + "; ".join(problems)) from None


def load(cls: type[ConfigT], files: Sequence[Path] = (), overrides: Sequence[tuple[str, str]] = ()) -> ConfigT:
    """A config from TOML files, later ones winning key by key, and then dotted overrides: `("train.lr", "1e-5")`.

    An override's value is read as TOML where it is valid TOML (`8`, `true`, `[1, 2]`), else as text.
    """
    table: dict[str, Any] = {}
    for file in files:
        table = merge(table, read_toml(file))
    for name, text in overrides:
        table = merge(table, nested(name, parse_value(text)))
    source = " and ".join(str(file) for file in files) or "the options"
    return build(cls, table, source=source)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the values of `over`; tables are merged key by key, everything else is replaced."""
    result = dict(base)
    for key, value in over.items():
        known = result.get(key)
        result[key] = merge(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return result


def nested(name: str, value: Any) -> dict[str, Any]:
    """`("a.b", 1)` as `{"a": {"b": 1}}`; dashes in the name are underscores."""
    parts = name.replace("-", "_").split(".")
    if not all(parts):
        raise Invalid(f"{name!r} is not a dotted name", hint="write it like train.lr")
    table: dict[str, Any] = {parts[-1]: value}
    for part in reversed(parts[:-1]):
        table = {part: table}
    return table


def parse_value(text: str) -> Any:
    """An override's value: TOML where it is valid TOML, else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def describe(cls: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """For every field, depth first: dotted name, type, default, sentence. Tables of other configs are entered."""
    for name, field in cls.model_fields.items():
        dotted = f"{prefix}{name}"
        inner = _config_class(field.annotation)
        if inner is not None:
            yield from describe(inner, f"{dotted}.")
            continue
        default = "required" if field.is_required() else repr(field.get_default(call_default_factory=True))
        yield dotted, _type_name(field.annotation), default, field.description or ""


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that was most likely meant, or None."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return close[0] if close else None


def config_home() -> Path:
    """Where settings and credentials are: `$SANDLOT_HOME`, else `~/.config/sandlot` by the XDG rule."""
    return _home("XDG_CONFIG_HOME", ".config")


def cache_home() -> Path:
    """Where what can be had again is kept: `$SANDLOT_HOME/cache`, else `~/.cache/sandlot` by the XDG rule."""
    root = os.environ.get("SANDLOT_HOME")
    return Path(root).expanduser() / "cache" if root else _home("XDG_CACHE_HOME", ".cache")


def _home(variable: str, default: str) -> Path:
    root = os.environ.get("SANDLOT_HOME")
    if root:
        return Path(root).expanduser()
    base = os.environ.get(variable)
    return (Path(base) if base else Path.home() / default) / "sandlot"


def _problem(cls: type[BaseModel], entry: Any) -> str:
    location = entry["loc"]
    name = ".".join(str(part) for part in location)
    if entry["type"] == "extra_forbidden":
        owner = _owner(cls, location[:-1])
        guess = nearest(str(location[-1]), list(owner.model_fields)) if owner else None
        return f"unknown key {name!r}" + (f" (did you mean {guess!r}?)" if guess else "")
    if entry["type"] == "missing":
        return f"{name!r} is required"
    message = str(entry["msg"]).removeprefix("Value error, ")
    if not name:
        return message  # Said of the config as a whole, by a validator that looks at several fields.
    return f"{name}: {message}" + ("" if isinstance(entry["input"], dict) else f", found {entry['input']!r}")


def _owner(cls: type[BaseModel], path: Sequence[Any]) -> type[BaseModel] | None:
    current: type[BaseModel] | None = cls
    for part in path:
        if isinstance(part, int) or current is None:
            continue
        field = current.model_fields.get(str(part))
        current = _config_class(field.annotation) if field else current
    return current


def _config_class(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation if issubclass(annotation, BaseModel) else None
    for argument in typing.get_args(annotation):
        found = _config_class(argument)
        if found is not None:
            return found
    return None


def _type_name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")
