"""The options of `sandlot eval`, and the config that they make."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from sandlot.cli.env_file import env_file_option
from sandlot.cli.options import environment_id
from sandlot.cli.pushing import push_options
from sandlot.client import read_settings
from sandlot.envs import check_sampling, sampling_of
from sandlot.errors import Invalid


def eval_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a command with them."""
    for decorate in reversed((*_DECORATORS, push_options)):
        function = decorate(function)
    return function


_MORE_THAN_0 = click.FloatRange(0, min_open=True)

_DECORATORS: tuple[Callable[[Any], Any], ...] = (
    click.argument("environments", nargs=-1, metavar="ENV..."),
    click.option(
        "-m",
        "--model",
        "models",
        multiple=True,
        help="An endpoint's id, provider:NAME, or local:NAME. Repeat for several, or separate them with commas.",
    ),
    click.option(
        "-n",
        "--num-tasks",
        "--num-examples",
        type=click.IntRange(-1),
        help="How many tasks; -1 all, 0 none [default: the package's, else 5].",
    ),
    click.option(
        "-r",
        "--rollouts-per-task",
        "--rollouts-per-example",
        type=click.IntRange(1),
        help="Rollouts of each task [default: the package's, else 3].",
    ),
    click.option(
        "-a",
        "--args",
        metavar="JSON",
        help="Arguments of load_environment, as a JSON object; or each as --NAME VALUE.",
    ),
    click.option(
        "-c",
        "--max-concurrent",
        type=click.IntRange(1),
        help="Rollouts in flight at once [default: of your settings, 128].",
    ),
    click.option(
        "-w", "--workers", type=click.IntRange(0, 256), help="Processes that play [default: 0, all in this one]."
    ),
    click.option(
        "-b",
        "--base-url",
        metavar="URL",
        help="An endpoint for the model; one that ends in /responses or /messages is spoken to so.",
    ),
    click.option("-k", "--key-var", metavar="NAME", help="The environment variable that holds the endpoint's key."),
    click.option(
        "--header",
        "headers",
        multiple=True,
        metavar="NAME:VALUE",
        help="A header for the endpoint; ${NAME} stands for a variable. Repeat for several.",
    ),
    env_file_option,
    click.option("-t", "--max-tokens", type=click.IntRange(1), help="The most tokens of one completion."),
    click.option("-T", "--temperature", type=click.FloatRange(0), help="0 takes the likeliest token."),
    click.option("-S", "--sampling-args", metavar="JSON", help="Further sampling settings, as a JSON object."),
    click.option("--rollout-tokens", type=click.IntRange(1), help="The most tokens of one rollout, prompts included."),
    click.option("--rollout-cost", type=_MORE_THAN_0, help="US dollars that one rollout may cost."),
    click.option("--rollout-seconds", type=_MORE_THAN_0, help="Seconds that one rollout may be played."),
    click.option("--run-tokens", type=click.IntRange(1), help="Start no further rollout after so many tokens."),
    click.option("--run-cost", type=_MORE_THAN_0, help="Start no further rollout after so many US dollars."),
    click.option("--run-seconds", type=_MORE_THAN_0, help="Stop after so many seconds; --resume plays the rest."),
    click.option("--split", help="The set of tasks [default: eval]."),
    click.option("--shuffle/--no-shuffle", default=None, help="Take the tasks in an order that the seed decides."),
    click.option("--seed", type=int, help="Of the order of tasks and of every rollout [default: 0]."),
    click.option(
        "-o", "--output", metavar="FOLDER", help="Where runs are saved [default: of your settings, ./outputs]."
    ),
    click.option("-s", "--save/--no-save", default=None, help="Whether every rollout is saved [default: yes]."),
    click.option("--resume", metavar="FOLDER", help="Go on with a saved run: play what is missing of it."),
    click.option(
        "--retry-failed/--keep-failed",
        default=None,
        help="With --resume: also play again what has no verdict [default: yes].",
    ),
    click.option("--dry-run", is_flag=True, help="Print the resolved config and play nothing."),
)


def option_table(environments: tuple[str, ...], options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, as a table of `EvalConfig`."""
    sampling = _sampling(options)
    table: dict[str, Any] = {
        "environments": [environment_id(each) for each in environments] or None,
        "models": [name for each in options["models"] for name in _separated(each)] or None,
        "base_url": options["base_url"],
        "key_var": options["key_var"],
        "headers": _headers(options["headers"]) or None,
        "num_tasks": options["num_tasks"],
        "rollouts_per_task": options["rollouts_per_task"],
        "args": _json_object(options["args"], "-a"),
        "max_concurrent": options["max_concurrent"],
        "workers": options["workers"],
        "sampling": sampling or None,
        "limits": _limits(options, "run") or None,
        "rollout_limits": _limits(options, "rollout") or None,
        "split": options["split"],
        "shuffle": options["shuffle"],
        "seed": options["seed"],
        "output": options["output"],
        "save": options["save"],
        "retry_failed": options["retry_failed"],
    }
    return {name: value for name, value in table.items() if value is not None}


def _separated(text: str) -> list[str]:
    """The names in `text`, which commas separate."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise Invalid(f"-m {text!r} has a name that is empty", hint="-m ONE,OTHER")
    return names


def settings_table() -> dict[str, Any]:
    """The user's settings, which lie under every config file."""
    settings = read_settings()
    table: dict[str, Any] = {"output": settings.outputs, "max_concurrent": settings.max_concurrent}
    return table | ({"models": [settings.model]} if settings.model else {})


def _sampling(options: dict[str, Any]) -> dict[str, Any]:
    asked = _json_object(options["sampling_args"], "-S") or {}
    check_sampling(asked, where="-S")
    sampling = {name: value for name, value in sampling_of(asked).items() if value != {}}
    for name in ("max_tokens", "temperature"):
        if options[name] is not None:
            sampling[name] = options[name]
    return sampling


def _limits(options: dict[str, Any], whose: str) -> dict[str, Any]:
    given = {name: options[f"{whose}_{name}"] for name in ("cost", "tokens", "seconds")}
    return {name: value for name, value in given.items() if value is not None}


def _headers(given: tuple[str, ...]) -> dict[str, str]:
    pairs = [header.partition(":") for header in given]
    if any(not colon for _, colon, _ in pairs):
        raise Invalid("a header is written as NAME: VALUE", hint='--header "X-Team: evals"')
    return {key.strip(): value.strip() for key, _, value in pairs}


_EXAMPLES = {"-a": '{"num_eval": 10}', "-S": '{"top_p": 0.9}'}


def _json_object(text: str | None, option: str) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise Invalid(f"{option} is not JSON: {error}", hint=f"{option} '{_EXAMPLES[option]}'") from None
    if not isinstance(value, dict):
        raise Invalid(f"{option} is a JSON {type(value).__name__}; an object was expected")
    return value
