"""`sandlot eval ENV`: every model plays every environment, each pair in a run of its own.

Invariants: all that was asked for is checked before the first run starts; of several pairs, one that cannot be played
does not keep the others from being played, and is named in the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from sandlot.cli.eval import VERBS
from sandlot.cli.eval_options import eval_options, option_table, settings_table
from sandlot.cli.eval_table import Done, Pair, aligned_table, comparable, table_rows
from sandlot.cli.eval_worker import Opening
from sandlot.cli.lazy import command
from sandlot.cli.output import Output
from sandlot.cli.overrides import Overrides, RunCommand, overrides_of
from sandlot.cli.pushing import check_push, pushing
from sandlot.cli.report import report
from sandlot.cli.running import close_environment, prints_aside, run_async
from sandlot.cli.watch import Watch
from sandlot.config import merge
from sandlot.engine import Playable
from sandlot.envs import Found, argument_names, find, load
from sandlot.errors import Failed, Invalid, SandlotError, Unreachable
from sandlot.evals import (
    Crew,
    EvalConfig,
    EvalFile,
    EvalPlan,
    expand,
    folder_of_eval,
    plan_eval,
    run_eval,
    settings_of,
)
from sandlot.models import Model, Registry, connect
from sandlot.store import RunFolder


class Place(NamedTuple):
    """Where a pair is played: the folder that it goes on in, if any, its place in words, what went before it."""

    resume: Path | None
    label: str
    done: list[Done]
    warned: set[str]
    """What was warned of; several pairs may have the same to be said."""


@command("run", cls=RunCommand, config_class=EvalFile, arguments_key="args")
@eval_options
def run_command(out: Output, environments: tuple[str, ...], **options: Any) -> None:
    """Evaluate models on environments: paths, installed packages, or names under ./environments.

    Every rollout is saved as soon as it is scored, so an interrupted run goes on with --resume FOLDER.
    """
    ctx = click.get_current_context()
    resume = Path(options["resume"]) if options["resume"] else None
    pairs = _asked(ctx, environments, options, resume)
    if options["dry_run"]:
        resolved = [{**each.config.model_dump(mode="json"), "models": [each.model]} for each in pairs]
        out.result(resolved, "\n".join(json.dumps(each, indent=2) for each in resolved))
        return
    check_push(options)
    saved = "finished rollouts are saved" if any(each.config.save for each in pairs) else ""
    done: list[Done] = []
    try:
        with prints_aside():
            run_async(_evaluate(out, pairs, options, Place(resume, "", done, set())), out, saved=saved)
    except KeyboardInterrupt:
        if done:
            _show(out, done)
        raise
    _tell(out, done)


def _asked(
    ctx: click.Context, environments: tuple[str, ...], options: dict[str, Any], resume: Path | None
) -> list[Pair]:
    """Every environment with every model, each with its settings; those of one environment stand together."""
    under = settings_table() if resume is None else merge(settings_table(), _settings_of(resume))
    overrides = overrides_of(ctx)
    table, over = overrides.layers(option_table(environments, options), under=under)
    pairs: list[Pair] = []
    for config in expand(table, over, source=overrides.source):
        if not config.environments:
            _check_arguments(ctx, overrides, None)
            raise click.UsageError("no environment is named: sandlot eval ENV -m MODEL", ctx)
        for environment in dict.fromkeys(config.environments):
            found = _found(ctx, environment)
            _check_arguments(ctx, overrides, found)
            if not config.models:
                raise click.UsageError("no model is named: -m MODEL, or sandlot config set model MODEL", ctx)
            settings = _with_defaults(found, config).model_copy(update={"environments": [found.ref.id]})
            pairs += [Pair(found, _for_model(settings, model), model) for model in dict.fromkeys(config.models)]
    _check_address(pairs, table | over)
    if resume is not None and len(pairs) != 1:
        raise click.UsageError("--resume goes on with one run: name one environment and one model, or none", ctx)
    first = {key: number for number, key in reversed(list(enumerate(pair.environment for pair in pairs)))}
    return sorted(pairs, key=lambda pair: first[pair.environment])


def _for_model(config: EvalConfig, model: str) -> EvalConfig:
    """The settings without an endpoint, where the model runs on this machine and has none."""
    if not _is_local(model):
        return config
    return config.model_copy(update={"base_url": None, "key_var": None, "headers": {}})


def _check_address(pairs: list[Pair], asked: Mapping[str, Any]) -> None:
    """`Invalid` where an address is given and no model is asked there."""
    if asked.get("base_url") and pairs and all(_is_local(pair.model) for pair in pairs):
        raise Invalid(
            f"-b {asked['base_url']} would not be used: {pairs[0].model} runs on this machine",
            hint="leave -b out, or name the model as the endpoint knows it, without local:",
        )


def _is_local(model: str) -> bool:
    # An id of the registry comes before the scheme, and its endpoint is where the registry says.
    return model.startswith("local:") and model not in Registry.find()


def _found(ctx: click.Context, environment: str) -> Found:
    if environment in VERBS:
        raise click.UsageError(f"{environment!r} is no environment: write sandlot eval {environment} first", ctx)
    return find(environment)


def _check_arguments(ctx: click.Context, overrides: Overrides, found: Found | None) -> None:
    """A usage error for `--NAME VALUE` where the environment has no such argument. Its module is imported to know."""
    command = ctx.command
    assert isinstance(command, RunCommand)
    if not overrides.arguments:
        return
    known = argument_names(found) if found is not None else []
    for name, word in overrides.arguments.items():
        if name not in known:
            command.refuse(ctx, word, owner=found.ref.id if found is not None else "", arguments=known)


async def _evaluate(out: Output, pairs: list[Pair], options: dict[str, Any], place: Place) -> None:
    """Plays the pairs and adds each to `place.done` as soon as it has ended."""
    done = place.done
    for _, group in itertools.groupby(pairs, key=lambda pair: pair.environment):
        some = list(group)
        try:
            out.say(f"environment: {some[0].found}")
            environment = load(some[0].found, some[0].config.args)
        except Exception as error:  # boundary: one environment of several
            done += _failed(out, some, error, alone=len(pairs) == 1)
            continue
        try:
            for pair in some:
                label = f"{len(done) + 1} of {len(pairs)}: {pair}" if len(pairs) > 1 else ""
                try:
                    here = place._replace(label=label)
                    done.append(await _play(out, pair, environment.playable, options, here))
                except Exception as error:  # boundary: one pair of several
                    done += _failed(out, [pair], error, alone=len(pairs) == 1)
        finally:
            await close_environment(environment, out)


def _failed(out: Output, pairs: list[Pair], error: Exception, *, alone: bool) -> list[Done]:
    """The pairs as ones that could not be played. A pair that is alone fails as the command."""
    if alone:
        raise error
    words = error.message if isinstance(error, SandlotError) else f"{type(error).__name__}: {error}"
    out.warn(f"not evaluated: {_listed(pairs)}: {words}")
    return [Done(pair, problem=words) for pair in pairs]


def _listed(pairs: list[Pair]) -> str:
    """The pairs in words, each once, however many settings it is played with."""
    return ", ".join(dict.fromkeys(map(str, pairs)))


async def _play(out: Output, pair: Pair, playable: Playable, options: dict[str, Any], place: Place) -> Done:
    ref = msgspec.structs.replace(pair.found.ref, args=pair.config.args)
    model = _connected(out, pair)
    try:
        with contextlib.ExitStack() as stack:
            plan = plan_eval(pair.config, playable=playable, model=model, ref=ref)
            folder: RunFolder | None = None
            if place.resume is not None:
                folder = stack.enter_context(RunFolder.resume(place.resume))
            elif plan.config.save:
                folder = stack.enter_context(folder_of_eval(plan))
            if place.label:
                out.say(place.label)
            _warn(out, plan, place)
            if folder is not None:
                out.say(f"saving in {folder.path}")
                stack.enter_context(pushing(out, folder.path, options))
            watch = stack.enter_context(Watch(out, place.label or str(pair)))
            try:
                async with watch.asking(model):
                    run = await run_eval(plan, folder=folder, progress=watch, crew=_crew(plan, pair))
            except (asyncio.CancelledError, Failed, Unreachable):
                if folder is not None:
                    out.say(f"go on with sandlot eval --resume {folder.path}" + _not_kept(pair.config))
                raise
    finally:
        await model.close()
    return Done(pair, run, folder.path if folder is not None else None, watch.first_failure)


def _warn(out: Output, plan: EvalPlan, place: Place) -> None:
    for words in plan.run.warnings:
        if place.resume is None and words not in place.warned:
            place.warned.add(words)
            out.warn(words)


def _not_kept(config: EvalConfig) -> str:
    """What a run does not keep of its endpoint, because it may be secret, and has to be told again."""
    kept = config.recorded()
    address = " -b URL" if kept["base_url"] != config.base_url else ""
    return address + "".join(f" --header '{name}: …'" for name in config.headers if name not in kept["headers"])


def _crew(plan: EvalPlan, pair: Pair) -> Crew | None:
    """The worker processes, if any were asked for."""
    config = plan.config
    if not config.workers:
        return None
    count = min(config.workers, max(1, len(plan.tasks)))
    # Of few rollouts the first worker to be ready would take all, were there no bound but the asked one.
    at_once = max(1, min(config.max_concurrent, plan.run.expected or 1))
    opening = Opening(
        environment=pair.found.ref.id,
        model=pair.model,
        config=config.model_dump(mode="json"),
        share=-(-at_once // count),
        endpoint=config.endpoint(),
    )
    return Crew(
        command=[sys.executable, "-m", "sandlot.cli.eval_worker"],
        opening=msgspec.json.encode(opening),
        count=count,
        max_concurrent=at_once,
        retries=config.retries,
        environment=plan.playable.name,
        model=plan.model.name,
    )


def _show(out: Output, done: list[Done]) -> None:
    """One pair's figures, or a table of several."""
    played = [(each, each.run) for each in done if each.run is not None]
    record = {"runs": [{"folder": _path(each), **msgspec.to_builtins(run)} for each, run in played]}
    if len(done) == 1:
        for _, run in played:
            out.result(record, report(f"{run.name} · {run.model}", run.summary))
    else:
        rows = table_rows(done)
        out.result({**record, "table": rows}, aligned_table(rows))


def _tell(out: Output, done: list[Done]) -> None:
    _show(out, done)
    _raise_failures(done)
    folders = [each.folder for each in done if each.folder is not None]
    if folders:
        more = [f"sandlot run show {folders[0]}", comparable(done)] if len(done) > 1 else []
        out.next(f"sandlot view {folders[0].parent.parent}", *filter(None, more), f"sandlot run push {folders[0]}")


def _path(done: Done) -> str | None:
    return str(done.folder) if done.folder else None


def _raise_failures(done: list[Done]) -> None:
    """`Failed` if a pair was not played, or not to its end, or not one of its rollouts has a verdict."""
    problems = [(each, problem) for each in done if (problem := each.stopped or each.failure)]
    if not problems:
        return
    first, words = problems[0]
    hint = f"sandlot run show {first.folder} --rollouts" if first.folder else None
    if first.stopped and first.folder:
        hint = f"sandlot eval --resume {first.folder}, with a limit that is higher"
    if len(done) == 1:
        raise Failed(words, hint=hint)
    alike: dict[str, list[Pair]] = {}
    for each, problem in problems:
        alike.setdefault(problem, []).append(each.pair)
    listed = "; ".join(f"{_listed(some)}: {problem}" for problem, some in alike.items())
    raise Failed(f"{len(problems)} of {len(done)} evaluations failed: {listed}", hint=hint)


def _with_defaults(found: Found, config: EvalConfig) -> EvalConfig:
    """The package's own numbers of tasks and rollouts, where nothing else was asked for."""
    given = config.model_fields_set
    ours = {"num_tasks": found.eval_defaults.get("num_examples", 5)}
    ours["rollouts_per_task"] = found.eval_defaults.get("rollouts_per_example", 3)
    missing = {name: value for name, value in ours.items() if name not in given}
    told = config.model_copy(update=missing)
    if "num_examples" not in found.eval_defaults and "num_tasks" in missing:
        told.model_fields_set.discard("num_tasks")  # Nobody asked for so many: a smaller set is no surprise.
    return told


def _settings_of(folder: Path) -> dict[str, Any]:
    """What a saved run was started with."""
    with RunFolder.open(folder) as opened:
        run = opened.run
    if run.kind != "eval" or not run.environments:
        raise Invalid(f"{folder} is a run of kind {run.kind}; sandlot eval goes on with evaluations only")
    return {**settings_of(run), "environments": [run.environments[0].id], "models": [run.model]}


def _connected(out: Output, pair: Pair) -> Model:
    options = pair.config.endpoint()
    if _is_local(pair.model):
        options["progress"] = out.say
    return connect(pair.model, **options)
