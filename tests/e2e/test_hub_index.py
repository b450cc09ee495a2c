"""The index of a live hub, read by the real pip and the real uv."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

import httpx
import pytest
from tests.e2e.live import Place, live_hub, new_place
from tests.unit.hub.artefacts import build
from tests.unit.hub.site import START, publish, published, site

_JUNE = START + 151 * 86400.0


@dataclass(frozen=True)
class Shop:
    """A live hub with packages of ada's, and her key."""

    url: str
    folder: Path
    key: str

    @property
    def index(self) -> str:
        return f"{self.url}/ada/simple/"

    @property
    def private_index(self) -> str:
        return self.index.replace("http://", f"http://__token__:{self.key}@")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop") / "hub"
    with site(folder, sdk_wheel=None) as hub:
        ada = hub.user("ada")
        published(ada, "0.1.0", visibility="public")
        published(ada, "0.1.0.dev1", name="lone-dev", visibility="public")
        published(ada, "0.1.0", "0.2.0", name="GSM_Env2", visibility="public")
        published(ada, "0.1.0", name="demo-env", visibility="public")
        published(ada, "0.1.0", name="secret-env", visibility="private")
        published(ada, "1.0.0", "1.1.0", name="yanked-env", visibility="public")
        ada.put("/api/v1/packages/ada/yanked-env/releases/1.1.0/yank", json={"reason": "wrong answers"})
        needs = build("needs-sdk", requires=("sandlot>=0.1", "gsm-env==0.1.0"))
        assert publish(ada, needs, visibility="public").status_code == 201
        alone = build("alone-env", requires=("sandlot>=0.1",))
        assert publish(ada, alone, visibility="public").status_code == 201
        hub.clock.seconds = _JUNE
        published(ada, "0.2.0", "0.3.0rc1")
        key = hub.secret("ada")
    with live_hub(folder) as url:
        yield Shop(url, folder, key)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return new_place(tmp_path_factory.mktemp("place"))


@dataclass(frozen=True)
class Tool:
    """pip or uv, installing into the place."""

    name: str
    place: Place

    def install(self, *arguments: str, **variables: str) -> CompletedProcess[str]:
        run = self.place.pip if self.name == "pip" else self.place.uv
        return run("install", *arguments, **variables)

    def installs(self, *arguments: str, **variables: str) -> None:
        done = self.install(*arguments, **variables)
        assert done.returncode == 0, done.stderr


@pytest.fixture(params=["pip", "uv"])
def tool(request: pytest.FixtureRequest, place: Place) -> Iterator[Tool]:
    yield Tool(request.param, place)
    names = ["gsm-env", "lone-dev", "gsm-env2", "demo-env", "secret-env", "yanked-env", "needs-sdk", "sandlot"]
    place.uv("uninstall", *names)


@pytest.mark.parametrize(
    ("wanted", "version"),
    [(["gsm-env"], "0.2.0"), (["gsm-env", "--pre"], "0.3.0rc1"), (["gsm-env==0.3.0rc1"], "0.3.0rc1")],
)
def test_HUB_01_a_pre_release_is_installed_only_when_it_is_asked_for(
    shop: Shop, tool: Tool, *, wanted: list[str], version: str
) -> None:
    tool.installs(*wanted, "--index-url", shop.index)
    assert tool.place.version("gsm-env") == version


def test_HUB_01_a_lone_development_release_installs(shop: Shop, tool: Tool) -> None:
    tool.installs("lone-dev", "--index-url", shop.index)
    assert tool.place.version("lone-dev") == "0.1.0.dev1"


@pytest.mark.parametrize("spelling", ["gsm-env2", "GSM_Env2", "gsm.env2", "Gsm--Env2"])
def test_HUB_02_every_spelling_of_a_name_installs_the_same_package(shop: Shop, tool: Tool, spelling: str) -> None:
    tool.installs(spelling, "--index-url", shop.index)
    assert tool.place.version("gsm-env2") == "0.2.0"


def test_HUB_04_a_file_whose_bytes_were_changed_is_refused(shop: Shop, tool: Tool) -> None:
    page = httpx.get(f"{shop.index}lone-dev/", headers={"accept": "application/vnd.pypi.simple.v1+json"}).json()
    digest = page["files"][0]["hashes"]["sha256"]
    blob = shop.folder / "blobs" / digest[:2] / digest[2:4] / digest
    kept = blob.read_bytes()
    try:
        blob.write_bytes(build("lone-dev", "0.1.0.dev1", body="evil = True").wheel_bytes.ljust(len(kept), b"\0"))
        done = tool.install("lone-dev", "--index-url", shop.index)
    finally:
        blob.write_bytes(kept)
    assert done.returncode != 0
    assert "hash" in done.stderr.lower()
    assert tool.place.version("lone-dev") is None


@pytest.mark.parametrize(("date", "version"), [("2026-03-01", "0.1.0"), ("2030-01-01", "0.2.0")])
def test_HUB_08_a_date_up_to_which_uploads_count_is_honoured(
    shop: Shop, place: Place, *, date: str, version: str
) -> None:
    tool = Tool("uv", place)
    tool.installs("gsm-env", "--exclude-newer", date, "--index-url", shop.index, "--reinstall")
    assert place.version("gsm-env") == version
    place.uv("uninstall", "gsm-env")


def test_HUB_10_the_printed_command_installs_from_the_hub_whatever_is_elsewhere(
    shop: Shop, tool: Tool, tmp_path: Path
) -> None:
    with site(tmp_path / "public") as other:
        published(other.user("ada"), "9.9.9", name="demo-env", visibility="public")
    line = httpx.get(f"{shop.url}/api/v1/packages/ada/demo-env/releases/latest").json()["install"][tool.name]
    words = shlex.split(line)
    arguments = words[words.index("install") + 1 :]
    with live_hub(tmp_path / "public") as public:
        index = f"{public}/ada/simple/"
        tool.installs(*arguments, "--no-deps", PIP_INDEX_URL=index, UV_INDEX_URL=index)
    assert tool.place.version("demo-env") == "0.1.0"
    assert tool.place.version("sandlot") is not None


@pytest.mark.parametrize("name", ["pip", "uv"])
def test_the_printed_command_installs_an_environment_with_all_it_needs_into_a_clean_place(
    shop: Shop, tmp_path: Path, name: str
) -> None:
    place = new_place(tmp_path)
    line = httpx.get(f"{shop.url}/api/v1/packages/ada/alone-env/releases/latest").json()["install"][name]
    words = shlex.split(line)
    Tool(name, place).installs(*words[words.index("install") + 1 :], **os.environ)
    shown = place.run(str(place.folder / "bin" / "sandlot"), "--version")
    assert shown.returncode == 0, shown.stderr
    assert place.version("alone-env") == "0.1.0"


def test_a_yanked_release_is_passed_over_but_installs_by_its_exact_version(shop: Shop, tool: Tool) -> None:
    tool.installs("yanked-env", "--index-url", shop.index)
    assert tool.place.version("yanked-env") == "1.0.0"
    tool.installs("yanked-env==1.1.0", "--index-url", shop.index)
    assert tool.place.version("yanked-env") == "1.1.0"


def test_a_private_package_installs_with_a_key_and_is_absent_without(shop: Shop, tool: Tool) -> None:
    without = tool.install("secret-env", "--index-url", shop.index)
    assert without.returncode != 0
    assert tool.place.version("secret-env") is None
    tool.installs("secret-env", "--index-url", shop.private_index)
    assert tool.place.version("secret-env") == "0.1.0"


def test_an_unknown_name_in_an_extra_index_does_not_keep_others_from_being_found(
    shop: Shop, tool: Tool, tmp_path: Path
) -> None:
    with site(tmp_path / "empty") as empty:
        empty.user("bob")
    with live_hub(tmp_path / "empty") as other:
        tool.installs("gsm-env", "--index-url", f"{other}/bob/simple/", "--extra-index-url", shop.index)
    assert tool.place.version("gsm-env") == "0.2.0"


def test_an_environment_and_the_sdk_it_needs_install_from_the_owners_index_alone(shop: Shop, tool: Tool) -> None:
    tool.installs("needs-sdk", "gsm-env", "sandlot", "--no-deps", "--index-url", shop.index)
    place = tool.place
    assert place.version("needs-sdk") == "0.1.0"
    shown = place.run(place.python, "-c", "import sandlot, sandlot.errors; print(sandlot.__file__)")
    assert str(place.folder) in shown.stdout, shown.stderr
    assert (place.folder / "bin" / "sandlot").exists()
