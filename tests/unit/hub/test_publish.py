"""Publishing over HTTP: what is taken, what is refused, and that nothing happens by half."""

from __future__ import annotations

from fastapi.testclient import TestClient
from tests.unit.hub.artefacts import build
from tests.unit.hub.site import Site, publish


def test_a_release_is_published_in_three_steps_and_read_back(hub: Site, ada: TestClient) -> None:
    built = build(tags=("maths",))
    answer = publish(ada, built, visibility="public")
    assert answer.status_code == 201, answer.text
    release = hub.anybody().get("/api/v1/packages/ada/gsm-env/releases/latest").json()
    assert release["digest"] == built.manifest.digest
    assert release["manifest"]["project"]["readme"].startswith("# gsm-env")
