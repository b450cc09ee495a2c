"""`sandlot env init`, and `env push --dry-run` on what it wrote."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandlot.envs import find, load_environment

from .conftest import Shell

FILES = [".gitignore", "AGENTS.md", "README.md", "my_env.py", "pyproject.toml", "tests/test_my_env.py"]


@pytest.mark.parametrize("name", ["my-env", "my_env", "My.Env"])
def test_the_folder_and_module_have_underscores_and_the_distribution_dashes(sandlot: Shell, name: str) -> None:
    done = sandlot("env", "init", name, "--json")
    assert (done.code, done.err) == (0, "")
    assert (done.record["name"], done.record["module"], done.record["folder"]) == (
        "my-env",
        "my_env",
        "environments/my_env",
    )
    assert sorted(done.record["files"]) == FILES
    assert find("my-env").ref.name == "my-env"


def test_it_is_found_at_once_by_both_of_its_names(sandlot: Shell) -> None:
    done = sandlot("env", "init", "my-env")
    assert "next: sandlot eval my-env" in done.err
    assert load_environment("my-env").env_id == load_environment("my_env").env_id == "my-env"


def test_a_new_environment_describes_itself(sandlot: Shell) -> None:
    sandlot("env", "init", "my-env")
    probe = load_environment("./environments/my_env", num_eval=2).describe()
    assert probe.kind == "single-turn"
    assert (probe.rewards[0].name, probe.rewards[0].weight) == ("correct", 1.0)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("9lives", "cannot be imported"),
        ("my env", "not a package name"),
        ("", "not a package name"),
        ("class", "class is a word of the language"),
        ("JSON", "json is a module that is there already"),
        ("sandlot", "sandlot is a module that is there already"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused_and_nothing_is_written(sandlot: Shell, name: str, says: str) -> None:
    done = sandlot("env", "init", name)
    assert done.code == 2
    assert says in done.err
    assert list(Path().iterdir()) == []


def test_it_can_go_elsewhere_and_inside_a_folder_of_environments_needs_no_other(sandlot: Shell) -> None:
    assert sandlot("env", "init", "one", "--into", "elsewhere").code == 0
    assert Path("elsewhere/one/one.py").is_file()
    Path("environments").mkdir()
    os.chdir("environments")
    assert "next: sandlot eval ./two" in sandlot("env", "init", "two").err
    assert Path("two/two.py").is_file()


def test_a_folder_that_is_there_is_left_alone(sandlot: Shell) -> None:
    Path("my_env").mkdir()
    Path("my_env/mine.py").write_text("mine")
    done = sandlot("env", "init", "my-env", "--into", ".")
    assert done.code == 1
    assert "is there already" in done.err
    assert [path.name for path in Path("my_env").iterdir()] == ["mine.py"]


def test_a_dry_run_lists_what_would_be_sent_and_what_stays(sandlot: Shell) -> None:
    sandlot("env", "init", "my-env")
    Path("environments/my_env/.env").write_text("KEY=1")
    done = sandlot("env", "push", "my-env", "--dry-run", "--no-isolation", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.record["sent"] == FILES
    assert done.record["left_out"] == {".env": "may hold secrets"}
    assert done.record["probe_failure"] is None
    shown = sandlot("env", "push", "environments/my_env", "--dry-run", "--no-isolation").err
    assert "sends 6 files: .gitignore, AGENTS.md" in shown
    assert "left out: .env (may hold secrets)" in shown


def test_an_environment_that_cannot_be_loaded_is_a_warning_or_with_strict_an_end(sandlot: Shell) -> None:
    sandlot("env", "init", "my-env")
    Path("environments/my_env/my_env.py").write_text("raise RuntimeError('no data')\n")
    done = sandlot("env", "push", "my_env", "--dry-run", "--no-isolation")
    assert done.code == 0
    assert "RuntimeError: no data" in done.err
    done = sandlot("env", "push", "my_env", "--dry-run", "--no-isolation", "--strict")
    assert done.code == 1


@pytest.mark.parametrize(
    ("folder", "says"), [("absent", "there is no package 'absent' here"), ("./absent", "there is no folder")]
)
def test_a_package_that_is_not_there_says_where_was_looked(sandlot: Shell, folder: str, says: str) -> None:
    done = sandlot("env", "push", folder)
    assert done.code == 1
    assert says in done.err


def test_its_own_tests_pass_and_fail_when_the_reward_is_wrong(sandlot: Shell) -> None:
    sandlot("env", "init", "my-env")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "environments/my_env"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout
    file = Path("environments/my_env/my_env.py")
    file.write_text(file.read_text().replace("return 1.0 if said", "return 0.5 if said"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "1 failed" in done.stdout
