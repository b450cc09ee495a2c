"""`sandlot model`: models that run on this machine."""

from __future__ import annotations

import click
import msgspec

from sandlot.cli.lazy import Entry, LazyGroup, command
from sandlot.cli.output import Output
from sandlot.inference import list_models, resolve

model_command = LazyGroup(
    "model",
    entries={
        "pull": Entry("sandlot.cli.model", "Fetch a model, so that local:NAME needs no network."),
        "list": Entry("sandlot.cli.model", "List the models that can be had by name."),
    },
    help="Fetch and list local models.",
)


@command("pull")
@click.argument("name")
def pull_command(out: Output, name: str) -> None:
    """Fetch the model NAME into your cache, if it is not there yet. Prints its folder."""
    folder = resolve(name, progress=out.say)
    out.result({"name": name, "folder": str(folder)}, str(folder))
    out.next(f"sandlot eval ENV -m local:{name} -n 5 -r 2", f"sandlot serve {name}")


@command("list")
def list_command(out: Output) -> None:
    """List the models that can be had by name. A folder, or a Hugging Face id, can be named as well."""
    found = list_models()
    rows = [
        {
            "name": each.model.name,
            "size": f"{each.model.parameters / 1e6:.0f} M parameters",
            "download": f"{each.model.download / 1e6:.0f} MB",
            "licence": each.model.licence,
            "here": str(each.path) if each.path else "not yet",
        }
        for each in found
    ]
    columns = {"name": "NAME", "size": "SIZE", "download": "DOWNLOAD", "licence": "LICENCE", "here": "HERE"}
    out.table(rows, columns, record=msgspec.to_builtins(found, enc_hook=str))
