from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sandlot.envs import find, load, load_environment
from sandlot.errors import Invalid, NotFound

MODULE = """
import sandlot as vf

def load_environment(word: str = "hello") -> vf.Environment:
    return vf.SingleTurnEnv(dataset=[{"question": f"Say {word}.", "answer": word}])
"""
PYPROJECT = """
[project]
name = "{name}"
version = "0.1.0"
[tool.verifiers.eval]
num_examples = 7
[tool.sandlot.eval]
rollouts_per_example = 2
"""


def package(folder: Path, name: str, *, module: str = MODULE, where: str = "") -> Path:
    module_name = name.replace("-", "_").lower()
    root = folder / module_name
    (root / where).mkdir(parents=True)
    (root / where / f"{module_name}.py").write_text(module)
    (root / "pyproject.toml").write_text(PYPROJECT.format(name=name))
    return root


@pytest.mark.parametrize(
    "env_id", ["load-a", "load_a", "Load-A", "ada/load-a", "ada/load_a@0.1.0", "ada/Load-A@latest"]
)
def test_HUB_17_every_form_of_an_id_loads_the_same_module(
    env_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path / "environments", "load-a")
    monkeypatch.chdir(tmp_path)
    found = find(env_id)
    assert (found.module, found.ref.name, found.ref.version, found.ref.source) == (
        "load_a",
        "load-a",
        "0.1.0",
        "environments",
    )
    assert found.eval_defaults == {"num_examples": 7, "rollouts_per_example": 2}
    (task,) = load(found, {"word": "bye"}).playable.tasks()
    assert task.answer == "bye"


def test_HUB_17_a_version_other_than_the_one_here_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path / "environments", "load-b")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Invalid, match=r"load-b@0\.2\.0 was asked for") as caught:
        find("ada/load-b@0.2.0")
    assert caught.value.hint == "sandlot env install ada/load-b@0.2.0"


@pytest.mark.parametrize("where", ["", "src"])
def test_a_path_is_loaded_from_that_folder(tmp_path: Path, where: str) -> None:
    root = package(tmp_path, f"load-path{len(where)}", where=where)
    env = load_environment(str(root), word="path")
    (task,) = env.playable.tasks()
    assert task.answer == "path"
    assert env.playable.name == f"load-path{len(where)}"


def test_two_folders_with_the_same_module_are_not_mixed_up(tmp_path: Path) -> None:
    one = package(tmp_path / "one", "load-twin", module=MODULE.replace("hello", "one"))
    two = package(tmp_path / "two", "load-twin", module=MODULE.replace("hello", "two"))
    answers = [next(iter(load_environment(str(root)).playable.tasks())).answer for root in (one, two, one)]
    assert answers == ["one", "two", "one"]


def test_an_installed_package_is_found_with_its_owner_and_digest(tmp_path: Path) -> None:
    site = tmp_path / "site"
    info = site / "load_installed-1.2.0.dist-info"
    info.mkdir(parents=True)
    (site / "load_installed.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: load-installed\nVersion: 1.2.0\n")
    (info / "direct_url.json").write_text(
        json.dumps({"url": "http://hub.test/ada/files/x.whl", "archive_info": {"hashes": {"sha256": "ab" * 32}}})
    )
    script = (
        "from sandlot.envs import find\nf = find('load_installed')\n"
        "print(f.ref.owner, f.ref.digest, f.ref.version, f.ref.source)\n"
        "try: find('bob/load-installed')\n"
        "except Exception as error: print(error, '|', error.hint)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={"PYTHONPATH": str(site)}, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[0] == f"ada sha256:{'ab' * 32} 1.2.0 installed"
    assert lines[1].startswith("load-installed is installed from ada, not from bob")


def test_what_is_not_there_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFound, match="'ada/nothing' is not installed") as caught:
        load_environment("ada/nothing")
    assert caught.value.hint == "sandlot env install ada/nothing"
    with pytest.raises(NotFound, match="no folder"):
        load_environment("./nothing")


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("x = 1", "has no function load_environment"),
        ("import not_there_at_all", "No module named 'not_there_at_all'"),
        ("def load_environment(: pass", "raised SyntaxError"),
        (
            "x = 1\nimport json\njson.loads('{')",
            r"raised JSONDecodeError at .*load_bad\w*\.py:3: Expecting property name",
        ),
        ("def load_environment():\n    raise KeyError('x')", r"raised KeyError at .*load_bad\w*\.py:2: 'x'"),
        ("def load_environment(): return 3", "returned int, not an Environment"),
        ("def load_environment(level): return 3", "missing a required argument: 'level'"),
    ],
)
def test_what_is_wrong_with_a_package_is_said(module: str, message: str, tmp_path: Path) -> None:
    root = package(tmp_path, f"load-bad{abs(hash(module))}", module=module)
    with pytest.raises(Invalid, match=message):
        load_environment(str(root))


def test_unknown_arguments_are_named_with_what_is_taken(tmp_path: Path) -> None:
    root = package(tmp_path, "load-args")
    with pytest.raises(Invalid, match="unexpected keyword argument 'wrd'") as caught:
        load_environment(str(root), wrd="x")
    assert "word" in (caught.value.hint or "")


def test_a_typed_config_is_built_from_the_arguments(tmp_path: Path) -> None:
    module = """
import sandlot as vf

class MyTasks(vf.TasksetConfig):
    word: str = "hello"
    \"\"\"What is to be said.\"\"\"

class MyConfig(vf.EnvConfig):
    taskset: MyTasks = MyTasks()
    \"\"\"The tasks.\"\"\"

def load_environment(config: MyConfig) -> vf.Env:
    rows = [{"question": "Say it.", "answer": config.taskset.word}]
    return vf.Env(taskset=vf.Taskset(source=rows, config=config.taskset), config=config)
"""
    root = package(tmp_path, "load-typed", module=module)
    env = load_environment(str(root), taskset={"word": "typed"}, max_turns=3)
    assert (next(iter(env.playable.tasks())).answer, env.max_turns) == ("typed", 3)
    with pytest.raises(Invalid, match="did you mean 'word'"):
        load_environment(str(root), taskset={"wrod": "typed"})
