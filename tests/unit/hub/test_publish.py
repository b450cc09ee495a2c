"""Publishing over HTTP: what is taken, what is refused, and that nothing happens by half."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from fastapi.testclient import TestClient
from tests.unit.hub.artefacts import (
    Built,
    build,
    metadata_text,
    release_of,
    sdist_bytes,
    tar_bytes,
    wheel_entries,
    with_record,
    zip_bytes,
)
from tests.unit.hub.site import Site, begin, publish, published, send

from sandlot.ids import content_digest, sha256_hex
from sandlot.records import JsonObject


def with_wheel(content: bytes, *, name: str = "gsm-env", version: str = "0.1.0") -> Built:
    """A release whose wheel is these bytes, honestly announced but for the content's digest."""
    return release_of(name, version, wheel=content, entries={"x": b""})


def refused(answer: Any, status: int, code: str) -> JsonObject:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    found: JsonObject = answer.json()
    assert (answer.status_code, found["code"]) == (status, code), answer.text
    assert found["status"] == status
    return found


def nothing_is_there(hub: Site, name: str = "gsm-env") -> None:
    assert hub.anybody().get(f"/api/v1/packages/ada/{name}").status_code == 404
    assert hub.anybody().get("/api/v1/packages").json()["items"] == []


def test_a_release_is_published_in_three_steps_and_read_back(hub: Site, ada: TestClient) -> None:
    built = build(tags=("maths",))
    begun = begin(ada, built, visibility="public")
    assert [file["present"] for file in begun.json()["files"]] == [False, False]
    nothing_is_there(hub)
    send(ada, built, begun.json())
    nothing_is_there(hub)
    done = ada.post(f"/api/v1/uploads/{begun.json()['id']}/commit")
    assert (done.status_code, done.json()["created"]) == (201, True)
    release = hub.anybody().get("/api/v1/packages/ada/gsm-env/releases/latest").json()
    assert release["digest"] == built.manifest.digest
    assert release["created_by"] == "ada"
    assert release["manifest"]["project"]["readme"] == "# gsm-env\n\nA readme.\n"
    assert release["manifest"]["project"]["license"] == "MIT"
    for file in release["files"]:
        assert hub.anybody().get(file["url"]).content == built.contents[file["sha256"]]


def test_committing_again_and_publishing_the_same_again_change_nothing(ada: TestClient) -> None:
    built = build()
    begun = begin(ada, built).json()
    send(ada, built, begun)
    first = ada.post(f"/api/v1/uploads/{begun['id']}/commit")
    again = ada.post(f"/api/v1/uploads/{begun['id']}/commit")
    assert again.json()["release"] == first.json()["release"]
    same = begin(ada, built)
    assert (same.status_code, same.json()["release"]["digest"]) == (200, built.manifest.digest)
    commit = ada.post(f"/api/v1/uploads/{same.json()['id']}/commit")
    assert (commit.status_code, commit.json()["created"]) == (200, False)


def test_the_same_idempotency_key_is_the_same_upload_and_another_release_under_it_is_refused(ada: TestClient) -> None:
    ada.headers["Idempotency-Key"] = "push-1"
    first, again = begin(ada, build()), begin(ada, build())
    assert first.json()["id"] == again.json()["id"]
    refused(begin(ada, build(version="0.2.0")), 409, "idempotency_mismatch")


def test_a_key_of_an_upload_that_expired_begins_a_new_one(hub: Site, ada: TestClient) -> None:
    ada.headers["Idempotency-Key"] = "push-1"
    first = begin(ada, build()).json()
    hub.clock.seconds += 25 * 3600
    again = begin(ada, build()).json()
    assert again["id"] != first["id"]
    send(ada, build(), again)
    assert ada.post(f"/api/v1/uploads/{again['id']}/commit").status_code == 201


def test_a_key_that_may_only_publish_is_told_what_is_published(hub: Site, ada: TestClient) -> None:
    narrow = hub.with_key(hub.secret("ada", scopes=["package:publish"]))
    assert publish(narrow, build()).status_code == 201
    again = begin(narrow, build())
    assert (again.status_code, again.json()["release"]["version"]) == (200, "0.1.0")


def test_links_that_a_browser_would_run_are_left_out(ada: TestClient) -> None:
    urls = "Project-URL: Docs, https://docs.example.org\nProject-URL: Evil, javascript:alert(1)\n"
    entries = wheel_entries("gsm-env", "0.1.0", metadata=metadata_text("gsm-env", "0.1.0", extra=urls))
    built = release_of("gsm-env", "0.1.0", wheel=zip_bytes(entries), entries=entries)
    release = publish(ada, built).json()["release"]
    assert release["manifest"]["project"]["urls"] == {"Docs": "https://docs.example.org"}


def test_two_uploads_of_one_version_end_in_one_release(ada: TestClient) -> None:
    one, other = build(), build(body="OTHER = 1")
    first, second = begin(ada, one).json(), begin(ada, other).json()
    send(ada, one, first)
    send(ada, other, second)
    assert ada.post(f"/api/v1/uploads/{first['id']}/commit").status_code == 201
    refused(ada.post(f"/api/v1/uploads/{second['id']}/commit"), 409, "release_exists")
    assert ada.get("/api/v1/packages/ada/gsm-env/releases/0.1.0").json()["digest"] == one.manifest.digest


def test_bytes_that_the_owner_has_are_not_asked_for_again(ada: TestClient) -> None:
    published(ada, "0.1.0")
    ada.delete("/api/v1/packages/ada/gsm-env/releases/0.1.0")
    moved = build(version="0.1.0")
    again = build(version="0.2.0")
    assert [file["present"] for file in begin(ada, again).json()["files"]] == [False, False]
    refused(begin(ada, moved), 409, "release_deleted")


def test_knowing_the_digest_of_anothers_private_file_does_not_give_it(hub: Site, ada: TestClient) -> None:
    secret = build(body="ANSWERS = [42]")
    assert publish(ada, secret, visibility="private").status_code == 201
    eve = hub.user("eve")
    begun = begin(eve, secret, owner="eve", visibility="public").json()
    assert [file["present"] for file in begun["files"]] == [False, False]
    refused(eve.post(f"/api/v1/uploads/{begun['id']}/commit"), 422, "file_missing")


def test_what_is_sent_must_be_what_was_announced(ada: TestClient) -> None:
    built = build(sdist=False)
    begun = begin(ada, built).json()
    url = begun["files"][0]["url"]
    changed = bytes([built.wheel_bytes[0] ^ 1]) + built.wheel_bytes[1:]
    refused(ada.put(url, content=changed), 422, "digest_mismatch")
    refused(ada.put(url, content=built.wheel_bytes[:-1]), 422, "size_mismatch")
    refused(ada.put(url, content=built.wheel_bytes + b"x"), 422, "size_mismatch")
    refused(ada.put(url[:-1] + "0", content=built.wheel_bytes), 404, "not_found")
    missing = refused(ada.post(f"/api/v1/uploads/{begun['id']}/commit"), 422, "file_missing")
    assert built.wheel.name in missing["detail"]


def test_an_upload_is_its_makers_alone_and_ends(hub: Site, ada: TestClient) -> None:
    begun = begin(ada, build()).json()
    refused(hub.user("eve").post(f"/api/v1/uploads/{begun['id']}/commit"), 404, "not_found")
    refused(hub.anybody().put(begun["files"][0]["url"], content=b"x"), 404, "not_found")
    hub.clock.seconds += 25 * 3600
    refused(ada.post(f"/api/v1/uploads/{begun['id']}/commit"), 409, "upload_expired")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"requires_python": ">=3.11"}, "requires_python"),
        ({"dependencies": ["six"]}, "dependencies"),
    ],
)
def test_a_manifest_that_says_other_than_the_wheel_is_refused(
    hub: Site, ada: TestClient, *, changes: dict[str, Any], field: str
) -> None:
    entries = wheel_entries("gsm-env", "0.1.0")
    built = release_of("gsm-env", "0.1.0", wheel=zip_bytes(entries), entries=entries, **changes)
    found = refused(publish(ada, built), 422, "manifest_mismatch")
    assert field in found["detail"]
    nothing_is_there(hub)


def test_a_digest_that_is_not_that_of_the_wheel_is_refused(ada: TestClient) -> None:
    built = build()
    lying = Built(msgspec.structs.replace(built.manifest, digest=content_digest([("a", b"b")])), built.contents)
    found = refused(publish(ada, lying), 422, "manifest_mismatch")
    assert built.manifest.digest in found["detail"]


def test_metadata_of_another_package_in_the_wheel_is_refused(ada: TestClient) -> None:
    entries = wheel_entries("gsm-env", "0.1.0", metadata=metadata_text("other-env", "0.1.0"))
    built = release_of("gsm-env", "0.1.0", wheel=zip_bytes(entries), entries=entries)
    assert "other-env" in refused(publish(ada, built), 422, "manifest_mismatch")["detail"]


def test_an_sdist_of_another_version_is_refused(ada: TestClient) -> None:
    entries = wheel_entries("gsm-env", "0.1.0")
    other = sdist_bytes("gsm-env", "0.9.0")
    built = release_of("gsm-env", "0.1.0", wheel=zip_bytes(entries), entries=entries, sdist=other)
    assert "0.9.0" in refused(publish(ada, built), 422, "manifest_mismatch")["detail"]


def broken_wheels() -> list[tuple[str, bytes, str, str]]:
    good = wheel_entries("gsm-env", "0.1.0")
    info = "gsm_env-0.1.0.dist-info"
    without = {path: content for path, content in good.items() if not path.endswith("METADATA")}
    unlisted = {**good, "extra.py": b"x = 1"}
    altered = {**good, "gsm_env.py": b"x = 2"}
    bad_requirement = wheel_entries(
        "gsm-env", "0.1.0", metadata=metadata_text("gsm-env", "0.1.0", requires=("not a !",))
    )
    moved = {path.replace(info, "other-0.1.0.dist-info"): content for path, content in good.items()}
    truncated = zip_bytes(good)[:-40]
    corrupt = bytearray(zip_bytes(good))
    corrupt[45] ^= 0xFF
    return [
        ("no zip", b"hello", "wheel_malformed", "zip"),
        ("cut short", truncated, "wheel_malformed", "zip"),
        ("bytes changed", bytes(corrupt), "wheel_malformed", "gsm_env.py"),
        ("no METADATA", zip_bytes(without), "wheel_malformed", "METADATA"),
        ("other dist-info", zip_bytes(moved), "wheel_malformed", "dist-info"),
        ("not in RECORD", zip_bytes(unlisted), "wheel_malformed", "extra.py"),
        ("other than RECORD", zip_bytes(altered), "wheel_malformed", "gsm_env.py"),
        ("bad requirement", zip_bytes(bad_requirement), "wheel_malformed", "not a !"),
        ("climbs out", zip_bytes(with_record({**good, "../evil.py": b""}, info)), "archive_unsafe", "../evil.py"),
        ("absolute", zip_bytes(with_record({**good, "/evil.py": b""}, info)), "archive_unsafe", "/evil.py"),
        ("backslash", zip_bytes(with_record({**good, "a\\..\\evil.py": b""}, info)), "archive_unsafe", "evil.py"),
        ("bomb", zip_bytes({**good, "zeros": b"\0" * 40_000_000}), "archive_bomb", "times its size"),
    ]


@pytest.mark.parametrize(
    ("content", "code", "words"), [pytest.param(*rest, id=name) for name, *rest in broken_wheels()]
)
def test_a_malformed_or_hostile_wheel_is_refused(
    hub: Site, ada: TestClient, *, content: bytes, code: str, words: str
) -> None:
    found = refused(publish(ada, with_wheel(content)), 422, code)
    assert words in found["detail"]
    nothing_is_there(hub)


def hostile_sdists() -> list[tuple[str, bytes, str]]:
    root = "gsm_env-0.1.0"
    info = {f"{root}/PKG-INFO": metadata_text("gsm-env", "0.1.0").encode()}
    return [
        ("no archive", b"hello", "sdist_malformed"),
        ("cut short", tar_bytes({**info, f"{root}/a": b"a" * 9999})[:-20], "sdist_malformed"),
        ("no PKG-INFO", tar_bytes({f"{root}/a": b"a"}), "sdist_malformed"),
        ("climbs out", tar_bytes({**info, f"{root}/../../evil": b""}), "archive_unsafe"),
        ("absolute", tar_bytes({**info, "/evil": b""}), "archive_unsafe"),
        ("bomb", tar_bytes({**info, f"{root}/zeros": b"\0" * 40_000_000}), "archive_bomb"),
    ]


@pytest.mark.parametrize(("content", "code"), [pytest.param(*rest, id=name) for name, *rest in hostile_sdists()])
def test_a_malformed_or_hostile_sdist_is_refused(hub: Site, ada: TestClient, *, content: bytes, code: str) -> None:
    entries = wheel_entries("gsm-env", "0.1.0")
    built = release_of("gsm-env", "0.1.0", wheel=zip_bytes(entries), entries=entries, sdist=content)
    refused(publish(ada, built), 422, code)
    nothing_is_there(hub)


@pytest.mark.parametrize(
    ("name", "version", "code"),
    [
        ("numpy", "0.1.0", "name_reserved"),
        ("Typing_Extensions", "0.1.0", "name_reserved"),
        ("sandlot", "0.1.0", "name_reserved"),
        ("simple", "0.1.0", "name_reserved"),
        ("gsm-env", "0.1.0+cpu", "version_invalid"),
    ],
)
def test_a_name_or_version_that_cannot_be_is_refused_at_once(
    ada: TestClient, *, name: str, version: str, code: str
) -> None:
    assert refused(begin(ada, build(name, version)), 422, code)["detail"]


def test_a_well_known_name_can_be_allowed_by_whoever_runs_the_hub(tmp_path: Any) -> None:
    from tests.unit.hub.site import site

    with site(tmp_path, allow_names=["Numpy"]) as hub:
        assert publish(hub.user("ada"), build("numpy")).status_code == 201


def manifests() -> list[tuple[str, Any, int, str]]:
    def changed(**changes: Any) -> JsonObject:
        return {**build().json, **changes}

    files = build().json["files"]
    return [
        ("no manifest", {}, 422, "manifest_invalid"),
        ("newer", changed(schema=2), 422, "manifest_invalid"),
        ("project is text", changed(project="gsm-env"), 422, "manifest_invalid"),
        ("no wheel", changed(files=files[1:]), 422, "manifest_invalid"),
        ("two wheels", changed(files=[files[0], {**files[0], "sha256": "0" * 64}]), 422, "manifest_invalid"),
        ("no digest", changed(files=[{**files[0], "sha256": "abc"}]), 422, "manifest_invalid"),
        (
            "other file name",
            changed(files=[{**files[0], "name": "other-0.1.0-py3-none-any.whl"}]),
            422,
            "name_mismatch",
        ),
        ("no file name", changed(files=[{**files[0], "name": "../../x.whl"}]), 422, "name_mismatch"),
        ("too large", changed(files=[{**files[0], "size": 10**12}]), 413, "too_large"),
        ("other name", changed(project={"name": "else", "version": "0.1.0"}), 422, "name_mismatch"),
        ("no version", changed(project={"name": "gsm-env", "version": "one"}), 422, "version_invalid"),
        ("bad tag", changed(project={"name": "gsm-env", "version": "0.1.0", "tags": ["[x]"]}), 422, "manifest_invalid"),
    ]


@pytest.mark.parametrize(("manifest", "status", "code"), [pytest.param(*rest, id=name) for name, *rest in manifests()])
def test_a_manifest_that_cannot_be_is_refused(ada: TestClient, *, manifest: JsonObject, status: int, code: str) -> None:
    answer = ada.post("/api/v1/packages/ada/gsm-env/uploads", json={"manifest": manifest})
    refused(answer, status, code)


def test_a_body_with_an_unknown_field_is_refused(ada: TestClient) -> None:
    found = refused(begin(ada, build(), visiblity="public"), 422, "bad_request")
    assert "visiblity" in found["detail"]


def test_a_new_package_is_private_unless_it_is_said_and_then_keeps_its_visibility(hub: Site, ada: TestClient) -> None:
    assert publish(ada, build()).status_code == 201
    nothing_is_there(hub)
    refused(begin(ada, build(version="0.2.0"), visibility="public"), 409, "visibility_conflict")
    assert publish(ada, build(version="0.2.0")).status_code == 201
    ada.patch("/api/v1/packages/ada/gsm-env", json={"visibility": "public"})
    assert hub.anybody().get("/api/v1/packages/ada/gsm-env").json()["latest_version"] == "0.2.0"


def test_publishing_under_anothers_account_is_forbidden(hub: Site, ada: TestClient) -> None:
    eve = hub.user("eve")
    refused(begin(eve, build(), owner="ada"), 403, "forbidden")
    refused(begin(hub.anybody(), build(), owner="ada"), 401, "unauthorized")
    refused(begin(eve, build(), owner="nobody"), 404, "not_found")


def test_blobs_of_a_refused_upload_are_not_served(hub: Site, ada: TestClient) -> None:
    built = with_wheel(b"hello")
    publish(ada, built)
    digest = sha256_hex(b"hello")
    assert ada.get(f"/ada/files/{digest[:16]}/{built.wheel.name}").status_code == 404
