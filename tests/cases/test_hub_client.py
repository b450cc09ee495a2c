"""The hub/registry cases that are the client's: publishing, installing, pulling, naming."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.live import live_hub
from tests.e2e.shell import Shell, borrowing_venv, new_shell, write_package
from tests.unit.client.wheels import make_index, make_wheel

from sandlot.client import HubClient
from sandlot.hub import Settings, open_hub
from sandlot.ids import sha256_hex

ENVIRONMENT = """
import sandlot as sl

def right(completion):
    return 1.0

def load_environment():
    return sl.SingleTurnEnv(dataset=[{"question": "say 1"}], rubric=sl.Rubric(funcs=[right]))
"""


@dataclass(frozen=True)
class World:
    """A live hub, ada and bob who are signed in, and a project's virtual environment."""

    url: str
    ada: Shell
    bob: Shell
    venv: Path

    def python(self, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.venv / "bin/python"), "-c", code, *arguments]
        return subprocess.run(command, cwd=self.ada.folder, capture_output=True, text=True, check=False)

    def version(self, name: str) -> str:
        return self.python("import importlib.metadata as m, sys; print(m.version(sys.argv[1]))", name).stdout.strip()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    tmp_path = tmp_path_factory.mktemp("world")
    hub = open_hub(Settings(data_dir=tmp_path / "hub"))
    keys = {}
    for name in ("ada", "bob"):
        hub.accounts.create_user(name)
        keys[name] = hub.keys.create(name).secret
    hub.close()
    venv = borrowing_venv(tmp_path / "venv")
    with live_hub(tmp_path / "hub") as url:
        shells = [
            # No uv on the path: it does not see what the virtual environment borrows.
            new_shell(tmp_path / name, SANDLOT_HUB=url, SANDLOT_KEY=key, PATH="/usr/bin:/bin", VIRTUAL_ENV=str(venv))
            for name, key in keys.items()
        ]
        yield World(url, *shells, venv)


def push(
    shell: Shell, module: str, *, version: str = "0.1.0", body: str = ENVIRONMENT, requires: list[str] | None = None
) -> None:
    folder = write_package(shell.folder / "packages" / module, module, body, version=version, requires=requires or [])
    shell("env", "push", str(folder), "--no-isolation", "--visibility", "public").ok()


def use_index(world: World, folder: Path, wheels: list[Path]) -> None:
    for shell in (world.ada, world.bob):
        shell.variables |= {"PIP_INDEX_URL": make_index(folder, wheels), "PIP_CONFIG_FILE": "/dev/null"}


def test_HUB_10_a_higher_version_in_the_user_s_own_index_never_wins(world: World, tmp_path: Path) -> None:
    push(world.ada, "demo_env")
    use_index(world, tmp_path / "index", [make_wheel(tmp_path / "wheels", "demo-env", "9.9.9")])
    world.ada("env", "install", "ada/demo-env").ok()
    assert world.version("demo-env") == "0.1.0"
    printed = world.ada("env", "info", "ada/demo-env", "--json").ok().record["release"]["install"]["pip"]
    assert "index" not in printed
    assert "#sha256=" in printed


def test_HUB_12_what_is_installed_stays_at_its_version(world: World, tmp_path: Path) -> None:
    old, new = (make_wheel(tmp_path / "wheels", "numdep", version) for version in ("2.2.6", "2.4.0"))
    use_index(world, tmp_path / "index", [old])
    push(world.ada, "dep_env", requires=["numdep>=2"])
    world.ada("env", "install", "ada/dep-env").ok()
    use_index(world, tmp_path / "index", [old, new])
    push(world.ada, "dep_env", version="0.2.0", requires=["numdep>=2"])
    done = world.ada("env", "install", "ada/dep-env", "--json").ok().record
    assert (done[0]["version"], done[0]["replaced"]) == ("0.2.0", "0.1.0")
    assert (world.version("dep-env"), world.version("numdep")) == ("0.2.0", "2.2.6")


@pytest.mark.parametrize("git", [True, False])
def test_HUB_13_what_is_published_is_listed_and_holds_nothing_private(world: World, git: bool) -> None:
    name = "tidy_env" if git else "neat_env"
    folder = write_package(world.ada.folder / name, name, ENVIRONMENT)
    (folder / "pyproject.toml").write_text((folder / "pyproject.toml").read_text().split("[tool.hatch")[0])
    for path in (".env", ".venv/lib/x.py", "outputs/evals/x.jsonl", "notes.txt", "sub/.env", "__pycache__/a.pyc"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("SECRET=1\n")
    (folder / ".gitignore").write_text("notes.txt\n")
    (folder / "words.txt").write_text("words\n")
    if git:
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    done = world.ada("env", "push", f"./{name}", "--no-isolation", "--json").ok().record
    assert sorted(done["sent"]) == sorted([".gitignore", "words.txt", f"{name}.py", "pyproject.toml"])
    shown = {each["path"] for each in world.ada("env", "inspect", f"ada/{name}", "--json").ok().record}
    assert {f"{name}.py", "words.txt"} <= shown
    assert not any(part in path for path in shown for part in (".env", ".venv", "outputs", "notes", "__pycache__"))
    (folder / ".env").write_text("SECRET=2\n")
    (folder / "outputs/evals/y.jsonl").write_text("{}\n")
    again = world.ada("env", "push", f"./{name}", "--no-isolation", "--json").ok().record
    assert (again["created"], again["digest"]) == (False, done["digest"])


HOSTILE = {
    "parent": ("../evil.py", tarfile.REGTYPE, ""),
    "absolute": ("/abs.py", tarfile.REGTYPE, ""),
    "file_under_link": ("evil_env-0.1.0/evil/pwn.txt", tarfile.REGTYPE, "link"),
    "hard_link": ("evil_env-0.1.0/hard", tarfile.LNKTYPE, "evil_env-0.1.0/evil_env.py"),
    "device": ("evil_env-0.1.0/null", tarfile.CHRTYPE, ""),
}


@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_HUB_15_a_hostile_source_archive_is_refused_and_nothing_is_written(tmp_path: Path, kind: str) -> None:
    """The hub refuses such archives, so this one comes from a hub that does not: a server that lays it out as it is."""
    from tests.unit.client.conftest import Answer, ScriptedHub

    name, form, link = HOSTILE[kind]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        members = [("evil_env-0.1.0/evil_env.py", tarfile.REGTYPE, "", b"x = 1\n")]
        if link == "link":
            members.append(("evil_env-0.1.0/evil", tarfile.SYMTYPE, str(tmp_path / "out"), b""))
        members.append((name, form, link, b"pwned" if form == tarfile.REGTYPE else b""))
        for path, type_, target, content in members:
            member = tarfile.TarInfo(path)
            member.type, member.linkname, member.size = type_, target, len(content)
            tar.addfile(member, io.BytesIO(content))
    (tmp_path / "out").mkdir()
    archive = buffer.getvalue()
    server = ScriptedHub()
    try:
        file = {
            "name": "evil_env-0.1.0.tar.gz",
            "kind": "sdist",
            "size": len(archive),
            "sha256": sha256_hex(archive),
            "url": f"{server.origin}/files/evil.tar.gz",
            "uploaded_at": "2026-01-01T00:00:00Z",
        }
        install = dict.fromkeys(("requirement", "sdk_requirement", "sandlot", "pip", "uv"), "")
        release = {
            "owner": "eve",
            "name": "evil-env",
            "version": "0.1.0",
            "digest": "sha256:0",
            "created_at": "",
            "created_by": "eve",
            "files": [file],
            "manifest": {},
            "install": install,
        }
        server.answers["/api/v1/packages/eve/evil-env/releases/latest"] = [Answer(200, release)]
        server.answers["/files/evil.tar.gz"] = [Answer(200, archive)]
        shell = new_shell(tmp_path / "shell", SANDLOT_HUB=server.origin)
        done = shell("env", "pull", "eve/evil-env")
    finally:
        server.close()
    assert done.code == 2
    assert "is refused" in done.err
    assert list(shell.folder.iterdir()) == []
    assert list((tmp_path / "out").iterdir()) == []
    assert not Path("/abs.py").exists()
    assert not list(tmp_path.rglob("evil.py"))


def test_HUB_17_every_spelling_loads_the_module_and_another_pin_is_an_error(world: World) -> None:
    push(world.ada, "my_env", version="0.1.5")
    world.ada("env", "install", "ada/my-env").ok()
    code = (
        "import sys; from sandlot.envs import find, load; f = find(sys.argv[1]); load(f); print(f.module, f.ref.owner)"
    )
    for spelling in ("my-env", "my_env", "ada/my-env", "ada/my-env@0.1.5", "ada/My-Env@latest", "ada/My_Env"):
        assert world.python(code, spelling).stdout.split() == ["my_env", "ada"], spelling
    other = world.python(code, "ada/my-env@0.1.4")
    assert other.returncode == 1
    assert "ada/my-env@0.1.4 was asked for" in other.stderr
    stranger = world.python(code, "bob/my-env")
    assert "is installed from ada, not from bob" in stranger.stderr


def test_HUB_17_two_owners_of_one_name_are_not_both_installed(world: World) -> None:
    push(world.ada, "wordle")
    push(world.bob, "wordle", body=ENVIRONMENT + "\nBOB = 1\n")
    world.ada("env", "install", "ada/wordle").ok()
    refused = world.ada("env", "install", "bob/wordle", "--json")
    assert refused.code == 1
    assert json.loads(refused.err)["code"] == "conflict"
    assert "sandlot env uninstall wordle" in json.loads(refused.err)["hint"]
    world.ada("env", "uninstall", "wordle").ok()
    world.ada("env", "install", "bob/wordle").ok()
    listed = world.ada("env", "list", "--installed", "--json").ok().record
    assert [(each["name"], each["owner"]) for each in listed if each["name"] == "wordle"] == [("wordle", "bob")]


def test_HUB_19_reading_a_config_installs_nothing_and_a_run_installs_what_it_names(world: World) -> None:
    push(world.ada, "late_env")
    trainer = Shell(world.ada.folder, world.ada.home, str(world.venv / "bin/python"), world.ada.variables)
    (trainer.folder / "config.toml").write_text('model = "no-such-model"\n[env]\nid = "ada/late-env@0.1.0"\n')
    away = Shell(
        trainer.folder, trainer.home, trainer.python, trainer.variables | {"SANDLOT_HUB": "http://127.0.0.1:9"}
    )
    resolved = away("rl", "@", "config.toml", "--dry-run", "--json").ok().record
    assert resolved["env"][0]["id"] == "ada/late-env@0.1.0"
    assert world.version("late-env") == ""
    refused = trainer("rl", "@", "config.toml", "--no-install")
    assert "sandlot env install ada/late-env@0.1.0" in refused.err
    # The model is not there, so the run ends; what it needs was installed by then, and named.
    done = trainer("rl", "@", "config.toml")
    assert done.code == 1
    assert "installed ada/late-env@0.1.0" in done.err
    assert "no model 'no-such-model'" in done.err
    assert world.version("late-env") == "0.1.0"


def test_HUB_20_results_go_to_the_environment_that_is_named_and_make_none(world: World, tmp_path: Path) -> None:
    from sandlot.testing import MockServer

    push(world.ada, "gsm_env")
    write_package(world.ada.folder / "environments/bare_env", "bare_env", ENVIRONMENT)
    world.ada("env", "install", "ada/gsm-env").ok()
    shell = Shell(world.ada.folder, world.ada.home, str(world.venv / "bin/python"), world.ada.variables)
    with MockServer("1") as server:
        runs = [
            shell("eval", name, "-m", "mock", "-b", server.url, "-n", "1", "-r", "1", "--json").ok().record["runs"][0]
            for name in ("ada/gsm-env", "bare-env")
        ]
    pushed = shell("run", "push", runs[0]["folder"], "--json").ok().record
    with HubClient(world.url, key=world.ada.variables["SANDLOT_KEY"]) as client:
        info = client.runs.get(pushed["id"])
        assert [(each.owner, each.name, each.pinned) for each in info.environments] == [("ada", "gsm-env", True)]
        refused = shell("run", "push", runs[1]["folder"], "--json")
        assert refused.code == 1
        assert json.loads(refused.err)["code"] == "environment_unknown"
        assert "owner/name" in json.loads(refused.err)["hint"]
        assert "bare-env" not in {each.name for each in client.packages.search()}
    shell("run", "push", runs[1]["folder"], "--unpublished").ok()
