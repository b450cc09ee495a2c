"""Installing releases into a project's interpreter, with pip and with uv."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sandlot.api import FileInfo, Install, ReleaseInfo
from sandlot.client import Target, find_target, install_releases, uninstall
from sandlot.errors import Conflict, Failed, Invalid, NotFound
from sandlot.ids import sha256_hex

from .conftest import Answer, ScriptedHub
from .wheels import make_index, make_wheel


@pytest.fixture(params=["pip", "uv"])
def installer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Makes one of the two the installer that is found, with an index that only the test fills."""
    uv = shutil.which("uv", path=os.pathsep.join([os.environ["PATH"], str(Path(sys.executable).parent), _uv_folder()]))
    assert uv is not None
    tools = tmp_path / "tools"
    tools.mkdir()
    if request.param == "uv":
        (tools / "uv").symlink_to(uv)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    return str(request.param)


def _uv_folder() -> str:
    import uv

    return str(Path(uv.find_uv_bin()).parent)


Use = Callable[[list[Path]], None]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Use:
    """Lays wheels into the user's own index."""

    def use(wheels: list[Path]) -> None:
        url = make_index(tmp_path / "index", wheels)
        monkeypatch.setenv("PIP_INDEX_URL", url)
        monkeypatch.setenv("UV_DEFAULT_INDEX", url)

    use([])
    return use


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with pip, to be copied: making one takes seconds."""
    place = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    return place


@pytest.fixture
def venv(tmp_path: Path, bare: Path) -> Path:
    place = tmp_path / "venv"
    shutil.copytree(bare, place, symlinks=True)
    return place


def target(venv: Path) -> Target:
    return find_target(str(venv), environ={})


def serve(hub: ScriptedHub, wheel: Path) -> tuple[str, str]:
    """Puts a wheel on the hub; its path there and its sha256."""
    digest = sha256_hex(wheel.read_bytes())
    path = f"/ada/files/{digest[:16]}/{wheel.name}"
    hub.answers[path] = [Answer(200, wheel.read_bytes())]
    return path, digest


def release(
    hub: ScriptedHub, wheel: Path, *, owner: str = "ada", sdk: Path | None = None, python: str = ""
) -> ReleaseInfo:
    name, version = wheel.name.split("-")[:2]
    path, digest = serve(hub, wheel)
    url = hub.origin + path.replace("/ada/", f"/{owner}/")
    hub.answers[path.replace("/ada/", f"/{owner}/")] = hub.answers[path]
    sdk_requirement = ""
    if sdk is not None:
        sdk_path, sdk_digest = serve(hub, sdk)
        sdk_requirement = f"sandlot @ {hub.origin}{sdk_path}#sha256={sdk_digest}"
    name = name.replace("_", "-")
    return ReleaseInfo(
        version=version,
        digest=f"sha256:{digest[::-1]}",
        created_at="2026-01-01T00:00:00Z",
        created_by=owner,
        owner=owner,
        name=name,
        files=[FileInfo(name=wheel.name, kind="wheel", size=1, sha256=digest, url=url, uploaded_at="")],
        manifest={"project": {"requires_python": python, "dependencies": ["sandlot>=0.1"]}},
        install=Install(requirement="", sdk_requirement=sdk_requirement, sandlot="", pip="", uv=""),
    )


def version_of(venv: Path, name: str) -> str | None:
    found = target(venv).find(name)
    return found.version if found is not None else None


def test_a_release_and_the_sdk_come_by_their_own_urls_and_what_is_there_stays(
    installer: str, index: Use, hub: ScriptedHub, venv: Path, tmp_path: Path
) -> None:
    files = tmp_path / "wheels"
    old, new = make_wheel(files, "numdep", "2.2.6"), make_wheel(files, "numdep", "2.4.0")
    poisoned = [make_wheel(files / "public", "dep-env", "9.9.9"), make_wheel(files / "public", "sandlot", "9.9.9")]
    index([old])
    sdk = make_wheel(files, "sandlot", "0.1.0")
    first = release(hub, make_wheel(files, "dep-env", "0.1.0", requires=["numdep>=2", "sandlot>=0.1"]), sdk=sdk)
    done = install_releases([first], target(venv))
    assert [(each.name, each.version, each.changed, each.replaced) for each in done] == [
        ("dep-env", "0.1.0", True, None)
    ]
    assert (version_of(venv, "sandlot"), version_of(venv, "numdep")) == ("0.1.0", "2.2.6")

    index([old, new, *poisoned])
    newer_sdk = make_wheel(files, "sandlot", "0.2.0")
    second = release(hub, make_wheel(files, "dep-env", "0.2.0", requires=["numdep>=2", "sandlot>=0.1"]), sdk=newer_sdk)
    done = install_releases([second], target(venv))
    assert done[0].replaced == "0.1.0"
    assert version_of(venv, "dep-env") == "0.2.0"
    assert (version_of(venv, "sandlot"), version_of(venv, "numdep")) == ("0.1.0", "2.2.6")


def test_where_a_release_came_from_is_on_record_and_installing_it_again_does_nothing(
    installer: str, index: Use, hub: ScriptedHub, venv: Path, tmp_path: Path
) -> None:
    wanted = release(hub, make_wheel(tmp_path, "my-env", "0.1.0"), sdk=make_wheel(tmp_path, "sandlot", "0.1.0"))
    install_releases([wanted], target(venv))
    found = target(venv).find("My_Env")
    assert found is not None
    assert (found.owner, found.digest, found.sha256) == ("ada", wanted.digest, wanted.files[0].sha256)
    assert found.url == wanted.files[0].url
    asked = len(hub.requests)
    assert [each.changed for each in install_releases([wanted], target(venv))] == [False]
    assert len(hub.requests) == asked
    # What the installer itself thinks of the package that it installed and we annotated: it removes all of it.
    assert uninstall("my-env", target(venv)).version == "0.1.0"
    assert not list(venv.glob("lib/*/site-packages/my_env*"))


def test_only_an_environment_is_removed(installer: str, index: Use, venv: Path, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "bystander", "1.0")
    subprocess.run([venv / "bin/python", "-m", "pip", "install", "-q", "--no-deps", str(wheel)], check=True)
    with pytest.raises(Invalid, match=r"bystander 1\.0 in .* is no environment") as caught:
        uninstall("bystander", target(venv))
    assert "pip uninstall bystander" in str(caught.value.hint)
    assert version_of(venv, "bystander") == "1.0"


def test_other_content_of_the_same_version_takes_the_place_of_a_local_one(
    installer: str, index: Use, hub: ScriptedHub, venv: Path, tmp_path: Path
) -> None:
    first = release(hub, make_wheel(tmp_path / "a", "my-env", "0.1.0"), sdk=make_wheel(tmp_path, "sandlot", "0.1.0"))
    install_releases([first], target(venv))
    other = make_wheel(tmp_path / "b", "my-env", "0.1.0", files={"my_env.py": "VERSION = 'other'\n"})
    install_releases([release(hub, other)], target(venv))
    text = next(venv.glob("lib/*/site-packages/my_env.py")).read_text()
    assert text == "VERSION = 'other'\n"


def test_a_swapped_file_is_refused_by_the_installer(
    installer: str, index: Use, hub: ScriptedHub, venv: Path, tmp_path: Path
) -> None:
    wanted = release(hub, make_wheel(tmp_path, "my-env", "0.1.0"), sdk=make_wheel(tmp_path, "sandlot", "0.1.0"))
    path = wanted.files[0].url.removeprefix(hub.origin)
    hub.answers[path] = [
        Answer(200, make_wheel(tmp_path / "evil", "my-env", "0.1.0", files={"my_env.py": "evil"}).read_bytes())
    ]
    with pytest.raises(Failed, match=r"(?i)hash"):
        install_releases([wanted], target(venv))
    assert version_of(venv, "my-env") is None


def test_a_private_release_is_fetched_with_the_key_and_the_key_is_written_nowhere(
    installer: str, index: Use, hub: ScriptedHub, venv: Path, tmp_path: Path
) -> None:
    wanted = release(hub, make_wheel(tmp_path, "my-env", "0.1.0"), sdk=make_wheel(tmp_path, "sandlot", "0.1.0"))
    path = wanted.files[0].url.removeprefix(hub.origin)
    hub.answers[path][0].private = True
    with pytest.raises(Failed, match="404"):
        install_releases([wanted], target(venv))
    install_releases([wanted], target(venv), netrc_key=(hub.origin, "slk_secret"))
    sent = [headers.get("Authorization", "") for _, asked, headers, _ in hub.requests if asked == path]
    assert any(value.startswith("Basic ") for value in sent)
    texts = [file.read_bytes() for file in venv.rglob("*") if file.is_file() and "site-packages" in str(file)]
    assert not any(b"slk_secret" in text for text in texts)


def test_two_owners_of_one_import_name_are_not_both_installed(
    hub: ScriptedHub, venv: Path, tmp_path: Path, index: Use
) -> None:
    sdk = make_wheel(tmp_path, "sandlot", "0.1.0")
    ours = release(hub, make_wheel(tmp_path / "a", "wordle", "0.1.0"), owner="ada", sdk=sdk)
    theirs = release(hub, make_wheel(tmp_path / "b", "wordle", "0.1.0"), owner="bob", sdk=sdk)
    with pytest.raises(Conflict, match="both imported as wordle"):
        install_releases([ours, theirs], target(venv))
    install_releases([ours], target(venv))
    with pytest.raises(Conflict, match=r"ada/wordle 0\.1\.0 is installed") as caught:
        install_releases([theirs], target(venv))
    assert "sandlot env uninstall wordle" in str(caught.value.hint)
    other = make_wheel(tmp_path / "c", "other", "1.0", files={"my_env.py": ""})
    subprocess.run([venv / "bin/python", "-m", "pip", "install", "-q", "--no-deps", str(other)], check=True)
    with pytest.raises(Conflict, match=r"other 1\.0 is installed"):
        install_releases([release(hub, make_wheel(tmp_path, "my-env", "0.1.0"), sdk=sdk)], target(venv))


def test_a_release_for_another_python_or_a_newer_sdk_is_refused_before_anything_is_fetched(
    hub: ScriptedHub, venv: Path, tmp_path: Path, index: Use
) -> None:
    with pytest.raises(Invalid, match=r"needs Python >=3\.99"):
        install_releases([release(hub, make_wheel(tmp_path, "my-env", "0.1.0"), python=">=3.99")], target(venv))
    sdk = make_wheel(tmp_path, "sandlot", "0.0.9")
    subprocess.run([venv / "bin/python", "-m", "pip", "install", "-q", "--no-deps", str(sdk)], check=True)
    with pytest.raises(Conflict, match=r"needs sandlot>=0\.1; 0\.0\.9 is installed"):
        install_releases([release(hub, make_wheel(tmp_path, "my-env", "0.1.0"))], target(venv))
    assert hub.requests == []


def test_the_interpreter_is_the_one_asked_for_then_the_active_one_then_dot_venv_then_ours(
    bare: Path, tmp_path: Path
) -> None:
    (tmp_path / ".venv").symlink_to(bare)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert find_target(str(bare / "bin/python"), folder=tmp_path, environ={}).chosen.startswith("--python")
    assert find_target(folder=elsewhere, environ={"VIRTUAL_ENV": str(bare)}).chosen == "the active virtual environment"
    assert "virtual environment" in find_target(folder=tmp_path, environ={}).chosen
    assert find_target(folder=tmp_path, environ={}).prefix.name == ".venv"


@pytest.mark.parametrize("receipt", ["pipx_metadata.json", "uv-receipt.toml"])
def test_the_tool_s_own_environment_is_refused_with_the_remedy(venv: Path, receipt: str) -> None:
    (venv / receipt).touch()
    with pytest.raises(Invalid, match="installed as a tool") as caught:
        target(venv)
    assert "python3 -m venv" in str(caught.value.hint)


def test_a_python_that_the_operating_system_manages_is_refused(tmp_path: Path) -> None:
    """A stand-in for a distribution's interpreter: it answers as one would whose library is marked (PEP 668)."""
    answer = {"executable": "/usr/bin/python3", "prefix": "/usr", "version": "3.12.1", "managed": True, "packages": []}
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    fake.chmod(0o755)
    with pytest.raises(Invalid, match="belongs to the operating system"):
        find_target(str(fake), environ={})


def test_an_interpreter_that_is_none_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no Python interpreter"):
        find_target(str(tmp_path), environ={})
    with pytest.raises(NotFound, match="no Python interpreter"):
        find_target(environ={"VIRTUAL_ENV": str(tmp_path / "gone")})
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\nexit 3\n")
    fake.chmod(0o755)
    with pytest.raises(Failed, match="does not work"):
        find_target(str(fake), environ={})
