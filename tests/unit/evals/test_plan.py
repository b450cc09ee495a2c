"""Which tasks a run plays, and what it says of itself."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tests.unit.evals.fakes import REF, Player, Quiz

import sandlot
from sandlot.config import build, describe
from sandlot.errors import Invalid
from sandlot.evals import EvalConfig, plan_eval
from sandlot.records import EnvironmentRef, Task


def ids(quiz: Quiz, **settings) -> list[str]:
    plan = plan_eval(EvalConfig(**settings), playable=quiz, model=Player(), ref=REF)
    return [task.id for task in plan.tasks]


def endless():
    return (Task(id=str(number)) for number in itertools.count())


@pytest.mark.parametrize(("number", "count"), [(-1, 3), (0, 0), (1, 1), (3, 3), (1000, 3)])
def test_the_number_of_tasks_is_what_was_asked_for_as_far_as_there_are_any(number, count):
    assert ids(Quiz(3), num_tasks=number) == ["t0", "t1", "t2"][:count]


@pytest.mark.parametrize("settings", [{}, {"num_tasks": 5}, {"shuffle": True}])
def test_an_environment_without_a_single_task_is_an_error_and_no_finished_run(settings):
    with pytest.raises(Invalid, match="quiz has no task in its split 'eval'"):
        ids(Quiz([]), **settings)
    assert ids(Quiz([]), num_tasks=0) == []


def test_shuffled_tasks_depend_on_the_seed_alone_and_a_smaller_number_is_the_beginning_of_a_larger():
    first = ids(Quiz(30), shuffle=True, seed=1, num_tasks=10)
    assert first == ids(Quiz(30), shuffle=True, seed=1, num_tasks=20)[:10]
    assert first != ids(Quiz(30), shuffle=True, seed=2, num_tasks=10)
    assert sorted(ids(Quiz(30), shuffle=True, seed=1)) == sorted(ids(Quiz(30)))


def test_of_endless_tasks_a_number_must_be_asked_for():
    assert ids(Quiz(endless()), num_tasks=2) == ["0", "1"]
    for settings in ({}, {"shuffle": True, "num_tasks": 5}):
        with pytest.raises(Invalid, match="more than 1,000,000 tasks") as refused:
            ids(Quiz(itertools.repeat(Task(id="again"))), **settings)
        assert "--num-tasks" in refused.value.hint


def test_two_tasks_with_one_id_are_refused_unless_they_are_of_different_environments():
    with pytest.raises(Invalid, match="two tasks with the id 'a'"):
        ids(Quiz([Task(id="a"), Task(id="b"), Task(id="a")]))
    assert ids(Quiz([Task(id="0", environment="math"), Task(id="0", environment="code")])) == ["0", "0"]


def test_the_run_says_everything_that_its_scores_can_be_traced_to():
    ref = EnvironmentRef(
        id="ada/quiz@0.1.0", name="quiz", owner="ada", version="0.1.0", digest="sha256:1", commit="9c1", dirty=True
    )
    config = EvalConfig(num_tasks=2, rollouts_per_task=3, seed=7, sampling={"temperature": 0.5, "max_tokens": 9})
    run = plan_eval(config, playable=Quiz(), model=Player(), ref=ref).run
    (environment,) = run.environments
    assert (environment.version, environment.commit, environment.dirty) == ("0.1.0", "9c1", True)
    assert environment.tasks.startswith("sha256:")
    assert (run.model, run.seed, run.expected, run.sdk) == ("player", 7, 6, sandlot.__version__)
    assert run.config["sampling"]["temperature"] == 0.5
    assert run.config["num_tasks"] == 2
    assert run.started.endswith("Z")
    assert run.host["python"].startswith("3.")
    other = plan_eval(EvalConfig(num_tasks=3), playable=Quiz(), model=Player(), ref=ref).run
    assert other.environments[0].tasks != environment.tasks


def test_arguments_that_are_not_json_stand_in_the_run_as_text():
    ref = EnvironmentRef(id="quiz", args={"path": Path("a/b"), "pair": (1, 2), "odd": {1, 2}})
    run = plan_eval(EvalConfig(), playable=Quiz(), model=Player(), ref=ref).run
    assert run.environments[0].args["pair"] == [1, 2]
    assert "a/b" in run.environments[0].args["path"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"num_tasks": -2}, "num_tasks: Input should be greater than or equal to -1, found -2"),
        ({"rollouts_per_task": 0}, "rollouts_per_task: Input should be greater than or equal to 1, found 0"),
        ({"rollouts_per_tsk": 4}, "unknown key 'rollouts_per_tsk' (did you mean 'rollouts_per_task'?)"),
        ({"sampling": {"temprature": 1}}, "unknown key 'sampling.temprature' (did you mean 'temperature'?)"),
        ({"sampling": {"top_p": 1.5}}, "sampling.top_p: Input should be less than or equal to 1, found 1.5"),
        ({"on_scoring_error": "skip"}, "on_scoring_error: Input should be 'none' or 'zero', found 'skip'"),
        ({"max_concurrent": 0}, "max_concurrent"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(table, message):
    with pytest.raises(Invalid) as refused:
        build(EvalConfig, table)
    assert message in refused.value.message


def test_every_setting_has_its_sentence():
    for name, _, _, sentence in describe(EvalConfig):
        assert sentence.endswith("."), name
