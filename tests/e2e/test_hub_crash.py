"""A hub that is killed in the middle of its work, and started again."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx
import pytest
from tests.e2e.live import live_hub, running_hub
from tests.unit.hub.artefacts import build
from tests.unit.hub.events import RUN_ID, a_rollout, a_run, append, create, lines
from tests.unit.hub.site import begin, send, site

_BATCHES = [lines(*(a_rollout(40 * n + i, answer="word " * 500) for i in range(40))) for n in range(60)]


def client(url: str, key: str) -> httpx.Client:
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=30)


def send_from(ada: httpx.Client, start: int) -> None:
    """Sends the batches from byte `start` of the event file on, as a producer that resumes does."""
    offset = 0
    for batch in _BATCHES:
        if offset >= start:
            assert append(ada, batch, offset=offset).status_code == 201
        offset += len(batch)


@pytest.mark.parametrize("after", [0.05, 0.4])
def test_a_run_loses_nothing_when_the_hub_is_killed_while_batches_come_in(tmp_path: Path, after: float) -> None:
    with site(tmp_path / "hub") as made:
        made.hub.accounts.create_user("ada")
        key = made.secret("ada", expires_in_days=3650)
    with running_hub(tmp_path / "hub") as (url, server), client(url, key) as ada:
        assert create(ada, a_run()).status_code == 201
        threading.Timer(after, server.kill).start()
        with pytest.raises(httpx.TransportError):
            send_from(ada, 0)
        server.wait(20)
    with live_hub(tmp_path / "hub") as url, client(url, key) as ada:
        there = ada.get(f"/api/v1/runs/{RUN_ID}").json()
        sizes = [sum(len(batch) for batch in _BATCHES[:n]) for n in range(len(_BATCHES) + 1)]
        assert there["offset"] in sizes
        assert there["rollouts"] == 40 * sizes.index(there["offset"])
        send_from(ada, there["offset"])
        assert ada.get(f"/api/v1/runs/{RUN_ID}").json()["rollouts"] == 2400
        assert ada.get(f"/api/v1/runs/{RUN_ID}/events").content == b"".join(_BATCHES)


def test_an_upload_goes_on_after_the_hub_was_killed_between_its_steps(tmp_path: Path) -> None:
    built = build()
    with site(tmp_path / "hub") as made:
        made.hub.accounts.create_user("ada")
        key = made.secret("ada", expires_in_days=3650)
    with running_hub(tmp_path / "hub") as (url, server), client(url, key) as ada:
        begun = begin(ada, built).json()
        sdist = {**begun, "files": begun["files"][1:]}
        send(ada, built, sdist)
        server.kill()
        server.wait(20)
    with live_hub(tmp_path / "hub") as url, client(url, key) as ada:
        assert ada.get("/api/v1/packages/ada/gsm-env").status_code == 404
        wheel = built.manifest.files[0]
        path = f"/api/v1/uploads/{begun['id']}"
        ada.put(f"{path}/files/{wheel.sha256}", content=built.wheel_bytes).raise_for_status()
        assert ada.post(f"{path}/commit").status_code == 201
        assert ada.get("/api/v1/packages/ada/gsm-env").json()["latest_version"] == "0.1.0"
