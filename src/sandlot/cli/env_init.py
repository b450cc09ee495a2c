"""`sandlot env init`: writes a new package out of the template."""

from __future__ import annotations

import keyword
import sys
from importlib import resources
from pathlib import Path
from string import Template

import click

from sandlot.cli.lazy import command
from sandlot.cli.output import Output
from sandlot.errors import Conflict, Invalid
from sandlot.ids import module_name, normal_name

_TARGETS = {
    "pyproject.toml.template": "pyproject.toml",
    "module.py.template": "{module}.py",
    "test.py.template": "tests/test_{module}.py",
    "README.md.template": "README.md",
    "AGENTS.md.template": "AGENTS.md",
    "gitignore.template": ".gitignore",
}


@command("init")
@click.argument("name")
@click.option("--into", metavar="FOLDER", help="Where the package's folder is made [default: ./environments].")
def init_command(out: Output, name: str, into: str | None) -> None:
    """Write a new environment package NAME that runs at once.

    The folder and the module get underscores (my_env), the distribution dashes (my-env); both names work everywhere.
    """
    distribution, module = normal_name(name), module_name(name)
    if not module.isidentifier():
        raise Invalid(f"{name!r} cannot be imported as a module", hint="begin with a letter, such as my-env")
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or module == "sandlot":
        whose = "a word of the language" if keyword.iskeyword(module) else "a module that is there already"
        raise Invalid(
            f"{name!r} cannot be an environment's name: {module} is {whose}", hint=f"such as {distribution}-env"
        )
    home = Path("environments") if Path.cwd().name != "environments" else Path()
    parent = Path(into) if into else home
    folder = parent / module
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Conflict(f"{folder} is there already", hint="choose another name, or remove it")
    files = write_template(folder, distribution=distribution, module=module)
    record = {"name": distribution, "module": module, "folder": str(folder), "files": files}
    out.result(record, "\n".join(str(folder / file) for file in files))
    shown = distribution if parent == Path("environments") else folder if folder.is_absolute() else f"./{folder}"
    out.next(
        f"sandlot eval {shown} -m local:smollm2-135m -n 5 -r 2",
        f"edit {folder / module}.py: the tasks and the reward",
        f"sandlot env push {shown}",
    )


def write_template(folder: Path, *, distribution: str, module: str) -> list[str]:
    """Writes the template under `folder`; returns the files that it made."""
    template = resources.files("sandlot.envs") / "template"
    title = distribution.replace("-", " ")
    written = []
    for source, target in _TARGETS.items():
        text = Template((template / source).read_text(encoding="utf-8"))
        path = target.format(module=module)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        filled = text.substitute(name=distribution, module=module, title=title)
        (folder / path).write_text(filled, encoding="utf-8")
        written.append(path)
    return written
