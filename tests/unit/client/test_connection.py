"""Requests, retries and errors."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from sandlot.api import KeyCreate, KeyCreated, Me
from sandlot.client import HubClient, normal_origin
from sandlot.client.connection import Connection
from sandlot.errors import Conflict, Failed, Forbidden, Invalid, NotFound, SandlotError, Unauthorized, Unreachable
from sandlot.ids import sha256_hex

from .conftest import Answer, ScriptedHub

ME = {"account": {"name": "ada", "kind": "user", "created_at": "2026-01-01"}, "scopes": [], "owners": ["ada"]}


def connection(hub: ScriptedHub, key: str | None = "slk_test", waits: list[float] | None = None) -> Connection:
    return Connection(hub.origin, key=key, sleep=(waits if waits is not None else []).append)


@pytest.mark.parametrize(
    ("given", "origin"),
    [
        ("https://hub.example.org", "https://hub.example.org"),
        ("https://Hub.Example.org:443/some/page", "https://hub.example.org"),
        ("hub.example.org", "https://hub.example.org"),
        ("localhost:7350", "http://localhost:7350"),
        ("127.0.0.1:7350/x", "http://127.0.0.1:7350"),
        ("http://[::1]:7350", "http://[::1]:7350"),
    ],
)
def test_an_address_is_reduced_to_its_origin(given: str, origin: str) -> None:
    assert normal_origin(given) == origin
    assert normal_origin(origin) == origin


@pytest.mark.parametrize("given", ["", "ftp://x", "http://", "https://a b", "http://x:99999999", "http://x:port"])
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(Invalid, match="is not the address of a hub"):
        normal_origin(given)


@pytest.mark.parametrize(
    ("status", "code", "family"),
    [
        (401, "key_expired", Unauthorized),
        (403, "scope_missing", Forbidden),
        (404, "not_found", NotFound),
        (409, "release_exists", Conflict),
        (413, "too_large", Invalid),
        (422, "version_invalid", Invalid),
        (500, "internal", Failed),
        (418, "odd", Failed),
    ],
)
def test_a_problem_document_becomes_the_error_of_its_family(
    hub: ScriptedHub, status: int, code: str, family: type[SandlotError]
) -> None:
    problem = {"title": "T", "status": status, "detail": "what is wrong", "code": code, "hint": "do this"}
    hub.answers["/api/v1/me"] = [Answer(status, problem, {"Content-Type": "application/problem+json"})]
    with pytest.raises(family) as caught:
        connection(hub).get("/me", Me)
    assert (caught.value.code, caught.value.message, caught.value.hint) == (code, "what is wrong", "do this")


def test_the_remedy_names_the_hub_and_where_a_refused_key_came_from(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hint(status: int, key: str | None) -> str:
        problem = {"title": "T", "status": status, "detail": "no", "code": "any", "hint": None}
        if status == 401:
            problem["hint"] = "sandlot login"
        hub.answers["/api/v1/me"] = [Answer(status, problem, {"Content-Type": "application/problem+json"})]
        with pytest.raises((Unauthorized, NotFound)) as caught:
            Connection(hub.origin, key=key).get("/me", Me)
        return str(caught.value.hint)

    sign_in = f"sandlot login --hub {hub.origin}"
    assert hint(401, None) == hint(401, "stale") == sign_in
    assert hint(404, None) == f"if it is private: {sign_in}"
    assert hint(404, "good") == "None"
    monkeypatch.setenv("SANDLOT_KEY", "stale")
    assert "SANDLOT_KEY" in hint(401, "stale")


def test_an_answer_that_is_no_hub_s_says_what_came_instead(hub: ScriptedHub) -> None:
    hub.answers["/api/v1/me"] = [Answer(200, b"<html>hello</html>", {"Content-Type": "text/html; charset=utf-8"})]
    with pytest.raises(Unreachable, match="answered with text/html"):
        connection(hub).get("/me", Me)
    hub.answers["/api/v1/me"] = [Answer(404, b"<html>no</html>", {"Content-Type": "text/html"})]
    with pytest.raises(Unreachable, match="HTTP 404"):
        connection(hub).get("/me", Me)


def test_fields_that_this_version_does_not_know_are_skipped(hub: ScriptedHub) -> None:
    hub.answers["/api/v1/me"] = [Answer(200, ME | {"shoe_size": 43})]
    assert connection(hub).get("/me", Me).account.name == "ada"


def test_a_hub_that_is_not_there_is_unreachable_with_the_remedy() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    waits: list[float] = []
    with pytest.raises(Unreachable, match="cannot be reached") as caught:
        Connection(f"http://127.0.0.1:{port}", sleep=waits.append).get("/me", Me)
    assert "sandlot hub serve" in str(caught.value.hint)
    assert len(waits) == 3


def test_a_get_is_repeated_while_the_hub_is_busy_and_waits_as_long_as_it_says(hub: ScriptedHub) -> None:
    busy = Answer(503, b"busy", {"Retry-After": "7"})
    hub.answers["/api/v1/me"] = [busy, busy, Answer(200, ME)]
    waits: list[float] = []
    assert connection(hub, waits=waits).get("/me", Me).account.name == "ada"
    assert len(hub.requests) == 3
    assert all(wait >= 7 for wait in waits)


def test_a_post_without_an_idempotency_key_is_made_once_and_one_with_it_again(hub: ScriptedHub) -> None:
    hub.answers["/api/v1/keys"] = [Answer(503, b"busy")]
    with pytest.raises(Unreachable):
        connection(hub).ask("POST", "/keys", KeyCreated, body=KeyCreate())
    assert len(hub.requests) == 1
    with pytest.raises(Unreachable):
        connection(hub).ask("POST", "/keys", KeyCreated, body=KeyCreate(), idempotency_key="once")
    assert len(hub.requests) == 5
    assert {headers["Idempotency-Key"] for _, _, headers, _ in hub.requests[1:]} == {"once"}


def test_the_key_goes_to_its_own_origin_only(hub: ScriptedHub, second_hub: ScriptedHub, tmp_path: Path) -> None:
    content = b"a wheel"
    hub.answers["/ada/files/a.whl"] = [Answer(200, content)]
    second_hub.answers["/ada/files/a.whl"] = [Answer(200, content)]
    made = connection(hub)
    for server in (hub, second_hub):
        made.fetch(f"{server.origin}/ada/files/a.whl", tmp_path / "a.whl", sha256=sha256_hex(content))
    assert hub.requests[0][2]["Authorization"] == "Bearer slk_test"
    assert "Authorization" not in second_hub.requests[0][2]


def test_a_redirect_elsewhere_is_not_followed_with_the_key(hub: ScriptedHub, second_hub: ScriptedHub) -> None:
    hub.answers["/api/v1/me"] = [Answer(307, b"", {"Location": f"{second_hub.origin}/api/v1/me"})]
    with pytest.raises(Unreachable, match="sends us on"):
        connection(hub).get("/me", Me)
    assert second_hub.requests == []


def test_a_download_with_another_digest_is_refused_and_not_kept(hub: ScriptedHub, tmp_path: Path) -> None:
    hub.answers["/ada/files/a.whl"] = [Answer(200, b"swapped")]
    with pytest.raises(Failed, match="is not what the hub's record says"):
        connection(hub).fetch(f"{hub.origin}/ada/files/a.whl", tmp_path / "a.whl", sha256=sha256_hex(b"a wheel"))
    assert not (tmp_path / "a.whl").exists()


def test_a_list_is_read_page_by_page(hub: ScriptedHub) -> None:
    row = {"owner": "ada", "name": "a", "visibility": "public", "updated_at": "2026-01-01"}
    hub.answers["/api/v1/packages"] = [
        Answer(200, {"items": [row], "next_cursor": "c1"}),
        Answer(200, {"items": [row | {"name": "b"}], "next_cursor": None}),
    ]
    with HubClient(hub.origin) as client:
        assert [each.name for each in client.packages.search(tag="math")] == ["a", "b"]
    assert [path for _, path, _, _ in hub.requests] == [
        "/api/v1/packages?tag=math",
        "/api/v1/packages?cursor=c1&tag=math",
    ]
