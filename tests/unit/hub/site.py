"""A hub in this process, spoken to over HTTP."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import sqlalchemy as sa
from fastapi.testclient import TestClient
from tests.unit.hub.artefacts import Built, build, wheel_entries, zip_bytes

from sandlot import api
from sandlot.hub import Hub, Settings, create_app, open_hub
from sandlot.ids import new_id

START = 1_767_225_600.0
"""2026-01-01T00:00:00Z."""


@dataclass
class Clock:
    """A clock that moves when it is told to."""

    seconds: float = START

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Site:
    """A hub with a clock, and clients for its users."""

    hub: Hub
    app: Any
    clock: Clock
    clients: list[TestClient] = field(default_factory=list)

    def anybody(self) -> TestClient:
        client = TestClient(self.app, base_url="http://hub.test", raise_server_exceptions=False)
        self.clients.append(client)
        return client

    def secret(self, name: str, **wanted: Any) -> str:
        """A new key of a user who is there."""
        return self.hub.keys.create(name, api.KeyCreate(**wanted)).secret

    def user(self, name: str, **wanted: Any) -> TestClient:
        """A client with a key of a user, who is made if need be."""
        if not any(True for _ in self._known(name)):
            self.hub.accounts.create_user(name)
        return self.with_key(self.secret(name, **wanted))

    def with_key(self, secret: str) -> TestClient:
        client = self.anybody()
        client.headers["Authorization"] = f"Bearer {secret}"
        return client

    def _known(self, name: str) -> Iterator[str]:
        response = self.anybody().get(f"/api/v1/accounts/{name}")
        if response.status_code == 200:
            yield name


@cache
def _prepared() -> Path:
    """An empty hub with its schema, and a tiny wheel in the SDK's place: made once, since making takes its time."""
    folder = Path(tempfile.mkdtemp(prefix="sandlot-hub-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    open_hub(Settings(data_dir=folder / "data")).close()
    wheel = zip_bytes(wheel_entries("sandlot", "0.0.1"))
    (folder / "sandlot-0.0.1-py3-none-any.whl").write_bytes(wheel)
    return folder


def _database() -> str:
    """A new database where `SANDLOT_TEST_POSTGRES` names a server (`postgresql+psycopg://…`); else SQLite, by ''."""
    server = os.environ.get("SANDLOT_TEST_POSTGRES", "")
    if not server:
        return ""
    name = f"sandlot_{new_id()}"
    engine = sa.create_engine(f"{server}/postgres", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"create database {name}"))
    engine.dispose()
    return f"{server}/{name}"


@contextmanager
def site(folder: Path, **settings: Any) -> Iterator[Site]:
    """A hub on a folder; its SDK is a tiny stand-in unless `sdk_wheel` says otherwise (None: the real one)."""
    clock = Clock()
    settings.setdefault("sdk_wheel", _prepared())
    settings.setdefault("database_url", _database())
    if not folder.exists():
        shutil.copytree(_prepared() / "data", folder)
    app = create_app(Settings(data_dir=folder, **settings), now=clock)
    try:
        yield Site(app.state.hub, app, clock)
    finally:
        app.state.hub.close()


def begin(client: httpx.Client, built: Built, *, owner: str = "ada", **more: Any) -> httpx.Response:
    name = built.manifest.project.name
    body = {"manifest": built.json, **more}
    return client.post(f"/api/v1/packages/{owner}/{name}/uploads", json=body)


def send(client: httpx.Client, built: Built, upload: dict[str, Any]) -> None:
    for file in upload["files"]:
        if not file["present"]:
            client.put(file["url"], content=built.contents[file["sha256"]]).raise_for_status()


def publish(client: httpx.Client, built: Built, *, owner: str = "ada", **more: Any) -> httpx.Response:
    """The three steps; the answer is the commit's, or the first that was refused."""
    begun = begin(client, built, owner=owner, **more)
    if begun.status_code != 201:
        return begun
    send(client, built, begun.json())
    return client.post(f"/api/v1/uploads/{begun.json()['id']}/commit")


def published(client: httpx.Client, *versions: str, name: str = "gsm-env", owner: str = "ada", **more: Any) -> None:
    for version in versions:
        response = publish(client, build(name, version), owner=owner, **more)
        assert response.status_code == 201, response.text
