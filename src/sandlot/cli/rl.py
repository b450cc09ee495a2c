"""`sandlot rl`: trains a model on environments, which are installed first where they are not."""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from sandlot.cli.env_file import env_file_option
from sandlot.cli.env_install import install_from_hub
from sandlot.cli.lazy import command
from sandlot.cli.options import environment_id
from sandlot.cli.output import Output
from sandlot.cli.overrides import RunCommand, overrides_of
from sandlot.cli.progress import Bar
from sandlot.cli.pushing import check_push, push_options, pushing
from sandlot.cli.report import evaluation_words, training_report
from sandlot.cli.running import close_environment, prints_aside, run_async
from sandlot.client import read_settings
from sandlot.config import merge
from sandlot.envs import Environment, Found, find, load
from sandlot.errors import Invalid, NotFound
from sandlot.ids import PackageRef, new_id
from sandlot.records import EnvironmentRef, Run
from sandlot.store import RunFolder, folder_for
from sandlot.train import TrainConfig, run_training


@command("rl", cls=RunCommand, config_class=TrainConfig)
@click.option("-m", "--model", help="The policy that is trained: a name such as smollm2-135m, or a folder.")
@click.option("-e", "--env", "environments", multiple=True, metavar="ENV", help="An environment. Repeat for several.")
@click.option("-o", "--output", metavar="FOLDER", help="Where runs are saved [default: of your settings, ./outputs].")
@click.option("--folder", metavar="FOLDER", help="The run's own folder; one that holds a run is taken up where it was.")
@click.option("--resume", metavar="FOLDER", help="Take up the run in FOLDER with the settings that it had.")
@click.option("--install/--no-install", default=True, help="Install environments of the hub that are missing.")
@env_file_option
@click.option("--dry-run", is_flag=True, help="Print the resolved config and start nothing.")
@push_options
def rl_command(out: Output, model: str | None, environments: tuple[str, ...], **options: Any) -> None:
    """Train a model with reinforcement learning: sandlot rl @ config.toml.

    Every rollout, every step's figures and checkpoints are saved; an interrupted run is taken up with --resume FOLDER.
    """
    resume = Path(options["resume"]) if options["resume"] else None
    given: dict[str, Any] = {"model": model} if model else {}
    if environments:
        given["env"] = [{"id": environment_id(each)} for each in environments]
    under = _settings_of(resume) if resume is not None else {}
    overrides = overrides_of(click.get_current_context())
    if not (given or under or overrides.files or overrides.values):
        raise click.UsageError(
            "nothing says what to train: sandlot rl @ config.toml, or sandlot rl -m MODEL -e ENV",
            click.get_current_context(),
        )
    config = overrides.config(TrainConfig, given, under=under)
    if options["dry_run"]:
        out.result(config.model_dump(mode="json"), config.resolved())
        return
    check_push(options)
    found = [_found(out, each.id, options) for each in config.env]
    with prints_aside():
        plan = _Plan(
            config=config,
            loaded={each.id: load(where, each.args) for each, where in zip(config.env, found, strict=True)},
            refs=[_ref(where, each.args) for where, each in zip(found, config.env, strict=True)],
            folder=resume or _folder(config, found, options),
        )
        out.say(f"saving in {plan.folder}")
        run = run_async(_train(out, plan, options), out, saved=f"go on with sandlot rl --resume {plan.folder}")
    _tell(out, run, plan.folder)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is trained on what, and where it is saved."""

    config: TrainConfig
    loaded: Mapping[str, Environment]
    refs: list[EnvironmentRef]
    folder: Path


async def _train(out: Output, plan: _Plan, options: Mapping[str, Any]) -> Run:
    playables = {name: environment.playable for name, environment in plan.loaded.items()}
    with pushing(out, plan.folder, options), Watch(out, plan.config) as watch:
        try:
            return await run_training(plan.config, playables, folder=plan.folder, progress=watch, refs=plan.refs)
        finally:
            for environment in plan.loaded.values():
                await close_environment(environment, out)


class Watch:
    """Shows the phases, and one line of figures for each step."""

    def __init__(self, out: Output, config: TrainConfig) -> None:
        self._steps = config.steps
        self._bar = Bar(out, config.name or "training", config.steps, unit=" steps")
        self._started = time.monotonic()
        self._first: tuple[int, float] | None = None

    def __enter__(self) -> Watch:
        self._bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._bar.__exit__(*error)

    def phase(self, name: str, expected_seconds: float | None) -> None:
        """Says what begins, but for steps, whose figures say enough."""
        if not name.startswith("step "):
            expected = f", about {_duration(expected_seconds)}" if expected_seconds else ""
            self._bar.say(f"{name}{expected}")

    def step(self, metrics: Mapping[str, float]) -> None:
        """One line: the step's figures, or an evaluation's."""
        number = int(metrics["step"])
        evaluated = evaluation_words(metrics)
        if evaluated:
            self._bar.say(f"evaluation after step {number}: {evaluated}")
            return
        self._bar.advance(number, f"reward {metrics['reward']:.3f}" if "reward" in metrics else "")
        shown = [f"{name} {metrics[key]:{form}}" for name, key, form in _FIGURES if key in metrics]
        self._bar.say(f"step {number}/{self._steps}  {'  '.join(shown)}{self._left(number)}")

    def _left(self, number: int) -> str:
        now = time.monotonic()
        if self._first is None:
            self._first = (number, now)
            return ""
        first, then = self._first
        seconds = (now - then) / max(1, number - first) * (self._steps - number)
        return f"  {_duration(seconds)} left" if number < self._steps else ""


_FIGURES = (
    ("reward", "reward", ".3f"),
    ("loss", "loss", ".4f"),
    ("grad norm", "grad_norm", ".3f"),
    ("mismatch", "mismatch_kl", ".1e"),
    ("tokens", "rollouts/completion_tokens", ".0f"),
    ("seconds", "time/step", ".1f"),
)


def _found(out: Output, env_id: str, options: Mapping[str, Any]) -> Found:
    """Where the environment is; one of the hub that is not here is installed first, into the running interpreter."""
    try:
        found = find(env_id)
    except NotFound:
        if not options["install"] or env_id.startswith((".", "/", "~")) or PackageRef.parse(env_id).owner is None:
            raise
        out.say(f"{env_id} is not installed")
        install_from_hub(out, (env_id,), python=sys.executable, hub=options["hub"])
        importlib.invalidate_caches()
        found = find(env_id)
    out.say(f"environment: {found}")
    return found


def _folder(config: TrainConfig, found: list[Found], options: Mapping[str, Any]) -> Path:
    if options["folder"]:
        return Path(options["folder"])
    name = config.name or "+".join(where.ref.name or where.ref.id for where in found)
    root = Path(options["output"] or read_settings().outputs)
    return folder_for(root, Run(id=new_id(), kind="train", name=name, model=config.model))


def _settings_of(folder: Path) -> dict[str, Any]:
    with RunFolder.open(folder) as opened:
        run = opened.run
    if run.kind != "train":
        raise Invalid(f"{folder} is a run of kind {run.kind}; sandlot rl takes up trainings only")
    return merge({}, run.config)


def _ref(found: Found, args: dict[str, Any]) -> EnvironmentRef:
    return msgspec.structs.replace(found.ref, args=args)


def _tell(out: Output, run: Run, folder: Path) -> None:
    merged = folder / "merged"
    record = {"folder": str(folder), "model": str(merged) if merged.is_dir() else None, **msgspec.to_builtins(run)}
    out.result(record, training_report(run))
    if run.message:
        out.say(run.message)
    with contextlib.suppress(IndexError):
        commands = [f"sandlot view {folder.parent}", f"sandlot run push {folder}"]
        if merged.is_dir():
            commands.insert(0, f"sandlot eval {run.environments[0].id} -m local:{merged} -n 20 -r 3")
        out.next(*commands)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
