"""`sandlot eval rescore`: today's rubric over the rollouts of a run that was played before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from sandlot.cli.lazy import command
from sandlot.cli.options import environment_id
from sandlot.cli.output import Output
from sandlot.cli.progress import Bar
from sandlot.cli.run_show import run_folder
from sandlot.cli.running import close_environment, prints_aside, run_async
from sandlot.config import build
from sandlot.engine import PlayPolicy
from sandlot.envs import Found, find, load
from sandlot.errors import Failed, Invalid
from sandlot.evals import EvalConfig, Lacking, Rescored, Summary, rescore, write_rescored
from sandlot.records import EnvironmentRef, Run
from sandlot.store import RunFolder

_SHOWN = 20
"""Changed rollouts that are listed."""


@command("rescore")
@click.argument("run")
@click.option("--env", "environment", metavar="ENV", help="The environment to score with [default: the run's own].")
@click.option("--dry-run", is_flag=True, help="Show what would change and write nothing.")
@click.option("--partial", is_flag=True, help="Rescore what can be, and leave the rest the verdicts that it has.")
@click.option(
    "--forget",
    multiple=True,
    metavar="KEY",
    help="A key of the saved state to leave out, such as judge_response: a judge takes up what it replied before.",
)
@click.option("--limit", default=_SHOWN, show_default=True, type=click.IntRange(0), help="How many changes to list.")
def rescore_command(out: Output, run: str, environment: str | None, dry_run: bool, **options: Any) -> None:
    """Score the rollouts of RUN again with the rewards that its environment has today; nothing is played.

    RUN is a folder, or the end of a run's id. The old verdicts stay in the file; the last one counts.
    """
    with RunFolder.open(path := run_folder(run)) if dry_run else RunFolder.resume(path := run_folder(run)) as folder:
        before = folder.run
        if before.kind != "eval" or not before.environments:
            raise Invalid(f"{path} is a run of kind {before.kind}; evaluations are rescored")
        ref = before.environments[0]
        found = find(ref.id if environment is None else environment_id(environment))
        out.say(f"environment: {found}")
        policy = _policy(before)
        with prints_aside():
            rescored = run_async(
                _rescore(out, folder, found, (ref, policy, options["forget"])), out, saved="nothing is written"
            )
        lacking = [_lacking(each) for each in rescored.lacking]
        refused = bool(rescored.lacking) and not options["partial"]
        if not refused and not dry_run:
            write_rescored(folder, rescored, ref=msgspec.structs.replace(found.ref, args=ref.args, tasks=ref.tasks))
    record = {
        "folder": str(path),
        "written": not refused and not dry_run,
        **{name: getattr(rescored, name) for name in ("judged", "unjudged", "before", "after")},
        "changes": [msgspec.to_builtins(each) for each in rescored.changes],
        "lacking": [msgspec.to_builtins(each) for each in rescored.lacking],
    }
    out.result(msgspec.to_builtins(record), "\n".join(_lines(rescored, _title(before), options["limit"])))
    _conclude(out, path, lacking, refused=refused, dry_run=dry_run)


async def _rescore(
    out: Output, folder: RunFolder, found: Found, how: tuple[EnvironmentRef, PlayPolicy, tuple[str, ...]]
) -> Rescored:
    ref, policy, forget = how
    environment = load(found, ref.args)
    try:
        with Bar(out, f"scoring {folder.run.name} again", len(folder.index()), unit=" rollouts") as bar:
            return await rescore(
                folder,
                environment.playable,
                policy=policy,
                forget=forget,
                on_judged=lambda done, total: bar.advance(done),
            )
    finally:
        await close_environment(environment, out)


def _policy(run: Run) -> PlayPolicy:
    """How the run was scored when it was played."""
    names = ("max_concurrent", "scoring_retries", "on_scoring_error")
    return build(EvalConfig, {name: run.config[name] for name in names if name in run.config}).policy()


def _lacking(each: Lacking) -> str:
    keys = ", ".join(map(repr, each.keys))
    return f"{each.function} needs {keys} of the state, not saved on {each.rollouts} rollouts"


def _title(run: Run) -> str:
    return f"{run.name} · {run.model}"


def _lines(rescored: Rescored, title: str, limit: int) -> Iterator[str]:
    same = rescored.judged - rescored.unjudged - len(rescored.changes)
    unjudged = f", {rescored.unjudged} not judged" if rescored.unjudged else ""
    yield f"{title}: {len(rescored.changes)} of {rescored.judged} verdicts change, {same} stay{unjudged}"
    yield f"  reward  {_reward(rescored.before)} → {_reward(rescored.after)}"
    shown = rescored.changes[:limit]
    if shown:
        width = max(4, *(len(each.task_id) for each in shown))
        yield f"  {'TASK':<{width}}  {'#':>3}  {'BEFORE':>7}  {'AFTER':>7}"
        for each in shown:
            yield f"  {each.task_id:<{width}}  {each.index + 1:>3}  {_number(each.before):>7}  {_number(each.after):>7}"
    if len(rescored.changes) > len(shown):
        yield f"  and {len(rescored.changes) - len(shown)} more; --limit {len(rescored.changes)} shows them"


def _conclude(out: Output, path: Path, lacking: list[str], *, refused: bool, dry_run: bool) -> None:
    if refused:
        raise Failed(
            f"nothing was written: {'; '.join(lacking)}",
            hint="keep in the state, as JSON, what rewards need; --partial rescores the others",
        )
    for each in lacking:
        out.warn(f"{each}; those keep the verdicts that they have")
    if dry_run:
        out.say("nothing was written")
        out.next(f"sandlot eval rescore {path}")
    else:
        out.next(f"sandlot run show {path}", f"sandlot view {path.parent.parent}")


def _reward(summary: Summary) -> str:
    interval = summary.interval
    if interval is None:
        return "none"
    sure = "" if interval.low is None else f" [{interval.low:.3f}, {interval.high:.3f}]"
    return f"{interval.mean:.3f}{sure}"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"
