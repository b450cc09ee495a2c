"""A hub's stand-in: a real HTTP server whose answers a test writes down."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass
class Answer:
    status: int
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    private: bool = False


class ScriptedHub:
    """Answers each path with the answers that were laid out for it, the last one again and again."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = {}
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                hub.requests.append((self.command, self.path, dict(self.headers), body))
                laid_out = hub.answers.get(self.path.partition("?")[0], [Answer(404, b"nothing here")])
                answer = laid_out.pop(0) if len(laid_out) > 1 else laid_out[0]
                if answer.private and "Authorization" not in self.headers:
                    answer = Answer(404, b"")
                content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                default = "application/octet-stream" if isinstance(answer.body, bytes) else "application/json"
                for name, value in ({"Content-Type": default} | answer.headers).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, format: str, *args: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        self.origin = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def hub() -> Iterator[ScriptedHub]:
    server = ScriptedHub()
    yield server
    server.close()


@pytest.fixture
def second_hub() -> Iterator[ScriptedHub]:
    server = ScriptedHub()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDLOT_HOME", str(tmp_path_factory.mktemp("home")))
    for name in ("SANDLOT_HUB", "SANDLOT_KEY"):
        monkeypatch.delenv(name, raising=False)
