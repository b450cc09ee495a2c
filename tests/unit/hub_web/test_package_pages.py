"""The pages of packages and accounts, over a whole hub."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests import pages_packages
from tests.unit.hub.site import START, Site, publish

from sandlot.hub import Settings, create_app

SCOPES = ["account:read", "package:read", "package:publish", "package:yank", "run:read", "package:admin"]
PASSWORD = "correct horse battery"


def _site(folder: Path) -> Site:
    app = create_app(Settings(data_dir=folder), now=lambda: START)
    return Site(app.state.hub, app, lambda: START)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A hub with a package in four versions, three more packages, one of them private."""
    site = _site(tmp_path_factory.mktemp("hub"))
    site.hub.accounts.create_user("ada", password=PASSWORD)
    ada = site.user("ada", scopes=SCOPES)
    pages_packages.fill(ada)
    url = "/api/v1/packages/ada/catalogue/releases/0.3.0/yank"
    ada.put(url, json={"reason": "It counted <b>twice</b>."}).raise_for_status()
    yield site
    site.hub.close()


@pytest.fixture
def anybody(hub: Site) -> TestClient:
    return hub.anybody()


def test_an_empty_hub_shows_the_commands_that_fill_it(tmp_path: Path) -> None:
    site = _site(tmp_path / "hub")
    client = site.anybody()
    text = client.get("/").text
    for command in ("sandlot login --hub http://hub.test", "sandlot env init", "sandlot env push"):
        assert command in text
    assert "No environments yet" in client.get("/environments").text
    site.hub.close()


def test_the_list_shows_what_anybody_may_see_and_no_more(anybody: TestClient) -> None:
    text = anybody.get("/environments").text
    assert "Questions about a catalogue" in text
    assert "sentence-env" in text
    assert "wordle-env" not in text
    assert "wordle-env" not in anybody.get("/environments.json").text


@pytest.mark.parametrize(
    ("query", "there", "gone"),
    [
        ("q=letter", "reverse-text", "sentence-env"),
        ("tag=starter", "sentence-env", ">ada / catalogue"),
        ("owner=nobody", "Nothing matches", "reverse-text"),
    ],
)
def test_the_list_is_searched_and_narrowed(anybody: TestClient, query: str, there: str, gone: str) -> None:
    text = anybody.get(f"/environments?{query}").text
    assert there in text
    assert gone not in text


def test_facets_say_how_many_they_lead_to(anybody: TestClient) -> None:
    text = anybody.get("/environments").text
    assert re.search(r'href="\?tag=starter">starter <span class="nums">2</span>', text)


@pytest.mark.parametrize("query", ["sort=beauty", "cursor=junk"])
def test_a_list_that_cannot_be_made_says_why(anybody: TestClient, query: str) -> None:
    answer = anybody.get(f"/environments?{query}")
    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("text/html")


def test_a_package_says_how_to_install_it_with_each_tool(anybody: TestClient) -> None:
    text = anybody.get("/ada/catalogue").text
    assert "sandlot env install ada/catalogue@0.3.1" in text
    assert re.search(r"pip install &#34;catalogue @ http://hub\.test/\S+#sha256=[0-9a-f]{64}&#34;", text)
    assert "uv pip install" in text


def test_a_package_is_seen_at_a_glance(anybody: TestClient) -> None:
    text = anybody.get("/ada/catalogue").text
    for words in ("at most 6", "train 1,200, test 200", "search_catalogue", "CATALOGUE_KEY", "exact_amount", "metric"):
        assert words in text
    assert "declared by the publisher" in text


def test_the_readme_is_rendered_and_its_links_stay_in_the_package(anybody: TestClient) -> None:
    text = anybody.get("/ada/catalogue").text
    assert "<h2>Quick start</h2>" in text
    assert 'href="/ada/catalogue/source/data/tasks.jsonl"' in text
    assert '<span class="kn">import</span>' in text
    assert "<img" not in text
    assert text.count(">catalogue</h1>") == 0


def test_a_yanked_version_is_marked_with_its_reason_which_stays_text(anybody: TestClient) -> None:
    versions = anybody.get("/ada/catalogue/versions").text
    assert 'class="yanked"' in versions
    assert "It counted &lt;b&gt;twice&lt;/b&gt;." in versions
    page = anybody.get("/ada/catalogue?version=0.3.0").text
    assert "0.3.0 was yanked" in page
    assert "The latest is" in page


def test_files_are_named_with_size_and_hash(anybody: TestClient) -> None:
    text = anybody.get("/ada/catalogue").text
    wheel = anybody.get("/ada/catalogue.json").json()["latest"]["files"][0]
    assert wheel["name"] in text
    assert f'data-copy="{wheel["sha256"]}"' in text
    address = re.search(r'href="([^"]+\.whl)"', text)
    assert address is not None
    assert anybody.get(address.group(1)).status_code == 200


def test_sample_tasks_stand_as_the_model_sees_them(anybody: TestClient) -> None:
    text = anybody.get("/ada/catalogue/tasks").text
    assert "What do 3 lanterns cost together?" in text
    assert "1 for the right amount, to the cent." in text


def test_source_is_read_with_a_link_to_every_line(anybody: TestClient) -> None:
    assert "data/tasks.jsonl" in anybody.get("/ada/catalogue/source").text
    text = anybody.get("/ada/catalogue/source/catalogue.py").text
    assert '<tr id="L6">' in text
    assert '<span class="nf">exact_amount</span>' in text
    assert anybody.get("/ada/catalogue/source/nope.py").status_code == 404


@pytest.mark.parametrize("path", ["/ada/wordle-env", "/ada/nothing", "/nobody", "/ada/catalogue?version=9.9"])
def test_what_may_not_be_seen_looks_like_what_is_not_there(anybody: TestClient, path: str) -> None:
    answer = anybody.get(path)
    assert answer.status_code == 404
    assert "There is nothing here" in answer.text
    assert "Log in" in answer.text


def test_errors_of_the_interface_for_programs_stay_problem_documents(anybody: TestClient) -> None:
    for path in ("/api/v1/packages/ada/nothing", "/api/v1/nothing", "/ada/simple/nothing/", "/ada/nothing.json"):
        answer = anybody.get(path)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json", path


def _log_in(client: TestClient, password: str = PASSWORD, **more: str) -> int:
    form = {"name": "ada", "password": password, **more}
    return client.post("/login", data=form, follow_redirects=False).status_code


def test_logging_in_shows_what_is_private_and_logging_out_hides_it_again(anybody: TestClient) -> None:
    assert _log_in(anybody) == 303
    page = anybody.get("/environments").text
    assert "wordle-env" in page
    csrf = re.search(r'name="csrf" value="([^"]+)"', page)
    assert csrf is not None
    assert anybody.post("/logout", data={"csrf": "wrong"}).status_code == 403
    assert anybody.post("/logout", data={"csrf": csrf.group(1)}).status_code == 200
    assert "wordle-env" not in anybody.get("/environments").text


def test_a_wrong_password_shows_the_form_again_and_says_so(anybody: TestClient) -> None:
    answer = anybody.post("/login", data={"name": "ada", "password": "wrong", "next": "/runs"})
    assert answer.status_code == 401
    assert "the name or the password is wrong" in answer.text
    assert 'value="ada"' in answer.text
    assert 'value="/runs"' in answer.text
    assert "set-cookie" not in answer.headers


def test_whoever_guesses_is_told_to_wait(hub: Site, anybody: TestClient) -> None:
    hub.hub.accounts.create_user("eve", password=PASSWORD)
    answers = [anybody.post("/login", data={"name": "eve", "password": str(n)}) for n in range(30)]
    assert answers[0].status_code == 401
    assert answers[-1].status_code == 429
    assert "wait" in answers[-1].text


@pytest.mark.parametrize("next", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"])
def test_logging_in_never_leads_away_from_the_hub(anybody: TestClient, next: str) -> None:
    form = {"name": "ada", "password": PASSWORD, "next": next}
    assert anybody.post("/login", data=form, follow_redirects=False).headers["location"] == "/"


def test_a_form_from_elsewhere_is_refused(anybody: TestClient) -> None:
    form = {"name": "ada", "password": PASSWORD}
    for origin in ("https://evil.example", "null", "https://hub.test.evil.example"):
        answer = anybody.post("/login", data=form, headers={"Origin": origin})
        assert answer.status_code == 403
        assert "which is not this hub" in answer.text


@pytest.mark.parametrize("origin", ["http://hub.test", "https://hub.test"])
def test_a_form_of_the_hub_itself_is_taken_also_behind_a_proxy_that_ends_tls(anybody: TestClient, origin: str) -> None:
    form = {"name": "ada", "password": PASSWORD}
    assert anybody.post("/login", data=form, headers={"Origin": origin}, follow_redirects=False).status_code == 303


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(anybody: TestClient) -> None:
    form = {"name": "ada", "password": PASSWORD}
    cookie = anybody.post("/login", data=form, follow_redirects=False).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie


HOSTILE = """# hostile

<script>alert(1)</script><img src=x onerror=alert(2)><iframe src="https://evil.example"></iframe>
<a href="javascript:alert(3)" onclick="alert(4)">x</a> [y](javascript:alert(5)) [z](data:text/html;base64,PHNjcmlwdD4=)
[up](../../../api/v1/me) [root](/logout) [host](//evil.example/x) ![p](https://tracker.example/p.gif)
<form action="/logout"><input name=q><button>go</button></form><style>body{display:none}</style>
<span class="primary" style="position:fixed">s</span><svg onload=alert(6)></svg><p id="keys">id</p>
<details open ontoggle=alert(7)><summary>d</summary></details>

```python
print("<script>alert(8)</script>")
```
"""


def test_a_hostile_readme_is_harmless(hub: Site, anybody: TestClient) -> None:
    ada = hub.user("ada", scopes=SCOPES)
    built = pages_packages.built("hostile-env", "0.1.0", readme=HOSTILE, summary="<script>alert(0)</script>")
    publish(ada, built, visibility="public").raise_for_status()
    text = anybody.get("/ada/hostile-env").text
    readme = re.search(r'<article class="readme">(.*?)</article>', text, re.DOTALL)
    assert readme is not None
    shown = readme.group(1)
    for words in ("<script", "<img", "<iframe", "<form", "<input", "<style", "<svg", "onclick", "onerror", "ontoggle"):
        assert words not in shown
    for words in ('href="javascript', 'href="data:', "style=", 'class="primary"', "id=", 'href="/logout', "api/v1"):
        assert words not in shown
    assert 'href="//' not in shown
    assert 'href="https://tracker.example/p.gif"' in shown
    assert "<script>alert(0)" not in text + anybody.get("/environments").text
