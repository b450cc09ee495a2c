"""`sandlot env validate`: plays an environment without a model, by agents whose worth is known."""

from __future__ import annotations

import json
from typing import Any

import click
import msgspec

from sandlot.cli.env_file import env_file_option
from sandlot.cli.lazy import command
from sandlot.cli.options import environment_id
from sandlot.cli.output import Output
from sandlot.cli.running import close_environment, prints_aside, run_async
from sandlot.envs import Found, Validation, find, load, validate
from sandlot.errors import Failed, Invalid


@command("validate")
@click.argument("environment", metavar="ENV")
@click.option("-n", "--num-tasks", default=20, show_default=True, type=click.IntRange(1), help="How many tasks.")
@click.option("-a", "--args", "arguments", metavar="JSON", help="Arguments of load_environment, as a JSON object.")
@click.option("--split", default="eval", show_default=True, help="The set of tasks.")
@click.option("--full", type=float, help="The full reward [default: the sum of the positive weights].")
@env_file_option
def validate_command(out: Output, environment: str, num_tasks: int, arguments: str | None, **options: Any) -> None:
    """Play ENV by its oracle, by an agent that says nothing, and by an echo; no model is called.

    The oracle must earn the full reward on every task, and saying nothing on none.
    """
    found = find(environment_id(environment))
    out.say(f"environment: {found}")
    with prints_aside():
        done = run_async(_validated(out, found, _object(arguments), num_tasks, options), out)
    record = {
        "environment": found.ref.name,
        "valid": not done.problems,
        **msgspec.to_builtins(done),
    }
    for each, played in zip(record["agents"], done.agents, strict=True):
        each["mean"] = played.mean
    out.result(record, _report(found.ref.name or found.ref.id, done))
    for words in done.cautions:
        out.warn(words)
    if done.problems:
        raise Failed(f"{found.ref.name or environment} is not valid: {'; '.join(done.problems)}")
    out.next(f"sandlot eval {environment} -m MODEL", f"sandlot env push {environment}")


async def _validated(
    out: Output, found: Found, arguments: dict[str, Any], tasks: int, options: dict[str, Any]
) -> Validation:
    environment = load(found, arguments)
    try:
        return await validate(environment, tasks=tasks, split=options["split"], full=options["full"])
    finally:
        await close_environment(environment, out)


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise Invalid(f"-a is not JSON: {error}", hint="-a '{\"num_eval\": 10}'") from None
    if not isinstance(value, dict):
        raise Invalid(f"-a is a JSON {type(value).__name__}; an object was expected")
    return value


_AGENTS = {"oracle": "the oracle", "nothing": "saying nothing", "echo": "repeating the question"}


def _report(name: str, done: Validation) -> str:
    lines = [f"{name}: {done.tasks} tasks, full reward {done.full:g}"]
    for played in done.agents:
        mean = "no verdict" if played.mean is None else f"mean {played.mean:.3f}"
        lines.append(f"  {_AGENTS[played.agent]:<22}  {mean}, full on {played.full} of {done.tasks}")
    return "\n".join([*lines, f"  {'not valid' if done.problems else 'valid'}"])
