"""A run that reaches a limit is stopped in order: what was played counts, and the rest is played on resume."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st
from tests.unit.evals.fakes import REF, Player, Quiz, Watcher

from sandlot.errors import Invalid
from sandlot.evals import EvalConfig, folder_of_eval, plan_eval, run_eval
from sandlot.models import Completion
from sandlot.store import RunFolder


def planned(tmp_path, *, model=None, tasks=4, grouped=False, **limits):
    settings = {"rollouts_per_task": 2, "retries": 0, "output": tmp_path, "max_concurrent": 2, "limits": limits}
    return plan_eval(EvalConfig(**settings), playable=Quiz(tasks, grouped=grouped), model=model or Player(), ref=REF)


class Unpriced(Player):
    """Says neither price nor tokens."""

    async def generate(self, messages, **rest) -> Completion:
        found = await super().generate(messages, **rest)
        return Completion(message=found.message)


async def test_no_rollout_is_started_once_the_run_has_cost_its_limit(tmp_path):
    model = Player()
    with folder_of_eval(plan := planned(tmp_path, model=model, cost=0.75)) as folder:
        run = await run_eval(plan, folder=folder)
        played = len(folder.index())
    # A rollout costs $0.25 and two are in flight at once: the third reaches the limit, and the one beside it ends.
    assert played == sum(model.plays.values()) == 4
    assert (run.status, run.message) == ("interrupted", "stopped at limits.cost of $0.75: $1.0000 were spent")
    assert run.summary["counts"]["missing"] == 4


async def test_what_an_earlier_life_of_the_run_cost_counts_and_a_higher_limit_plays_the_rest(tmp_path):
    with folder_of_eval(plan := planned(tmp_path, cost=0.5)) as folder:
        await run_eval(plan, folder=folder)
    model = Player()
    with RunFolder.resume(folder.path) as again:
        run = await run_eval(planned(tmp_path, model=model, cost=0.5), folder=again)
    assert (run.status, sum(model.plays.values())) == ("interrupted", 0)
    with RunFolder.resume(folder.path) as again:
        run = await run_eval(planned(tmp_path, cost=100), folder=again)
        names = sorted((row.task_id, row.index) for row in again.index())
    assert run.status == "done"
    assert names == [(f"t{task}", index) for task in range(4) for index in range(2)]


async def test_tokens_are_a_limit_too(tmp_path):
    run = await run_eval(planned(tmp_path, tokens=10))
    assert run.message == "stopped at limits.tokens of 10: 27 were used"


async def test_what_is_in_flight_when_the_time_is_up_is_given_up_and_can_be_played_later(tmp_path):
    model = Player()
    model.hang = {("t1", 0)}
    with folder_of_eval(plan := planned(tmp_path, model=model, seconds=0.2)) as folder:
        run = await run_eval(plan, folder=folder)
        assert len(folder.index()) == 7
    assert (run.status, run.message) == ("interrupted", "stopped at limits.seconds of 0.2")
    with RunFolder.resume(folder.path) as again:
        run = await run_eval(planned(tmp_path), folder=again)
        assert len(again.index()) == 8
    assert run.status == "done"


async def test_a_limit_that_is_never_reached_changes_nothing(tmp_path):
    watcher = Watcher()
    run = await run_eval(planned(tmp_path, cost=2.0, tokens=72, seconds=60), progress=watcher)
    assert (run.status, len(watcher.rollouts)) == ("done", 8)


@pytest.mark.parametrize(
    ("limits", "says"),
    [({"cost": 1.0}, "limits.cost is set, but player has no price"), ({"tokens": 5}, "does not say how many tokens")],
)
async def test_a_limit_on_what_nobody_counts_is_refused_and_not_ignored(tmp_path, limits, says):
    with folder_of_eval(plan := planned(tmp_path, model=Unpriced(), **limits)) as folder:
        with pytest.raises(Invalid, match=says):
            await run_eval(plan, folder=folder)
        assert folder.run.status == "failed"


@settings(max_examples=25, deadline=None)
@given(
    limit=st.floats(0.1, 4),
    grouped=st.booleans(),
    script=st.dictionaries(
        st.tuples(st.integers(0, 3).map("t{}".format), st.integers(0, 1)),
        st.lists(st.sampled_from([0.0, 1.0, "error", "ungraded"]), min_size=1, max_size=2),
    ),
)
def test_with_any_limit_every_rollout_is_either_on_record_once_or_missing(tmp_path_factory, limit, grouped, script):
    import asyncio

    root = tmp_path_factory.mktemp("runs")
    with folder_of_eval(plan := planned(root, model=Player(script), grouped=grouped, cost=limit)) as folder:
        run = asyncio.run(run_eval(plan, folder=folder))
        names = [(row.task_id, row.index) for row in folder.index()]
    counts = run.summary["counts"]
    assert len(names) == len(set(names))
    assert sum(counts.values()) == run.expected == 8
    assert counts["missing"] == 8 - len(names)
    assert (run.status == "done") == (counts["missing"] == 0)
