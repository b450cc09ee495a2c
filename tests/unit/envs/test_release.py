"""Building a release."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import pytest

from sandlot.envs.manifest import probe, read_project, wheel_digest, wheel_entries
from sandlot.envs.release import build_release, check_project
from sandlot.errors import Failed, Invalid, NotFound
from sandlot.ids import sha256_hex

PYPROJECT = """
[project]
name = "my-env"
description = "Adds numbers"
tags = ["math",
  "single-turn"]
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["sandlot"]
readme = "README.md"
keywords = ["sums"]  # found by search

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build]
include = ["my_env.py"]

[tool.sandlot]
tags = ["toy"]
"""

MODULE = """
import sandlot as sl

def correct(completion, answer):
    return float(completion[-1]["content"] == answer)

def load_environment(count: int = 3):
    print("words on stdout do no harm")
    rows = [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(count)]
    return sl.SingleTurnEnv(dataset=rows, system_prompt="Add.", rubric=sl.Rubric(funcs=[correct]))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "my_env"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "my_env.py").write_text(MODULE)
    (folder / "README.md").write_text("# my-env\n")
    return folder


def test_a_release_is_a_wheel_a_source_archive_and_a_manifest_that_agree(package: Path, tmp_path: Path) -> None:
    built = build_release(package, tmp_path / "dist", isolated=False)
    manifest = built.manifest
    assert (manifest.project.name, manifest.project.version) == ("my-env", "0.1.0")
    assert manifest.project.dependencies == ["sandlot"]
    assert manifest.project.readme == "# my-env\n"
    assert [(file.kind, file.sha256) for file in manifest.files] == [
        ("wheel", sha256_hex(built.wheel.read_bytes())),
        ("sdist", sha256_hex(built.sdist.read_bytes())),
    ]
    assert manifest.digest == wheel_digest(wheel_entries(built.wheel))
    assert manifest.probe is not None
    assert (manifest.probe.kind, manifest.probe.failure) == ("single-turn", None)
    assert manifest.probe.system_prompt == "Add."
    assert [reward.name for reward in manifest.probe.rewards] == ["correct"]
    assert [task["prompt"][-1]["content"] for task in manifest.probe.sample_tasks] == ["0 + 1?", "1 + 1?", "2 + 1?"]


def test_tags_of_every_place_reach_the_metadata_and_the_folder_stays_as_it_was(package: Path, tmp_path: Path) -> None:
    built = build_release(package, tmp_path / "dist", isolated=False)
    assert built.manifest.project.tags == ["math", "single-turn", "sums", "toy"]
    assert (package / "pyproject.toml").read_text() == PYPROJECT
    assert sorted(path.name for path in package.iterdir()) == ["README.md", "my_env.py", "pyproject.toml"]
    with tarfile.open(built.sdist) as archive:
        file = archive.extractfile("my_env-0.1.0/pyproject.toml")
        assert file is not None
        assert b'keywords = ["math", "single-turn", "sums", "toy"]' in file.read()


def test_the_same_tree_gives_the_same_digest_and_another_one_does_not(package: Path, tmp_path: Path) -> None:
    first = build_release(package, tmp_path / "a", isolated=False).manifest
    (package / ".env").write_text("KEY=1")
    second = build_release(package, tmp_path / "b", isolated=False).manifest
    assert first.digest == second.digest
    assert [file.sha256 for file in first.files] == [file.sha256 for file in second.files]
    (package / "my_env.py").write_text(MODULE + "\n")
    assert build_release(package, tmp_path / "c", isolated=False).manifest.digest != first.digest


def test_a_probe_that_fails_is_recorded_and_the_release_is_still_built(package: Path, tmp_path: Path) -> None:
    (package / "my_env.py").write_text("def load_environment():\n    raise KeyError('words')\n")
    found = build_release(package, tmp_path / "dist", isolated=False).manifest.probe
    assert found is not None
    assert "KeyError: 'words'" in str(found.failure)


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("x = 1\n", "my_env.py has no function load_environment"),
        ("import no_such_module_at_all\n", "No module named 'no_such_module_at_all'"),
        ("import os\nos._exit(7)\n", "exit code 7"),
        ("import time\ntime.sleep(60)\n", "took more than 3 s"),
    ],
)
def test_whatever_the_module_does_the_probe_says_what_happened(tmp_path: Path, module: str, says: str) -> None:
    wheel = tmp_path / "my_env-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("my_env.py", module)
    assert says in str(probe(wheel, "my_env", seconds=3).failure)


def test_a_wheel_without_the_package_s_module_says_what_it_holds(package: Path, tmp_path: Path) -> None:
    (package / "my_env.py").rename(package / "other.py")
    (package / "pyproject.toml").write_text(PYPROJECT.replace("my_env.py", "other.py"))
    with pytest.raises(Invalid, match=r"holds no module my_env; it holds other\.py"):
        build_release(package, tmp_path / "dist", isolated=False)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('name = "my-env"', "", "has no name"),
        ('version = "0.1.0"', "", "has no version"),
        ('version = "0.1.0"', 'version = "one"', "'one'.* is not a version"),
        ('version = "0.1.0"', 'version = "0.1.0+local"', "local"),
        ('name = "my-env"', 'name = "my env!"', "not a package name"),
        ("description =", "descripton =", "unknown key 'descripton'"),
        ('tags = ["toy"]', 'tags = "toy"', r"\[tool.sandlot\] tags"),
        ("[project]", "[project", "not valid TOML"),
        ("[project]", "[projects]", r"no \[project\] table"),
    ],
)
def test_a_project_that_is_wrong_is_refused_by_what_is_wrong(package: Path, old: str, new: str, says: str) -> None:
    (package / "pyproject.toml").write_text(PYPROJECT.replace(old, new))
    with pytest.raises(Invalid, match=says):
        check_project(package)


def test_a_folder_without_pyproject_is_not_a_package(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no pyproject\.toml"):
        check_project(tmp_path)
    with pytest.raises(NotFound, match="no folder"):
        check_project(tmp_path / "absent")


def test_a_build_that_fails_shows_the_end_of_its_log(package: Path, tmp_path: Path) -> None:
    (package / "pyproject.toml").write_text(PYPROJECT.replace("README.md", "ABSENT.md"))
    with pytest.raises(Failed, match=r"ABSENT\.md"):
        build_release(package, tmp_path / "dist", isolated=False)


def test_a_key_in_the_source_stops_the_build_until_its_file_is_allowed(package: Path, tmp_path: Path) -> None:
    (package / "my_env.py").write_text(MODULE + f'KEY = "hf_{"a" * 34}"\n')
    with pytest.raises(Invalid, match=r"my_env\.py:11"):
        build_release(package, tmp_path / "dist", isolated=False)
    build_release(package, tmp_path / "dist", isolated=False, allow_secrets=["my_env.py"])


@pytest.mark.parametrize("content", [b"", b"not a zip"])
def test_what_is_no_wheel_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.whl").write_bytes(content)
    with pytest.raises(Invalid, match="is not a wheel"):
        wheel_entries(tmp_path / "x.whl")


def test_a_wheel_without_metadata_is_refused() -> None:
    with pytest.raises(Invalid, match="0 METADATA files"):
        read_project({"a.py": b""})
    with pytest.raises(Invalid, match="names no project"):
        read_project({"a-1.dist-info/METADATA": b"Summary: x\n"})
