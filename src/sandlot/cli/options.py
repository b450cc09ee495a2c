"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

from sandlot.errors import Invalid, NotFound
from sandlot.ids import PackageRef, module_name

hub_option = click.option("--hub", metavar="URL", help="The hub, if not the one of your settings.")
python_option = click.option(
    "--python",
    metavar="PATH",
    help="The project's interpreter or virtual environment [default: $VIRTUAL_ENV, else ./.venv, else sandlot's own].",
)


def package_folder(text: str) -> Path:
    """The folder of a package that is named by path, or by name below the current folder or ./environments."""
    path = Path(text)
    if (path / "pyproject.toml").is_file() or "/" in text or text.startswith("."):
        return path
    module = module_name(text)
    places = [Path("environments") / module, Path(module), Path("environments") / text]
    found = next((place for place in places if (place / "pyproject.toml").is_file()), None)
    if found is not None:
        return found
    if path.is_dir():
        return path
    raise NotFound(
        f"there is no package {text!r} here: looked in {', '.join(f'./{place}' for place in dict.fromkeys(places))}",
        hint=f"name its folder, or start it with sandlot env init {text}",
    )


def environment_id(text: str) -> str:
    """An environment's id as `envs` takes it: a folder that is named without `./` gets it."""
    is_plain = not text.startswith((".", "/", "~"))
    return f"./{text.rstrip('/')}" if is_plain and "/" in text and Path(text).is_dir() else text


def hub_reference(text: str) -> PackageRef:
    """`owner/name[@version]`. `Invalid` for a path, or where the owner is missing."""
    if text.startswith((".", "/", "~")) or text.count("/") > 1:
        raise Invalid(
            f"{text!r} is a path; a package of the hub was expected", hint="write owner/name or owner/name@1.2.0"
        )
    ref = PackageRef.parse(text)
    if ref.owner is None:
        raise Invalid(
            f"{text!r} does not say whose package it is",
            hint=f"write owner/{ref.name}; find it with sandlot env list {ref.name}",
        )
    return ref
