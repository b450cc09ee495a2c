"""The cases of the registry that need no installer; those that do stand in tests/e2e/test_hub_index.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.unit.hub.artefacts import build
from tests.unit.hub.events import a_run, append, create, lines, used
from tests.unit.hub.site import Site, begin, publish, published, site

JSON = {"accept": "application/vnd.pypi.simple.v1+json"}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path / "hub") as opened:
        yield opened


def latest(client: TestClient, name: str = "gsm-env") -> set[Any]:
    """The latest version, by every way to ask for it."""
    package = client.get(f"/api/v1/packages/ada/{name}").json()
    listed = client.get("/api/v1/packages", params={"text": name}).json()["items"]
    release = client.get(f"/api/v1/packages/ada/{name}/releases/latest").json()
    return {package["latest_version"], package["latest"]["version"], release["version"], listed[0]["latest_version"]}


def test_HUB_01_latest_is_no_pre_release_unless_there_is_nothing_else(hub: Site) -> None:
    ada = hub.user("ada")
    published(ada, "0.1.0", "0.2.0", "0.3.0rc1", visibility="public")
    published(ada, "0.1.0.dev1", name="lone-dev")
    published(ada, "0.1.0.dev1", "0.1.0a2", "0.1.0rc1", "0.1.0b9", name="all-pre")
    assert latest(ada) == {"0.2.0"}
    assert latest(ada, "lone-dev") == {"0.1.0.dev1"}
    assert latest(ada, "all-pre") == {"0.1.0rc1"}


@pytest.mark.parametrize("spelling", ["GSM_Env", "gsm.env", "gsm-env", "Gsm-_.Env"])
def test_HUB_02_every_spelling_leads_to_one_project_with_its_file_name_kept(hub: Site, spelling: str) -> None:
    ada = hub.user("ada")
    assert publish(ada, build("GSM_Env"), visibility="public").status_code == 201
    browser = hub.anybody()
    for path in (f"/ada/simple/{spelling}/", f"/ada/simple/{spelling}"):
        answer = browser.get(path, headers=JSON, follow_redirects=True)
        assert answer.url.path == "/ada/simple/gsm-env/"
        assert answer.json()["files"][0]["filename"] == "gsm_env-0.1.0-py3-none-any.whl"
    assert browser.get(f"/api/v1/packages/ada/{spelling}").json()["name"] == "gsm-env"
    again = publish(ada, build(spelling, "0.2.0"))
    assert again.json()["release"]["name"] == "gsm-env"


@pytest.mark.parametrize(
    ("order", "newest"),
    [
        (["0.9.0", "0.10.0", "0.9.1"], "0.10.0"),
        (["1.0.0", "1.0.0.post1", "0.99"], "1.0.0.post1"),
        (["2!1.0", "10.0"], "2!1.0"),
        (["1.10", "1.9", "1.2"], "1.10"),
    ],
)
def test_HUB_03_latest_follows_versions_not_letters_or_times(hub: Site, *, order: list[str], newest: str) -> None:
    ada = hub.user("ada")
    for version in order:
        hub.clock.seconds += 60
        published(ada, version, visibility="public")
    assert latest(ada) == {newest}
    assert ada.get("/api/v1/packages/ada/gsm-env").json()["releases"][0]["version"] == newest


def test_HUB_03_latest_moves_when_a_release_is_yanked_put_back_or_deleted(hub: Site) -> None:
    ada = hub.user("ada", scopes=["package:read", "package:publish", "package:yank", "package:delete"])
    published(ada, "0.1.0", "0.2.0")
    release = "/api/v1/packages/ada/gsm-env/releases/0.2.0"
    ada.put(f"{release}/yank", json={"reason": "wrong answers"})
    assert latest(ada) == {"0.1.0"}
    assert ada.get(release).json()["yanked_reason"] == "wrong answers"
    ada.delete(f"{release}/yank")
    assert latest(ada) == {"0.2.0"}
    ada.delete(release)
    assert latest(ada) == {"0.1.0"}
    ada.put("/api/v1/packages/ada/gsm-env/releases/0.1.0/yank", json={})
    package = ada.get("/api/v1/packages/ada/gsm-env").json()
    assert (package["latest_version"], package.get("latest")) == (None, None)
    assert ada.get("/api/v1/packages/ada/gsm-env/releases/latest").json()["code"] == "not_found"


def test_HUB_05_a_version_never_changes_and_is_never_given_out_again(hub: Site) -> None:
    ada = hub.user("ada", scopes=["package:read", "package:publish", "package:delete"])
    one, other = build(), build(body="CHANGED = True")
    assert publish(ada, one, visibility="public").status_code == 201
    again = begin(ada, one)
    assert (again.status_code, again.json()["release"]["digest"]) == (200, one.manifest.digest)
    refused = begin(ada, other)
    assert (refused.status_code, refused.json()["code"]) == (409, "release_exists")
    stored = ada.get("/api/v1/packages/ada/gsm-env/releases/0.1.0").json()
    assert [file["sha256"] for file in stored["files"]] == [file.sha256 for file in one.manifest.files]
    assert ada.delete("/api/v1/packages/ada/gsm-env/releases/0.1.0").status_code == 204
    for content in (other, one):
        gone = begin(ada, content)
        assert (gone.status_code, gone.json()["code"]) == (409, "release_deleted")
    assert ada.get("/ada/simple/gsm-env/", headers=JSON).json()["files"] == []


def test_HUB_05_the_same_content_in_a_wheel_packed_anew_is_no_change(hub: Site) -> None:
    from tests.unit.hub.artefacts import release_of, wheel_entries, zip_bytes

    ada = hub.user("ada")
    entries = wheel_entries("gsm-env", "0.1.0")
    backwards = dict(reversed(entries.items()))
    first = release_of("gsm-env", "0.1.0", wheel=zip_bytes(entries), entries=entries)
    packed_anew = release_of("gsm-env", "0.1.0", wheel=zip_bytes(backwards), entries=backwards)
    assert first.wheel.sha256 != packed_anew.wheel.sha256
    assert publish(ada, first).status_code == 201
    assert begin(ada, packed_anew).status_code == 200
    kept = ada.get("/api/v1/packages/ada/gsm-env/releases/0.1.0").json()["files"][0]
    assert kept["sha256"] == first.wheel.sha256


def test_HUB_08_the_index_says_when_each_file_was_uploaded(hub: Site) -> None:
    ada = hub.user("ada")
    published(ada, "0.1.0", visibility="public")
    hub.clock.seconds += 151 * 86400
    published(ada, "0.2.0")
    files = hub.anybody().get("/ada/simple/gsm-env/", headers=JSON).json()["files"]
    times = {file["filename"].split("-")[1]: file["upload-time"] for file in files if file["filename"].endswith(".whl")}
    assert times == {"0.1.0": "2026-01-01T00:00:00.000000Z", "0.2.0": "2026-06-01T00:00:00.000000Z"}


def test_HUB_10_the_printed_commands_name_files_with_hashes_and_no_index(hub: Site) -> None:
    ada = hub.user("ada")
    published(ada, "0.1.0", visibility="public")
    install = hub.anybody().get("/api/v1/packages/ada/gsm-env/releases/latest").json()["install"]
    for tool in ("pip", "uv"):
        assert "index" not in install[tool]
        assert install[tool].count("#sha256=") == 2
    assert install["sandlot"] == "sandlot env install ada/gsm-env@0.1.0"


def test_HUB_10_a_package_cannot_take_the_name_of_a_dependency(hub: Site) -> None:
    ada = hub.user("ada")
    for name in ("six", "numpy", "Pydantic", "typing.extensions", "sandlot"):
        answer = begin(ada, build(name))
        assert (answer.status_code, answer.json()["code"]) == (422, "name_reserved"), name


def test_HUB_20_results_attach_to_the_named_package_and_nothing_is_made_on_the_way(hub: Site) -> None:
    alice = hub.user("alice", scopes=["account:admin", "package:read", "package:publish", "run:read", "run:write"])
    alice.post("/api/v1/organisations", json={"name": "acme"}).raise_for_status()
    alice = hub.user("alice")
    for owner in ("alice", "acme"):
        published(alice, "0.1.0", name="gsm8k", owner=owner)
    before = alice.get("/api/v1/packages").json()
    ids = [f"01ky000000000000000000000{n}" for n in range(3)]
    for run_id, owner in zip(ids, ("alice", "acme"), strict=False):
        made = create(alice, a_run(run_id, environments=[used(id=f"{owner}/gsm8k")]))
        assert made.json()["environments"][0]["owner"] == owner
    bare = create(alice, a_run(ids[2], environments=[used(id="gsm8k-other")]))
    assert (bare.status_code, bare.json()["code"]) == (404, "environment_unknown")
    assert "owner/name" in bare.json()["hint"]
    wrong = create(alice, a_run(ids[2], environments=[used(id="nobody/gsm8k")]))
    assert (wrong.status_code, wrong.json()["code"]) == (404, "environment_unknown")
    assert append(alice, lines(a_run(ids[2])), run_id=ids[2]).status_code == 404
    assert alice.get("/api/v1/packages").json() == before
    assert alice.get("/api/v1/accounts/nobody").status_code == 404


def test_HUB_20_a_bare_name_is_the_run_owners_package_or_must_be_qualified(hub: Site) -> None:
    alice = hub.user("alice", scopes=["account:admin", "account:read", "package:read", "package:publish", "run:write"])
    for name in ("acme", "zeta"):
        alice.post("/api/v1/organisations", json={"name": name}).raise_for_status()
    alice = hub.user("alice")
    for owner in ("acme", "zeta"):
        published(alice, "0.1.0", name="gsm8k", owner=owner)
    several = create(alice, a_run(environments=[used(id="gsm8k")]))
    assert several.json()["code"] == "environment_unknown"
    assert "acme/gsm8k, zeta/gsm8k" in several.json()["detail"]
    own = create(alice, a_run(environments=[used(id="gsm8k")]), owner="zeta")
    assert own.json()["environments"][0]["owner"] == "zeta"
    local = create(
        alice, a_run("01ky0000000000000000000009", environments=[used(id="./mine", name="mine")]), unpublished=True
    )
    assert local.json()["environments"] == [
        {"owner": None, "name": "mine", "version": None, "digest": None, "pinned": False}
    ]
