"""Accounts, keys, organisations and sessions: who may do what, and what a bad credential is answered."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from tests.unit.hub.artefacts import build
from tests.unit.hub.site import Site, begin, publish, published

from sandlot import api
from sandlot.errors import Conflict, Invalid, SandlotError
from sandlot.hub.accounts.tables import accounts, audit
from sandlot.hub.db import metadata


def refused(answer: Any, status: int, code: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text


def test_a_key_says_who_it_speaks_for(hub: Site) -> None:
    me = hub.user("ada", scopes=["run:write"]).get("/api/v1/me").json()
    assert (me["account"]["name"], me["scopes"], me["owners"]) == ("ada", ["run:write"], ["ada"])
    refused(hub.anybody().get("/api/v1/me"), 401, "unauthorized")


@pytest.mark.parametrize(
    "header", ["Bearer slk_nonsense", "Basic !!!", "Basic YWRhOnNlY3JldA==", "Digest x", "Bearer slk_ü"]
)
def test_a_bad_credential_is_refused_on_the_api_with_a_code(hub: Site, header: str) -> None:
    for path in ("/api/v1/me", "/api/v1/packages"):
        answer = hub.anybody().get(path, headers={b"Authorization": header.encode("latin-1")})
        refused(answer, 401, "key_invalid")
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_an_expired_and_a_revoked_key_are_refused_with_their_own_codes(hub: Site) -> None:
    ada = hub.user("ada", expires_in_days=1)
    assert ada.get("/api/v1/me").status_code == 200
    hub.clock.seconds += 86400
    refused(ada.get("/api/v1/me"), 401, "key_expired")
    other = hub.user("ada")
    key_id = next(key["id"] for key in other.get("/api/v1/keys").json()["items"] if key["expires_at"] is None)
    assert other.delete(f"/api/v1/keys/{key_id}").status_code == 204
    refused(other.get("/api/v1/me"), 401, "key_invalid")


def test_a_key_without_the_scope_is_told_which_it_lacks(hub: Site) -> None:
    hub.hub.accounts.create_user("ada")
    reader = hub.with_key(hub.secret("ada", scopes=["package:read"]))
    answer = begin(reader, build())
    refused(answer, 403, "scope_missing")
    assert "package:publish" in answer.json()["detail"]


def test_a_key_that_is_bound_to_an_owner_does_nothing_elsewhere(hub: Site, ada: TestClient) -> None:
    ada.post("/api/v1/organisations", json={"name": "acme"}).raise_for_status()
    bound = hub.with_key(hub.secret("ada", owner="acme"))
    assert publish(bound, build(), owner="acme").status_code == 201
    refused(begin(bound, build(), owner="ada"), 403, "owner_restricted")
    published(ada, "0.1.0", name="mine")
    assert bound.get("/api/v1/packages/ada/mine").status_code == 404
    assert bound.get("/api/v1/me").json()["owners"] == ["acme"]


def test_a_key_gives_no_more_than_it_has(hub: Site) -> None:
    hub.hub.accounts.create_user("ada")
    narrow = hub.with_key(hub.secret("ada", scopes=["account:admin", "package:read"]))
    refused(narrow.post("/api/v1/keys", json={"scopes": ["package:publish"]}), 403, "scope_missing")
    made = narrow.post("/api/v1/keys", json={"name": "ci", "scopes": ["package:read"], "expires_in_days": 7}).json()
    assert (made["scopes"], made["expires_at"]) == (["package:read"], "2026-01-08T00:00:00.000000Z")
    assert hub.with_key(made["secret"]).get("/api/v1/me").status_code == 200
    plain = hub.with_key(hub.secret("ada", scopes=["package:read"]))
    refused(plain.post("/api/v1/keys", json={"scopes": ["package:read"]}), 403, "scope_missing")
    refused(narrow.post("/api/v1/keys", json={"scopes": ["all"]}), 422, "scope_unknown")


def test_no_secret_stands_in_the_database(hub: Site) -> None:
    hub.hub.accounts.create_user("ada", password="correct horse")
    secret = hub.secret("ada")
    hub.hub.sessions.start(hub.hub.sessions.sign_in("ada", "correct horse"))
    with hub.hub.db.read() as connection:
        stored = str([connection.execute(table.select()).all() for table in metadata.sorted_tables])
    assert secret not in stored
    assert "correct horse" not in stored
    assert secret[:12] in stored


def test_a_password_gives_a_key_and_a_wrong_one_says_not_which_part_is_wrong(hub: Site) -> None:
    hub.hub.accounts.create_user("ada", password="correct horse")
    good = hub.anybody().post("/api/v1/login", json={"name": "ada", "password": "correct horse"})
    assert hub.with_key(good.json()["secret"]).get("/api/v1/me").json()["account"]["name"] == "ada"
    answers = [
        hub.anybody().post("/api/v1/login", json={"name": name, "password": "wrong"}) for name in ("ada", "nobody")
    ]
    for answer in answers:
        refused(answer, 401, "password_wrong")
    assert answers[0].json() == answers[1].json()
    hub.hub.accounts.create_user("keysonly")
    refused(hub.anybody().post("/api/v1/login", json={"name": "keysonly", "password": ""}), 401, "password_wrong")


def test_whoever_guesses_passwords_has_to_wait_and_others_do_not(hub: Site) -> None:
    for name in ("ada", "bob"):
        hub.hub.accounts.create_user(name, password="correct horse")

    def sign_in(name: str, password: str) -> Any:
        return hub.anybody().post("/api/v1/login", json={"name": name, "password": password})

    for _ in range(10):
        refused(sign_in("ada", "guess"), 401, "password_wrong")
    refused(sign_in("Ada", "correct horse"), 429, "too_many_attempts")
    assert sign_in("bob", "correct horse").status_code == 201
    hub.clock.seconds += 301
    assert sign_in("ada", "correct horse").status_code == 201


@pytest.mark.parametrize(
    ("name", "password", "code"),
    [
        ("Ada", None, "invalid"),
        ("a_b", None, "invalid"),
        ("x" * 40, None, "invalid"),
        ("", None, "invalid"),
        ("api", None, "name_reserved"),
        ("simple", None, "name_reserved"),
        ("static", None, "name_reserved"),
        ("ada", "short", "password_weak"),
    ],
)
def test_a_name_or_password_that_cannot_be_is_refused(hub: Site, *, name: str, password: str | None, code: str) -> None:
    with pytest.raises(Invalid) as caught:
        hub.hub.accounts.create_user(name, password=password)
    assert caught.value.code == code


def test_a_name_is_given_once_to_users_and_organisations_alike(hub: Site, ada: TestClient) -> None:
    with pytest.raises(Conflict):
        hub.hub.accounts.create_user("ada")
    refused(ada.post("/api/v1/organisations", json={"name": "ada"}), 409, "account_exists")
    with pytest.raises(SandlotError):
        hub.hub.keys.create("nobody")


@pytest.mark.parametrize(
    ("role", "publishes", "reads", "yanks"),
    [("owner", 201, 200, 200), ("maintainer", 201, 200, 200), ("member", 403, 200, 403), ("reader", 403, 200, 403)],
)
def test_a_role_in_an_organisation_says_what_a_member_may(
    hub: Site, ada: TestClient, *, role: str, publishes: int, reads: int, yanks: int
) -> None:
    ada.post("/api/v1/organisations", json={"name": "acme"}).raise_for_status()
    published(ada, "0.1.0", owner="acme")
    bob = hub.user("bob")
    assert bob.get("/api/v1/packages/acme/gsm-env").status_code == 404
    ada.put("/api/v1/organisations/acme/members/bob", json={"role": role}).raise_for_status()
    assert bob.get("/api/v1/packages/acme/gsm-env").status_code == reads
    assert begin(bob, build(version="0.2.0"), owner="acme").status_code == publishes
    assert bob.put("/api/v1/packages/acme/gsm-env/releases/0.1.0/yank", json={}).status_code == yanks
    refused(bob.delete("/api/v1/packages/acme/gsm-env/releases/0.1.0"), 403, "scope_missing")


def test_an_administrator_may_do_everything_within_a_keys_scopes(hub: Site, ada: TestClient) -> None:
    published(ada, "0.1.0")
    hub.hub.accounts.create_user("root-user", admin=True)
    admin = hub.with_key(hub.secret("root-user", scopes=["package:read", "package:yank"]))
    path = "/api/v1/packages/ada/gsm-env"
    assert admin.get(path).status_code == 200
    assert admin.get("/api/v1/packages").json()["items"][0]["name"] == "gsm-env"
    assert admin.put(f"{path}/releases/0.1.0/yank", json={"reason": "malware"}).json()["yanked"]
    refused(admin.delete(f"{path}/releases/0.1.0"), 403, "scope_missing")
    assert hub.with_key(hub.secret("root-user", scopes=["run:read"])).get(path).status_code == 404
    bound = hub.with_key(hub.secret("root-user", scopes=["package:read"], owner="root-user"))
    assert bound.get(path).status_code == 404


def test_members_are_seen_by_members_changed_by_owners_and_may_leave(hub: Site, ada: TestClient) -> None:
    ada.post("/api/v1/organisations", json={"name": "acme"}).raise_for_status()
    bob, url = hub.user("bob", scopes=["account:read", "account:admin"]), "/api/v1/organisations/acme/members"
    refused(bob.get(url), 404, "not_found")
    ada.put(f"{url}/bob", json={"role": "member"})
    assert {item["account"]: item["role"] for item in bob.get(url).json()["items"]} == {"ada": "owner", "bob": "member"}
    refused(bob.put(f"{url}/bob", json={"role": "owner"}), 403, "forbidden")
    refused(bob.delete(f"{url}/ada"), 403, "forbidden")
    refused(ada.delete(f"{url}/ada"), 409, "last_owner")
    refused(ada.put(f"{url}/ada", json={"role": "reader"}), 409, "last_owner")
    assert bob.delete(f"{url}/bob").status_code == 204
    refused(ada.delete(f"{url}/bob"), 404, "not_found")


def test_a_session_ends_when_it_is_ended_and_when_its_time_is_over(hub: Site) -> None:
    hub.hub.accounts.create_user("ada", password="correct horse")
    sessions = hub.hub.sessions
    viewer = sessions.sign_in("ADA", "correct horse")
    one, other = sessions.start(viewer), sessions.start(viewer)
    found = sessions.get(one.token)
    assert found is not None
    assert (found.viewer.name, found.csrf) == ("ada", one.csrf)
    assert one.csrf != other.csrf
    sessions.end(one.token)
    assert sessions.get(one.token) is None
    hub.clock.seconds += 31 * 86400
    assert sessions.get(other.token) is None
    assert sessions.get("nonsense") is None


def test_the_api_knows_nobody_by_a_cookie(hub: Site) -> None:
    hub.hub.accounts.create_user("ada", password="correct horse")
    session = hub.hub.sessions.start(hub.hub.sessions.sign_in("ada", "correct horse"))
    browser = hub.anybody()
    browser.cookies.set("sandlot_session", session.token)
    refused(browser.get("/api/v1/me"), 401, "unauthorized")


def test_what_was_done_is_written_to_the_audit_log_with_who_did_it(hub: Site, ada: TestClient) -> None:
    published(ada, "0.1.0")
    ada.put("/api/v1/packages/ada/gsm-env/releases/0.1.0/yank", json={"reason": "wrong"})
    with hub.hub.db.read() as connection:
        joined = sa.select(audit, accounts.c.name).outerjoin(accounts, audit.c.actor_id == accounts.c.id)
        rows = connection.execute(joined.order_by(audit.c.id)).mappings().all()
    assert [(row["action"], row["subject"], row["name"]) for row in rows[1:]] == [
        ("release.publish", "ada/gsm-env@0.1.0", "ada"),
        ("release.yank", "ada/gsm-env", "ada"),
    ]


def test_the_folder_of_the_data_is_its_owners_alone(hub: Site, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "hub").stat().st_mode) == 0o700
    assert api.DEFAULT_SCOPES[0] in api.SCOPES
