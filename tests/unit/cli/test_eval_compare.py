"""`sandlot eval compare`, on runs that were played."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.shell import write_package
from tests.unit.cli.conftest import Shell
from tests.unit.cli.test_eval_many import QUIZ

from sandlot.records import Verdict, VerdictEvent
from sandlot.store import RunFolder
from sandlot.testing import MockServer

MODELS = {"all": 20, "most": 14, "some": 4, "none": 0}
"""Of twenty questions, how many each model answers right."""


@pytest.fixture(autouse=True)
def server(home: Path) -> Iterator[MockServer]:
    write_package(Path("environments/quiz"), "quiz", QUIZ)
    with MockServer("unused") as mock:
        endpoints = "".join(f'[[endpoint]]\nid = "{name}"\nmodel = "{name}"\nurl = "{mock.url}"\n' for name in MODELS)
        Path("endpoints.toml").write_text(endpoints)
        yield mock


def played(sandlot: Shell, server: MockServer, model: str, *more: str, tasks: int = 20) -> str:
    """The folder of a run in which `model` answered the first questions right."""

    def answer(messages: object) -> str:
        number = int(messages[-1]["content"].split()[-1])  # type: ignore[index]
        return str(number) if number < MODELS[model] else "no"

    with MockServer(answer) as mock:
        arguments = ["quiz", "-m", model, "-b", mock.url, "-n", str(tasks), "-r", "2", "-a", '{"size": 20}']
        done = sandlot("eval", *arguments, *more, "--json")
    assert done.code == 0, done.err
    folder: str = done.record["runs"][0]["folder"]
    return folder


def test_the_better_run_is_named_with_how_much_and_on_which_tasks(sandlot: Shell, server: MockServer) -> None:
    one, other = played(sandlot, server, "some"), played(sandlot, server, "most")
    done = sandlot("eval", "compare", one, other, "--json")
    assert done.code == 0
    (found,) = done.record["comparisons"]
    assert (found["verdict"], found["better"], found["difference"]) == ("second", "B", pytest.approx(0.5))
    assert (found["n"], found["wins"], found["losses"], found["left_out"]) == (20, 10, 0, 0)
    assert found["low"] < 0.5 < found["high"]
    assert found["test"] == "t"
    assert found["p"] < 0.001
    assert [task["difference"] for task in found["tasks"]] == [0.0] * 10 + [1.0] * 10
    assert {"name": "model", "first": "some", "second": "most"} in found["settings"]
    text = sandlot("eval", "compare", one, other, "--tasks", "3").out
    assert "B − A: +0.500 [+0.260, +0.740] (95 %) over 20 tasks that both have, p < 0.001 (paired t-test)" in text
    assert "B is better on 10 tasks, worse on 0, equal on 10" in text
    assert "B is better." in text
    assert "differs: model: some → most" in text
    assert "and 7 more tasks that differ; --tasks 10 shows them" in text
    swapped = sandlot("eval", "compare", other[-8:], one[-8:], "--json").record["comparisons"][0]
    assert (swapped["better"], swapped["difference"]) == ("A", pytest.approx(-0.5))


def test_few_tasks_are_never_enough_and_it_says_so(sandlot: Shell, server: MockServer) -> None:
    one, other = played(sandlot, server, "none", tasks=4), played(sandlot, server, "all", tasks=4)
    done = sandlot("eval", "compare", one, other)
    assert "+1.000" in done.out
    assert "Too few tasks to say: fewer than 6 cannot show a difference" in done.out
    assert "is better.\n" not in done.out
    assert sandlot("eval", "compare", one, other, "--json").record["comparisons"][0]["better"] is None


def test_tasks_that_only_one_has_are_left_out_and_counted(sandlot: Shell, server: MockServer) -> None:
    one, other = played(sandlot, server, "all", tasks=20), played(sandlot, server, "most", tasks=16)
    done = sandlot("eval", "compare", one, other)
    assert "over 16 tasks that both have" in done.out
    assert "left out: 4 tasks that only one of them scored" in done.out
    assert "caution: Their lists of tasks of quiz differ" in done.out
    assert "Undecided: this may be chance. So many tasks would have shown a difference of" in done.out


def test_three_runs_are_compared_with_the_first_and_corrected_for_it(sandlot: Shell, server: MockServer) -> None:
    folders = [played(sandlot, server, name) for name in ("most", "some", "all")]
    done = sandlot("eval", "compare", *folders, "--json")
    found = done.record["comparisons"]
    assert [(each["first"], each["second"], each["better"]) for each in found] == [("A", "B", "A"), ("A", "C", "C")]
    assert all(each["p_corrected"] >= each["p"] for each in found)
    assert found[0]["p_corrected"] == pytest.approx(2 * found[0]["p"])


def test_what_has_no_verdict_is_a_caution_and_in_no_mean(sandlot: Shell, server: MockServer) -> None:
    one, other = played(sandlot, server, "all"), played(sandlot, server, "most")
    with RunFolder.resume(Path(other)) as folder:
        for row in folder.index():
            if row.reward == 0.0:
                folder.append(VerdictEvent(rollout=row.id, verdict=Verdict(reward=None)))
    done = sandlot("eval", "compare", one, other)
    assert "caution: 12 of 40 rollouts of quiz · most have no verdict and are in no mean." in done.out
    assert "over 14 tasks that both have" in done.out
    assert "They are equal on every task." in done.out


def test_several_runs_have_one_table_of_tasks_with_those_on_which_they_differ_most_first(
    sandlot: Shell, server: MockServer
) -> None:
    runs = [played(sandlot, server, model) for model in ("all", "most", "some")]
    runs.append(played(sandlot, server, "none", tasks=5))
    tasks = sandlot("eval", "compare", *runs, "--json").record["tasks"]
    assert len(tasks) == 20
    assert [task["spread"] for task in tasks] == sorted((task["spread"] for task in tasks), reverse=True)
    shared = [task["means"] for task in tasks if task["means"]["D"] is not None]
    assert len(shared) == 5
    assert {"A": 1.0, "B": 1.0, "C": 1.0, "D": 0.0} in shared
    text = sandlot("eval", "compare", *runs, "--tasks", "2").out
    assert "TASK" in text
    assert text.rstrip().endswith("and 18 more tasks that differ; --tasks 20 shows them")
    assert text.count("SPREAD") == 1


def test_what_cannot_be_compared_is_refused_with_the_reason(sandlot: Shell, server: MockServer) -> None:
    one = played(sandlot, server, "all", tasks=2)
    for arguments, code, says in (
        ((one,), 2, "two runs are needed"),
        ((one, one), 2, "is named twice"),
        ((one, "absent"), 1, "there is no folder absent"),
        ((), 2, "Missing argument"),
    ):
        done = sandlot("eval", "compare", *arguments)
        assert (done.code, says in done.err) == (code, True), done.err


def test_runs_without_a_common_task_are_not_subtracted(sandlot: Shell, server: MockServer) -> None:
    one = played(sandlot, server, "all", tasks=2)
    write_package(Path("environments/other"), "other", QUIZ)
    other = sandlot("eval", "other", "-m", "none", "-n", "2", "-r", "1", "--json").record["runs"][0]["folder"]
    done = sandlot("eval", "compare", one, other)
    assert done.code == 0
    assert "B − A: nothing to compare, they have no scored task in common" in done.out
    assert "caution: They played different environments" in done.out
