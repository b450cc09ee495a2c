"""What of a package's folder is published."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from sandlot.envs.sources import copy_sources, find_secrets, list_sources
from sandlot.errors import Invalid


def tree(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def test_caches_environments_outputs_and_secret_files_are_left_out_with_a_reason(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "my_env.py": "",
            "README.md": "",
            "words.json": "[]",
            ".env": "KEY=1",
            "sub/.env.local": "KEY=1",
            "sub/.env.example": "KEY=",
            ".venv/pyvenv.cfg": "",
            "python3/pyvenv.cfg": "",
            "outputs/evals/x.jsonl": "",
            "sub/outputs/kept.txt": "",
            "__pycache__/my_env.pyc": "",
            "keys/server.pem": "",
        },
    )
    found = list_sources(tmp_path)
    assert found.sent == ["README.md", "my_env.py", "sub/.env.example", "sub/outputs/kept.txt", "words.json"]
    assert found.left_out == {
        ".env": "may hold secrets",
        ".venv/": "never published",
        "__pycache__/": "never published",
        "keys/server.pem": "may hold secrets",
        "outputs/": "never published",
        "python3/": "a virtual environment",
        "sub/.env.local": "may hold secrets",
    }


@pytest.mark.parametrize("with_git", [True, False])
def test_what_git_ignores_is_left_out_with_and_without_a_work_tree(tmp_path: Path, with_git: bool) -> None:
    tree(
        tmp_path,
        {
            ".gitignore": "notes.txt\n/only_top.txt\n*.log\n!keep.log\nbig/\n",
            "notes.txt": "",
            "only_top.txt": "",
            "a.log": "",
            "keep.log": "",
            "big/file": "",
            "sub/only_top.txt": "",
            "sub/notes.txt": "",
            "sub/.gitignore": "local.txt\n",
            "sub/local.txt": "",
            "local.txt": "",
        },
    )
    if with_git:
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert list_sources(tmp_path).sent == [
        ".gitignore",
        "keep.log",
        "local.txt",
        "sub/.gitignore",
        "sub/only_top.txt",
    ]


def test_a_rule_of_the_repository_around_the_package_counts_too(tmp_path: Path) -> None:
    tree(tmp_path, {".gitignore": "*.parquet\n", "my_env/my_env.py": "", "my_env/rows.parquet": ""})
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    found = list_sources(tmp_path / "my_env")
    assert found.sent == ["my_env.py"]
    assert found.left_out == {"rows.parquet": "ignored by git"}


PIECES = st.sampled_from(["a", "b", "ab", "*", "?", "**", "a*", "*b", "[ab]", "[!a]", "a.b", "\\*"])
PATTERNS = st.builds(
    lambda negated, start, parts, end: negated + start + "/".join(parts) + end,
    st.sampled_from(["", "", "", "!"]),
    st.sampled_from(["", "/"]),
    st.lists(PIECES, min_size=1, max_size=3),
    st.sampled_from(["", "/"]),
)
FILES = ["a", "b", "ab/a", "ab/b", "c/a/b", "c/ab/a.b", "aa/b/ab/a", "*"]


@pytest.mark.skipif(shutil.which("git") is None, reason="the comparison needs git")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PATTERNS, min_size=1, max_size=4))
@example(["a", "/**", "!ab"])
def test_the_rules_read_from_gitignore_agree_with_git(
    tmp_path_factory: pytest.TempPathFactory, rules: list[str]
) -> None:
    root = tmp_path_factory.mktemp("rules")
    tree(root, dict.fromkeys(FILES, "") | {".gitignore": "\n".join(rules) + "\n"})
    ours = set(list_sources(root).sent)
    bare = root / "elsewhere.git"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    listed = subprocess.run(
        ["git", f"--git-dir={bare}", f"--work-tree={root}", "ls-files", "--others", "--exclude-standard", "-z"],
        cwd=root,
        capture_output=True,
        check=True,
    )
    theirs = {path for path in listed.stdout.decode().split("\0") if path and not path.startswith("elsewhere.git")}
    assert ours == theirs


@pytest.mark.parametrize(
    "line",
    [
        'key = "sk-' + "a1B2" * 10 + '"',
        "hf_" + "x" * 34,
        "token: ghp_" + "A" * 36,
        "AKIA" + "ABCDEFGHIJKLMNOP",
        "-----BEGIN RSA PRIVATE KEY-----",
    ],
)
def test_a_key_written_in_a_file_is_found_with_its_line(tmp_path: Path, line: str) -> None:
    tree(tmp_path, {"my_env.py": f"import os\n\n{line}\n", "other.py": 'KEY = os.environ["OPENAI_API_KEY"]\n'})
    assert find_secrets(list_sources(tmp_path)) == ["my_env.py:3"]


def test_a_link_that_leads_out_of_the_package_is_refused_and_one_inside_is_copied(tmp_path: Path) -> None:
    package = tree(tmp_path / "my_env", {"my_env.py": "x = 1\n"})
    (package / "alias.py").symlink_to("my_env.py")
    copy_sources(list_sources(package), tmp_path / "copy")
    assert (tmp_path / "copy/alias.py").read_text() == "x = 1\n"
    assert not (tmp_path / "copy/alias.py").is_symlink()
    (package / "passwd").symlink_to("/etc/passwd")
    with pytest.raises(Invalid, match="outside of the package"):
        list_sources(package)
