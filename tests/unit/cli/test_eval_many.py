"""Several environments and models in one call: one table, and a failing pair does not lose the others."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.shell import new_shell, until, write_package
from tests.unit.cli.conftest import Shell
from tests.unit.environments.first_party import FOLDER

from sandlot.testing import Fault, MockServer

QUIZ = """
import sandlot as sl

def right(completion, answer):
    return float(completion[-1]["content"] == answer)

def load_environment(size: int = 4, offset: int = 0):
    rows = [{"question": f"say {n}", "answer": str(n + offset)} for n in range(size)]
    return sl.SingleTurnEnv(dataset=rows, rubric=sl.Rubric(funcs=[right]))
"""

ENDPOINTS = """
[[endpoint]]
id = "team-a"
model = "a"
url = "{url}"

[endpoint.price]
input = 1000.0
output = 0.0

[[endpoint]]
id = "team-b"
model = "b"
url = "{url}"

[[endpoint]]
id = "broken"
model = "fault-400"
url = "{url}"
"""


def answer(messages: object) -> str:
    """The last word of the question."""
    return messages[-1]["content"].split()[-1]  # type: ignore[index]


@pytest.fixture(autouse=True)
def server(home: Path) -> Iterator[MockServer]:
    for name in ("quiz", "other"):
        write_package(Path("environments") / name, name, QUIZ)
    with MockServer(answer) as server:
        Path("endpoints.toml").write_text(ENDPOINTS.format(url=server.url))
        yield server


def test_every_environment_is_played_with_every_model_and_one_table_says_how_it_went(sandlot: Shell) -> None:
    done = sandlot("eval", "quiz", "other", "-m", "team-a,team-b", "-n", "4", "-r", "2", "--json")
    assert done.code == 0
    rows = done.record["table"]
    assert [(row["environment"], row["model"]) for row in rows] == [
        ("quiz", "team-a"),
        ("quiz", "team-b"),
        ("other", "team-a"),
        ("other", "team-b"),
    ]
    assert all((row["reward"], row["scored"], row["expected"], row["tasks"]) == (1.0, 8, 8, 4) for row in rows)
    assert [row["cost"] for row in rows] == [pytest.approx(8 * 2 / 1000), None, pytest.approx(8 * 2 / 1000), None]
    assert all(row["pass_at"] == {"1": 1.0, "2": 1.0} and row["low"] <= 1.0 <= row["high"] for row in rows)
    assert {run["folder"] for run in done.record["runs"]} == {row["folder"] for row in rows}
    text = sandlot("eval", "quiz", "other", "-m", "team-a", "-m", "team-b", "-n", "4", "-r", "2").out.splitlines()
    assert text[0].split()[:6] == ["ENVIRONMENT", "MODEL", "REWARD", "95", "%", "PASS@1"]
    assert len(text) == 5
    assert "8/8" in text[1]
    assert "$0.0160" in text[1]


def test_a_pair_that_cannot_be_played_does_not_lose_the_others(sandlot: Shell) -> None:
    write_package(Path("environments/sick"), "sick", "def load_environment():\n    raise RuntimeError('no data')\n")
    done = sandlot("eval", "sick", "quiz", "-m", "broken,team-a,unheard-of", "-n", "2", "-r", "1")
    assert done.code == 1
    lines = done.out.splitlines()
    assert [" ".join(line.split()[:2]) for line in lines[1:]] == [
        "sick broken",
        "sick team-a",
        "sick unheard-of",
        "quiz broken",
        "quiz team-a",
        "quiz unheard-of",
    ]
    assert "1.000" in lines[5]
    assert "failed: load_environment of sick raised RuntimeError" in lines[1]
    assert "failed: not one rollout of quiz was scored" in lines[4]
    assert "unheard-of" in lines[6]
    assert "5 of 6 evaluations failed: sick · broken, sick · team-a, sick · unheard-of: load_environment" in done.err
    assert done.err.count("raised RuntimeError") == 2, "once when it happens and once in the end, not for each model"


def test_blocks_give_each_environment_settings_of_its_own(sandlot: Shell) -> None:
    Path("evals.toml").write_text(
        'models = ["team-a"]\nnum_tasks = 3\nrollouts_per_task = 1\n'
        '[[eval]]\nenvironments = ["quiz"]\nargs = { size = 10 }\nnum_tasks = 5\n'
        '[[eval]]\nenvironments = ["other"]\nmodels = ["team-b", "team-a"]\nsampling = { temperature = 0.5 }\n'
    )
    rows = sandlot("eval", "@", "evals.toml", "--json").record
    assert [(row["environment"], row["model"], row["expected"]) for row in rows["table"]] == [
        ("quiz", "team-a", 5),
        ("other", "team-b", 3),
        ("other", "team-a", 3),
    ]
    assert [run["config"]["sampling"]["temperature"] for run in rows["runs"]] == [None, 0.5, 0.5]
    # The command line holds for every block.
    rows = sandlot("eval", "@", "evals.toml", "-n", "1", "--json").record["table"]
    assert [row["expected"] for row in rows] == [1, 1, 1]


def test_a_sweep_is_every_combination_and_rows_say_what_differs(sandlot: Shell, server: MockServer) -> None:
    Path("sweep.toml").write_text(
        'environments = ["quiz"]\nmodels = ["team-a"]\nnum_tasks = 1\nrollouts_per_task = 1\n'
        "[sweep]\nsampling.temperature = [0.0, 1.0]\nargs.offset = [0, 1]\n"
    )
    rows = sandlot("eval", "@", "sweep.toml", "--json").record["table"]
    assert [(row["settings"], row["reward"]) for row in rows] == [
        ({"args.offset": 0, "sampling.temperature": 0.0}, 1.0),
        ({"args.offset": 0, "sampling.temperature": 1.0}, 1.0),
        ({"args.offset": 1, "sampling.temperature": 0.0}, 0.0),
        ({"args.offset": 1, "sampling.temperature": 1.0}, 0.0),
    ]
    assert sorted(body["temperature"] for body in server.requests) == [0.0, 0.0, 1.0, 1.0]
    text = sandlot("eval", "@", "sweep.toml", "-T", "0.3").out
    assert len(text.splitlines()) == 3, "the option takes the place of what would be swept over"
    assert "args.offset=1" in text
    assert "temperature" not in text


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ('[[eval]]\nenvironments = ["quiz"]\n[[eval]]\nenvironment = "x"\n', "[[eval]] 2: unknown key 'environment'"),
        ('[eval]\nenvironments = ["quiz"]\n', "write [[eval]], with two brackets"),
        ("[sweep]\nsampling.temperature = 0.5\n", "sweep.sampling.temperature needs a list of values, found 0.5"),
        ("[sweep]\nsampling.temprature = [0.5]\n", "did you mean 'temperature'?"),
        ("[sweep]\nsamplin.temperature = [0.5]\n", "did you mean 'sampling'?"),
        ("[sweep]\nsampling.temperature = [0.5, -1]\n", "sampling.temperature"),
        ("[sweep]\nseed = []\n", "sweep.seed needs a list of values"),
        ("sweep = 3\n", "sweep is a table of lists"),
    ],
)
def test_a_wrong_block_or_sweep_is_named_before_anything_starts(
    sandlot: Shell, server: MockServer, toml: str, says: str
) -> None:
    Path("wrong.toml").write_text(toml)
    done = sandlot("eval", "@wrong.toml", "-m", "team-a", "-n", "1")
    assert done.code == 2
    assert says in done.err
    assert not server.requests


def test_a_run_that_reaches_a_limit_ends_with_1_and_says_how_to_go_on(sandlot: Shell) -> None:
    arguments = ["quiz", "-m", "team-a", "-n", "4", "-r", "2", "-c", "1"]
    done = sandlot("eval", *arguments, "--limits.cost", "0.003", "--json")
    assert done.code == 1
    run = done.record["runs"][0]
    assert (run["status"], run["summary"]["rollouts"]) == ("interrupted", 2)
    assert "stopped at limits.cost of $0.003: $0.0040 were spent; 2 of 8 rollouts were played" in done.problem["detail"]
    assert f"sandlot eval --resume {run['folder']}" in done.problem["hint"]
    resumed = sandlot("eval", "--resume", run["folder"], "limits.cost=1.0", "--json")
    assert resumed.code == 0
    assert resumed.record["runs"][0]["summary"]["rollouts"] == 8
    unpriced = sandlot("eval", "quiz", "-m", "team-b", "-n", "1", "-r", "1", "limits.cost=1.0")
    assert (unpriced.code, "team-b has no price" in unpriced.err) == (2, True)
    assert sandlot("eval", "quiz", "-m", "team-b", "limits.costs=1.0").code == 2


def test_a_verb_is_no_environment_and_an_empty_name_no_model(sandlot: Shell) -> None:
    for words, says in (
        (("quiz", "run", "-m", "team-a"), "'run' is no environment"),
        (("quiz", "-m", "team-a,"), "has a name that is empty"),
        (("quiz", "-m", "team-a", "eval=[1]"), "[[eval]] blocks stand in a file"),
    ):
        done = sandlot("eval", *words)
        assert (done.code, says in done.err) == (2, True), done.err


def test_help_shows_how_to_run_and_the_verbs(sandlot: Shell) -> None:
    text = sandlot("eval", "--help").out
    assert "sandlot eval [OPTIONS] ENV..." in text
    assert "--rollouts-per-task" in text
    assert "Commands:" in text


def test_what_was_finished_before_ctrl_c_is_shown(tmp_path: Path) -> None:
    shell = new_shell(tmp_path)
    write_package(shell.folder / "environments/quiz", "quiz", QUIZ)

    def hang(body: dict[str, object]) -> Fault | None:
        return Fault(kind="hang") if body["model"] == "slow" else None

    with MockServer(answer, faults=hang) as server:
        endpoints = "".join(f'[[endpoint]]\nid = "{n}"\nmodel = "{n}"\nurl = "{server.url}"\n' for n in ("a", "slow"))
        (shell.folder / "endpoints.toml").write_text(endpoints)
        with shell.started("eval", "quiz", "-m", "a,slow", "-n", "2", "-r", "1") as process:
            until(lambda: any(body["model"] == "slow" for body in server.requests))
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "reward       1.000" in out


def test_an_argument_of_the_environment_is_an_option_by_its_name(sandlot: Shell) -> None:
    done = sandlot("eval", "quiz", "-m", "team-a", "-r", "1", "-n", "-1", "--size", "7", "--offset=0", "--json")
    (run,) = done.record["runs"]
    assert run["config"]["args"] == {"size": 7, "offset": 0}
    assert run["summary"]["counts"]["scored"] == 7


def test_an_option_that_is_no_argument_either_is_refused_with_the_nearest(sandlot: Shell) -> None:
    write_package(Path("environments/any"), "any", "def load_environment(**kwargs):\n    raise RuntimeError\n")
    for arguments, words in (
        (("quiz", "--siez", "7"), "no option '--siez', and quiz no argument of that name. Did you mean '--size'?"),
        (("quiz", "--modle", "x"), "no option '--modle', and quiz no argument of that name. Did you mean '--model'?"),
        (("quiz", "--siez", "7", "--dry-run"), "Did you mean '--size'?"),
        (("any", "--whatever", "7"), "no option '--whatever', and any no argument of that name."),
        (("--sizes", "quiz"), "no option '--sizes'."),
        (("quiz", "--size"), "If it is an argument of the environment, it needs a value: --size VALUE"),
    ):
        done = sandlot("eval", *arguments, "-m", "team-a")
        assert (done.code, done.out) == (2, "")
        assert words in done.err


def test_documents_of_ones_own_are_one_argument_of_wiki_search(sandlot: Shell, server: MockServer) -> None:
    folder = Path("docs-of-mine")
    folder.mkdir()
    for number in range(9):
        text = f"The warehouse in sector {number} is looked after by Keeper{number} Brandt since the great flood."
        (folder / f"{number}.txt").write_text(text)
    done = sandlot(
        "eval", str(FOLDER / "wiki_search"), "-m", "team-a", "--documents", str(folder), "--num-eval", "3", "-n", "3",
        "-r", "1", "-w", "2", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    (run,) = done.record["runs"]
    assert run["summary"]["counts"]["scored"] == 3
    assert run["config"]["args"] == {"documents": str(folder), "num_eval": 3}


def test_an_address_is_never_asked_for_a_model_that_runs_here(sandlot: Shell, server: MockServer) -> None:
    alone = sandlot("eval", "quiz", "-m", "local:some", "-b", server.url, "--json")
    assert alone.code == 2
    assert "local:some runs on this machine" in alone.problem["detail"]
    both = sandlot("eval", "quiz", "-m", "team-x,local:some", "-b", server.url, "--dry-run", "--json")
    assert [(one["models"], one["base_url"]) for one in both.record] == [
        (["team-x"], server.url),
        (["local:some"], None),
    ]


def test_a_misspelt_environment_is_answered_with_the_nearest_folder(sandlot: Shell) -> None:
    done = sandlot("eval", "quizz", "-m", "team-a", "--json")
    assert done.code == 1
    assert "did you mean quiz?" in done.problem["hint"]


def test_a_silence_is_explained_while_the_endpoint_is_tried_again(sandlot: Shell) -> None:
    with MockServer(answer, faults=[Fault(status=503, retry_after="6")]) as slow:
        done = sandlot("eval", "quiz", "-m", "any", "-b", slow.url, "-n", "1", "-r", "1")
    assert done.code == 0, done.err
    assert "waiting for the endpoint, which is tried again: any at" in done.err
    assert "503" in done.err
