"""The frame of the command line: help, misspelt words, exit codes, JSON."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest

from sandlot import errors
from sandlot.cli.errors import exit_code, report
from sandlot.cli.output import Output, json_text

from .conftest import Shell

HEAVY = ("aiohttp", "pydantic", "httpx", "rich", "torch", "ray", "fastapi", "openai", "datasets", "numpy")


def test_help_lists_the_commands_and_imports_nothing_heavy() -> None:
    code = (
        "import sys; from sandlot.cli.main import run; code = run(['--help']); "
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "env " in done.stdout
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("evn",), "Did you mean 'env'?"),
        (("env", "lsit"), "Did you mean 'list'?"),
        (("env", "list", "--instaled"), "--installed"),
        (("config", "get"), "Missing argument 'NAME'"),
        (("config", "get", "hbu"), "did you mean hub?"),
        (("env", "info", "./path"), "is a path"),
        (("env", "info", "wordle"), "write owner/wordle"),
        (("env", "info", "a/b/c"), "is a path"),
        (("env", "info", "ada/wordle@"), "not a package reference"),
    ],
)
def test_a_misuse_says_what_was_meant_and_exits_with_2(sandlot: Shell, arguments: tuple[str, ...], says: str) -> None:
    done = sandlot(*arguments)
    assert done.code == 2
    assert says in done.err
    assert done.out == ""


def test_with_json_an_error_is_one_object_on_stderr_and_stdout_is_empty(sandlot: Shell) -> None:
    done = sandlot("config", "get", "hbu", "--json")
    assert (done.code, done.out) == (2, "")
    assert done.problem == {"code": "invalid", "detail": "there is no setting 'hbu'", "hint": "did you mean hub?"}
    done = sandlot("evn", "--json")
    assert done.problem["code"] == "usage"


def test_json_may_be_asked_for_before_or_after_the_arguments_and_is_all_that_is_printed(sandlot: Shell) -> None:
    for arguments in (
        ("config", "list", "--json"),
        ("config", "get", "--json", "hub"),
        ("config", "get", "hub", "--json"),
    ):
        done = sandlot(*arguments)
        assert (done.code, done.err) == (0, "")
        assert done.record["hub"] == "http://127.0.0.1:7350"


def test_a_hub_that_is_away_exits_with_3_and_says_how_to_start_one(sandlot: Shell) -> None:
    done = sandlot("env", "list", "--hub", "http://127.0.0.1:9")
    assert done.code == 3
    assert "sandlot hub serve" in done.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.Invalid("x"), 2),
        (errors.NotFound("x"), 1),
        (errors.Conflict("x"), 1),
        (errors.Unauthorized("x"), 1),
        (errors.Failed("x"), 1),
        (errors.MissingDependency("x"), 1),
        (errors.Unreachable("x"), 3),
        (click.UsageError("x"), 2),
        (click.Abort(), 130),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("x"), 1),
    ],
)
def test_every_family_of_errors_has_its_exit_code(error: BaseException, code: int) -> None:
    assert exit_code(error) == code


def test_an_interrupt_is_one_line_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(KeyboardInterrupt(), Output()) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_fault_of_our_own_shows_where_and_asks_to_be_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        raise ZeroDivisionError("by zero")
    assert report(caught.value, Output()) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "ZeroDivisionError: by zero" in shown
    assert "please report it" in shown


def test_output_cut_off_by_a_reader_that_has_enough_is_no_error() -> None:
    code = "from sandlot.cli.main import main; import sys; sys.argv = ['sandlot', '--help']; main()"
    done = subprocess.run(
        ["bash", "-c", f'{sys.executable} -c "$0" | head -c 1; exit ${{PIPESTATUS[0]}}', code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_table_is_aligned_text_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "a", "score": 0.5}, {"name": "longer", "score": None}]
    Output().table(rows, {"name": "NAME", "score": "SCORE"})
    assert capsys.readouterr().out == "NAME    SCORE\na       0.500\nlonger  -\n"
    Output(json=True).table(rows, {"name": "NAME"})
    assert json.loads(capsys.readouterr().out) == rows
    Output(json=True).table([], {"name": "NAME"})
    assert json.loads(capsys.readouterr().out) == []


def test_json_refuses_what_is_no_json_number() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text({"mean": float("nan")})


def test_settings_are_set_shown_and_put_back(sandlot: Shell) -> None:
    assert sandlot("config", "set", "hub", "hub.example.org").code == 0
    assert sandlot("config", "get", "hub").out == "https://hub.example.org\n"
    assert sandlot("config", "unset", "hub").code == 0
    assert sandlot("config", "get", "hub").out == "http://127.0.0.1:7350\n"


def test_logging_out_forgets_the_key(sandlot: Shell) -> None:
    assert sandlot("logout", "--json").record == {"hub": "http://127.0.0.1:7350", "forgotten": False}
