"""The client of a hub: its resources as attributes."""

from __future__ import annotations

from types import TracebackType

from sandlot.client.accounts import Accounts
from sandlot.client.connection import Connection
from sandlot.client.credentials import key_for
from sandlot.client.packages import Packages
from sandlot.client.runs import Runs
from sandlot.client.settings import hub_origin


class HubClient:
    """Talks to one hub. A context manager, so that its sockets are closed.

    `origin` is the hub (default: `$SANDLOT_HUB`, else the setting), `key` an API key (default: the one kept for that
    hub, if any), `timeout` the seconds that one request may take.
    """

    def __init__(self, origin: str | None = None, *, key: str | None = None, timeout: float = 60.0) -> None:
        origin = hub_origin(origin)
        self.connection = Connection(origin, key=key or key_for(origin), timeout=timeout)
        self.packages = Packages(self.connection)
        self.runs = Runs(self.connection)
        self.accounts = Accounts(self.connection)

    @property
    def origin(self) -> str:
        """The hub's address."""
        return self.connection.origin

    def close(self) -> None:
        """Closes its sockets."""
        self.connection.close()

    def __enter__(self) -> HubClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
