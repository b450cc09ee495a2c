"""`sandlot eval`: every model plays every environment, each pair in a run of its own."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from sandlot.cli.eval_options import eval_options, option_table, settings_table
from sandlot.cli.lazy import command
from sandlot.cli.output import Output
from sandlot.cli.overrides import RunCommand, overrides_of
from sandlot.cli.progress import Bar
from sandlot.cli.pushing import pushing
from sandlot.cli.report import report
from sandlot.cli.running import run_async
from sandlot.config import merge
from sandlot.envs import Found, find, load
from sandlot.errors import Failed, Invalid
from sandlot.evals import EvalConfig, EvalPlan, Summary, folder_of_eval, plan_eval, run_eval
from sandlot.models import Registry, connect
from sandlot.records import EnvironmentRef, Rollout, Run
from sandlot.store import RunFolder


@dataclass(frozen=True, slots=True)
class Done:
    """One run as it ended, and where it is."""

    run: Run
    folder: Path | None
    first_failure: str
    """What the first rollout without a verdict says; empty if there was none."""


@command("eval", cls=RunCommand, config_class=EvalConfig)
@eval_options
def eval_command(out: Output, environments: tuple[str, ...], **options: Any) -> None:
    """Evaluate models on environments: paths, installed packages, or names under ./environments.

    Every rollout is saved as soon as it is scored, so an interrupted run goes on with --resume FOLDER.
    """
    ctx = click.get_current_context()
    resume = Path(options["resume"]) if options["resume"] else None
    under = settings_table() if resume is None else merge(settings_table(), _settings_of(resume))
    config = overrides_of(ctx).config(EvalConfig, option_table(environments, options), under=under)
    if not config.environments:
        raise click.UsageError("no environment is named: sandlot eval ENV -m MODEL", ctx)
    if not config.models:
        raise click.UsageError("no model is named: -m MODEL, or sandlot config set model MODEL", ctx)
    found = [_with_defaults(find(each), config) for each in config.environments]
    if resume is not None and len(found) * len(config.models) != 1:
        raise click.UsageError("--resume goes on with one run: name one environment and one model, or none", ctx)
    if options["dry_run"]:
        resolved = [{**each.model_dump(mode="json"), "environments": [where.ref.id]} for where, each in found]
        out.result(resolved, "\n".join(json.dumps(each, indent=2) for each in resolved))
        return
    done = run_async(
        _evaluate(out, found, options, resume), out, saved="finished rollouts are saved" if config.save else ""
    )
    _tell(out, done)


async def _evaluate(
    out: Output, found: list[tuple[Found, EvalConfig]], options: dict[str, Any], resume: Path | None
) -> list[Done]:
    done: list[Done] = []
    for where, config in found:
        out.say(f"environment: {where}")
        environment = load(where, config.args)
        playable = environment.playable
        try:
            for name in config.models:
                model = connect(
                    name,
                    base_url=options["base_url"],
                    key_var=options["key_var"],
                    **_endpoint_options(out, name, options),
                )
                try:
                    plan = plan_eval(config, playable=playable, model=model, ref=_ref(where, config))
                    done.append(await _play(out, plan, options, resume))
                finally:
                    await model.close()
        finally:
            await playable.close()
    return done


async def _play(out: Output, plan: EvalPlan, options: dict[str, Any], resume: Path | None) -> Done:
    with contextlib.ExitStack() as stack:
        folder: RunFolder | None = None
        if resume is not None:
            folder = stack.enter_context(RunFolder.resume(resume))
        elif plan.config.save:
            folder = stack.enter_context(folder_of_eval(plan))
        if folder is not None:
            out.say(f"saving in {folder.path}")
            stack.enter_context(pushing(out, folder.path, options))
        watch = stack.enter_context(Watch(out, f"{plan.run.name} · {plan.run.model}"))
        run = await run_eval(plan, folder=folder, progress=watch)
    return Done(run, folder.path if folder is not None else None, watch.first_failure)


class Watch:
    """Shows how far a run is, with the mean so far."""

    def __init__(self, out: Output, label: str) -> None:
        self._out = out
        self._bar = Bar(out, label, 0, unit=" rollouts")
        self._done = 0
        self._rewards: list[float] = []
        self._without = 0
        self.first_failure = ""

    def __enter__(self) -> Watch:
        self._bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._bar.__exit__(*error)

    def started(self, total: int, done_already: int) -> None:
        """Sets the size."""
        self._bar.total, self._done = total, done_already
        self._bar.advance(done_already)
        self._out.say(f"{total} rollouts" + (f", {done_already} of them done already" if done_already else ""))

    def rollout(self, rollout: Rollout) -> None:
        """Counts one more."""
        self._done += 1
        if rollout.reward is None:
            self._without += 1
            failure = rollout.failure or (rollout.verdict.failure if rollout.verdict is not None else None)
            if failure is not None and not self.first_failure:
                self.first_failure = f"{failure.type}: {failure.message}"
        else:
            self._rewards.append(rollout.reward)
        mean = f"reward {sum(self._rewards) / len(self._rewards):.3f}" if self._rewards else ""
        missing = f"{self._without} without a verdict" if self._without else ""
        self._bar.advance(self._done, ", ".join(filter(None, (mean, missing))))

    def finished(self, summary: Summary) -> None:
        """The report says the rest."""


def _tell(out: Output, done: list[Done]) -> None:
    record = {
        "runs": [
            {"folder": str(each.folder) if each.folder else None, **msgspec.to_builtins(each.run)} for each in done
        ]
    }
    titles = [f"{each.run.name} · {each.run.model}" for each in done]
    out.result(record, "\n\n".join(report(title, each.run.summary) for title, each in zip(titles, done, strict=True)))
    folders = [each.folder for each in done if each.folder is not None]
    for each in done:
        if each.run.expected and not each.run.summary.get("scored"):
            raise Failed(
                f"not one rollout of {each.run.name} was scored; the first says {each.first_failure or 'nothing'}",
                hint=f"sandlot run show {each.folder} --rollouts" if each.folder else None,
            )
    if folders:
        out.next(f"sandlot view {folders[0].parent.parent}", f"sandlot run push {folders[0]}")


def _with_defaults(found: Found, config: EvalConfig) -> tuple[Found, EvalConfig]:
    """The package's own numbers of tasks and rollouts, where nothing else was asked for."""
    given = config.model_fields_set
    ours = {"num_tasks": found.eval_defaults.get("num_examples", 5)}
    ours["rollouts_per_task"] = found.eval_defaults.get("rollouts_per_example", 3)
    missing = {name: value for name, value in ours.items() if name not in given}
    return found, config.model_copy(update=missing)


def _settings_of(folder: Path) -> dict[str, Any]:
    """What a saved run was started with."""
    with RunFolder.open(folder) as opened:
        run = opened.run
    if run.kind != "eval" or not run.environments:
        raise Invalid(f"{folder} is a run of kind {run.kind}; sandlot eval goes on with evaluations only")
    return {**run.config, "environments": [run.environments[0].id], "models": [run.model]}


def _ref(found: Found, config: EvalConfig) -> EnvironmentRef:
    return msgspec.structs.replace(found.ref, args=config.args)


def _endpoint_options(out: Output, name: str, options: dict[str, Any]) -> dict[str, Any]:
    """What else the model is connected with: headers, and for a local one where to say that it is being fetched."""
    pairs = [header.partition(":") for header in options["headers"]]
    if any(not colon for _, colon, _ in pairs):
        raise Invalid("a header is written as NAME: VALUE", hint='--header "X-Team: evals"')
    found: dict[str, Any] = {"headers": {key.strip(): value.strip() for key, _, value in pairs}} if pairs else {}
    # An id of the registry comes before the scheme, and its endpoint fetches nothing.
    if name.startswith("local:") and not options["base_url"] and name not in Registry.find():
        found["progress"] = out.say
    return found
