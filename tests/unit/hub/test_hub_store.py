"""The database, the settings and the committed description of the API."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import given, strategies as st
from packaging.version import Version
from tests.unit.hub.artefacts import build
from tests.unit.hub.site import Site, publish, published

from sandlot.errors import Conflict, Failed, Invalid, MissingDependency, Unreachable
from sandlot.hub import Settings, load_settings, open_hub, serve
from sandlot.hub.accounts.tables import accounts
from sandlot.hub.cursors import decode_cursor, encode_cursor
from sandlot.hub.db import Database, metadata
from sandlot.hub.http import MOST_BODY
from sandlot.hub.packages.names import well_known
from sandlot.hub.packages.versions import latest_of
from sandlot.hub.problems import CODES, problem, status_of

OPENAPI = Path(__file__).parents[3] / "docs" / "reference" / "openapi.json"


def test_the_committed_description_of_the_api_is_that_of_the_code(hub: Site) -> None:
    now = hub.app.openapi()
    assert json.loads(OPENAPI.read_text()) == now, f"write it anew: {OPENAPI.name} is what /api/openapi.json answers"


def test_the_migrations_make_exactly_the_tables_that_the_code_uses(hub: Site) -> None:
    with hub.hub.db.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_every_table_of_things_that_are_owned_says_by_whom_and_when() -> None:
    parts = {"upload_files", "run_environments", "rollouts", "run_metrics", "downloads", "sdk_files", "run_batches"}
    exempt = {"accounts", "members", "sessions", "audit", "api_keys"} | parts
    for table in metadata.tables.values():
        if table.name not in exempt:
            assert {"owner_id", "created_at", "created_by"} <= set(table.c.keys()), table.name


def _break_off(db: Database) -> None:
    with db.write() as connection:
        connection.execute(accounts.update().values(display_name="changed"))
        row = connection.execute(sa.select(accounts)).mappings().one()
        connection.execute(accounts.insert().values(**row))


def test_a_write_that_fails_leaves_nothing_behind(hub: Site) -> None:
    before = hub.hub.accounts.create_user("ada")
    with pytest.raises(sa.exc.IntegrityError):
        _break_off(hub.hub.db)
    assert hub.hub.accounts.get("ada") == before


def test_a_hub_is_opened_again_with_what_it_had(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "hub")
    first = open_hub(settings)
    made = first.accounts.create_user("ada")
    first.close()
    again = open_hub(settings)
    assert again.accounts.get("ada") == made
    again.close()


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("nonsense", Invalid),
        ("nonsense://x/y", Invalid),
        ("oracle+oracledb://x/y", MissingDependency),
        ("sqlite:////nowhere/at/all/hub.sqlite3", Unreachable),
    ],
)
def test_a_database_that_cannot_be_used_is_said_so(tmp_path: Path, *, url: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="database"):
        open_hub(Settings(data_dir=tmp_path, database_url=url))


def test_a_folder_that_cannot_be_made_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    for folder in (tmp_path / "file", tmp_path / "file" / "hub"):
        with pytest.raises(Failed, match="cannot be used") as caught:
            open_hub(Settings(data_dir=folder))
        assert str(folder) in caught.value.message
        assert "--data-dir" in (caught.value.hint or "")


def test_settings_come_from_a_file_then_variables_then_options(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text('port = 1\nhost = "10.0.0.1"\nallow_names = ["numpy"]\n')
    environ = {"SANDLOT_HUB_PORT": "2", "SANDLOT_HUB_DATA_DIR": "/srv/hub", "SANDLOT_HUB_URL": "other tool's"}
    settings = load_settings(file, [("port", "3")], environ=environ)
    assert (settings.port, settings.host, settings.data_dir) == (3, "10.0.0.1", Path("/srv/hub"))
    assert load_settings(file, environ=environ).port == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([("prot", "1")], "did you mean 'port'"),
        ([("port", "99999")], "port"),
        ([("public-url", "hub.example.org")], "public_url"),
        ([("public-url", "https://hub.example.org/sub/")], "public_url"),
    ],
)
def test_a_setting_that_cannot_be_is_named(options: list[tuple[str, str]], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        load_settings(None, options, environ={})


def test_packages_are_found_by_words_owner_and_tag(hub: Site) -> None:
    ada, bob = hub.user("ada"), hub.user("bob")
    publish(ada, build("gsm-env", tags=("Maths", "grade school")), visibility="public")
    publish(bob, build("word-env", tags=("games",)), owner="bob", visibility="public")
    hub.clock.seconds += 1
    published(bob, "0.1.0", name="hidden-env", owner="bob")

    def found(**query: object) -> list[str]:
        items = hub.anybody().get("/api/v1/packages", params=query).json()["items"]
        return [f"{item['owner']}/{item['name']}" for item in items]

    assert found(sort="name") == ["ada/gsm-env", "bob/word-env"]
    assert found(text="numbers GSM") == ["ada/gsm-env"]
    assert found(text="100%") == found(text="_") == []
    assert found(tag="maths") == ["ada/gsm-env"]
    assert found(tag="math") == []
    assert found(tag="grade school") == ["ada/gsm-env"]
    assert found(owner="bob") == ["bob/word-env"]
    assert [item["name"] for item in bob.get("/api/v1/packages", params={"owner": "bob"}).json()["items"]] == [
        "hidden-env",
        "word-env",
    ]


@pytest.mark.parametrize("sort", ["updated", "name", "downloads"])
def test_a_list_of_packages_is_paged_without_gap_or_repetition(hub: Site, sort: str) -> None:
    ada = hub.user("ada")
    for n in range(7):
        hub.clock.seconds += 1
        published(ada, "0.1.0", name=f"env-{n}", visibility="public")
    seen, query = [], {"sort": sort, "limit": 3}
    while True:
        page = hub.anybody().get("/api/v1/packages", params=query).json()
        seen += [item["name"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    expected = sorted(f"env-{n}" for n in range(7))
    assert seen == (expected if sort == "name" else expected[::-1])
    other = {"sort": "name" if sort != "name" else "updated", "cursor": query["cursor"]}
    assert hub.anybody().get("/api/v1/packages", params=other).json()["code"] == "bad_cursor"


@given(st.lists(st.integers() | st.text() | st.none(), max_size=4))
def test_a_cursor_gives_back_what_was_put_into_it(parts: list[int | str | None]) -> None:
    numbers = [part for part in parts if part is None or not isinstance(part, int) or abs(part) < 2**63]
    assert decode_cursor(encode_cursor(*numbers), *(type(part) for part in numbers)) == numbers


@given(st.text())
def test_a_cursor_that_nobody_gave_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        decode_cursor(text, str, int)
    assert caught.value.code == "bad_cursor"


versions = st.from_regex(r"\A[0-3](\.[0-9]{1,2}){0,2}((a|b|rc)[0-3])?(\.post[0-2])?(\.dev[0-2])?\Z")


@given(st.lists(versions, max_size=8, unique_by=Version))
def test_the_latest_is_the_highest_of_the_final_ones_else_of_all(some: list[str]) -> None:
    latest = latest_of((version, version) for version in some)
    if not some:
        assert latest is None
        return
    assert latest is not None
    final = [Version(version) for version in some if not Version(version).is_prerelease]
    assert Version(latest) == max(final or [Version(version) for version in some])


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_has_one_status_of_its_family(code: str) -> None:
    error = problem(code, "what is wrong", hint="what to do")
    assert (error.code, error.hint) == (code, "what to do")
    assert 400 <= status_of(error) < 500


def test_the_shipped_list_of_names_holds_what_environments_depend_on() -> None:
    assert len(well_known()) > 800
    assert {"numpy", "torch", "datasets", "openai", "pydantic", "typing-extensions", "verifiers"} <= well_known()


def test_an_unknown_path_and_a_wrong_method_are_problems_too(hub: Site) -> None:
    for answer, code in (
        (hub.anybody().get("/api/v1/nothing"), "not_found"),
        (hub.anybody().patch("/api/v1/me"), "method_not_allowed"),
    ):
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"] == code


def test_a_body_that_is_too_large_to_be_read_whole_is_refused(hub: Site) -> None:
    ada = hub.user("ada")
    answer = ada.post("/api/v1/keys", content=b" " * (MOST_BODY + 1), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def test_an_answer_that_the_client_has_already_is_not_sent_again(hub: Site) -> None:
    ada = hub.user("ada")
    published(ada, "0.1.0", visibility="public")
    path = "/api/v1/packages/ada/gsm-env"
    first = ada.get(path)
    again = ada.get(path, headers={"If-None-Match": f"W/{first.headers['etag']}"})
    assert (again.status_code, again.content) == (304, b"")
    published(ada, "0.2.0")
    assert ada.get(path, headers={"If-None-Match": first.headers["etag"]}).json()["latest_version"] == "0.2.0"
    assert "etag" not in ada.get("/api/v1/packages/ada/nothing").headers


def test_many_readers_and_writers_at_once_all_get_their_answer(hub: Site) -> None:
    ada = hub.user("ada")

    def work(n: int) -> tuple[int, int]:
        return publish(ada, build(f"env-{n % 4}", f"0.{n}.0")).status_code, ada.get("/api/v1/packages").status_code

    with ThreadPoolExecutor(12) as pool:
        assert set(pool.map(work, range(24))) == {(201, 200)}
    assert len(ada.get("/api/v1/packages").json()["items"]) == 4


def test_a_port_that_is_taken_is_said_so_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = Settings(data_dir=tmp_path, port=taken.getsockname()[1])
        with pytest.raises(Conflict, match=str(settings.port)):
            serve(settings, ready=lambda url: None)


def test_a_failure_of_the_hub_itself_says_nothing_of_its_insides(hub: Site) -> None:
    with hub.hub.db.write() as connection:
        connection.execute(sa.text("alter table packages rename to elsewhere"))
    broken = hub.anybody().get("/api/v1/packages")
    assert (broken.status_code, broken.json()["code"]) == (500, "internal")
    assert "packages" not in broken.json()["detail"]
