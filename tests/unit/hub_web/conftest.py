"""Run folders that look real, and the pages over them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests import pages_fixture

from sandlot.hub.web import view_app


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evaluation, a training and an interrupted evaluation."""
    folder = tmp_path_factory.mktemp("outputs")
    pages_fixture.write_all(folder)
    return folder


@pytest.fixture(scope="session")
def client(root: Path) -> Iterator[TestClient]:
    """A browser without script, looking at `sandlot view`."""
    with TestClient(view_app(root), base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client
