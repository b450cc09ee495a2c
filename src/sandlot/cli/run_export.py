"""`sandlot run export`: a run's rollouts as rows for other programs.

Invariants: rows stream, so a run of any size is exported in little memory; a file is whole or not there; in CSV a cell
that a spreadsheet would take for a formula is text, whatever a model wrote.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from sandlot.cli.export_formats import WRITERS, Rows
from sandlot.cli.lazy import command
from sandlot.cli.output import Output
from sandlot.cli.run_show import run_folder
from sandlot.envs import output_of
from sandlot.errors import Failed, Invalid
from sandlot.records import JsonObject, Rollout, Run, conversation
from sandlot.store import RunFolder

_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}


@command("export")
@click.argument("run")
@click.option("-f", "--format", "form", type=click.Choice(list(WRITERS)), help="[default: by the file's name, jsonl]")
@click.option("-o", "--output", metavar="FILE", help="Where to write [default: stdout; Parquet needs a file].")
@click.option("--sft", is_flag=True, help="Rows to fine-tune on: messages, tools, reward, environment and version.")
@click.option("--min-reward", type=float, metavar="REWARD", help="Only rollouts with at least this reward.")
def export_command(out: Output, run: str, form: str | None, output: str | None, sft: bool, **options: Any) -> None:
    """Write the rollouts of RUN as JSONL, CSV or Parquet, one a row.

    RUN is a folder, or the end of a run's id. Rows have the columns of an evaluation's `results["outputs"]`.
    """
    path = None if output in (None, "-") else Path(str(output))
    form = form or (_SUFFIXES.get(path.suffix.lower(), "jsonl") if path is not None else "jsonl")
    if path is None and (form == "parquet" or out.json):
        what = "Parquet is no text" if form == "parquet" else "--json prints what was done on stdout"
        raise Invalid(f"{what}, so the rows need a file", hint=f"-o rows.{form}")
    with RunFolder.open(run_folder(run)) as folder:
        least, record = options["min_reward"], folder.run

        def rows() -> Iterator[JsonObject]:
            for rollout in folder.rollouts():
                if least is None or (rollout.reward is not None and rollout.reward >= least):
                    yield _sft_row(rollout, record) if sft else _row(rollout, record)

        count = _write(rows, form, path)
    if path is not None:
        out.result({"file": str(path), "format": form, "rows": count}, str(path))
    out.say(f"{count} rows")


def _write(rows: Rows, form: str, path: Path | None) -> int:
    """Writes the rows, to a file by way of one beside it; how many."""
    if path is None:
        return WRITERS[form](rows, sys.stdout.buffer)
    beside = path.with_name(f".{path.name}.part")
    try:
        try:
            with beside.open("wb") as file:
                count = WRITERS[form](rows, file)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}", hint="name another file with -o") from None
    return count


def _row(rollout: Rollout, run: Run) -> JsonObject:
    """The row of `Results`, and what tells it from the rows of other runs."""
    known = output_of(rollout)
    place = {"id": rollout.id, "index": rollout.index, "run": run.id, **_source(rollout, run)}
    tools = {"tool_defs": rollout.tools} if rollout.tools else {}
    return {**place, **known, **tools}


def _sft_row(rollout: Rollout, run: Run) -> JsonObject:
    return {
        "messages": conversation(rollout),
        "tools": [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in rollout.tools
        ],
        "reward": rollout.reward,
        "id": rollout.id,
        "task_id": rollout.task.id,
        **_source(rollout, run),
    }


def _source(rollout: Rollout, run: Run) -> JsonObject:
    refs = {ref.name or ref.id: ref for ref in run.environments}
    ref = refs.get(rollout.environment) or (run.environments[0] if len(run.environments) == 1 else None)
    return {
        "environment": rollout.task.environment or rollout.environment,
        "version": ref.version if ref is not None else None,
        "model": rollout.model,
        "status": rollout.status,
    }
