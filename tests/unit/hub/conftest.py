"""A hub for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.unit.hub.site import Site, site


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path / "hub") as opened:
        yield opened


@pytest.fixture
def ada(hub: Site) -> TestClient:
    """A user who may do everything with her own things."""
    every = ["account:admin", "package:admin", "package:delete"]
    scopes = ["account:read", "package:read", "package:publish", "package:yank", "run:read", "run:write", *every]
    return hub.user("ada", scopes=scopes)
