"""The hub without HTTP: its database, its blobs and its services, opened together.

Commands that work on a hub's own files use it as it is; the application serves it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from sandlot.errors import Failed
from sandlot.hub.accounts import Accounts, Keys, Sessions
from sandlot.hub.blobs import BlobStore, FileStore
from sandlot.hub.clock import Clock, stamp
from sandlot.hub.db import Database
from sandlot.hub.packages import Index, Limits, Packages, Publishing, Sdk
from sandlot.hub.permissions import Viewer
from sandlot.hub.runs.hub_runs import Figures, HubRuns
from sandlot.hub.runs.service import Runs
from sandlot.hub.settings import Settings


@dataclass(frozen=True, slots=True)
class Hub:
    """An open hub. `close` it when it is no longer needed."""

    settings: Settings
    db: Database
    blobs: BlobStore
    accounts: Accounts
    keys: Keys
    sessions: Sessions
    sdk: Sdk
    packages: Packages
    publishing: Publishing
    index: Index
    runs: Runs
    figures: Figures
    now: Clock

    def serve_sdk(self) -> None:
        """Takes in the wheel of sandlot that environments of this hub install. Done once, before serving."""
        self.sdk.install(self.settings.sdk_wheel, at=stamp(self.now()))

    def run_source(self, viewer: Viewer) -> HubRuns:
        """The runs that a viewer may see, as pages read them."""
        return HubRuns(self.runs, viewer=viewer, figures=self.figures)

    def close(self) -> None:
        """Closes the database."""
        self.db.close()


def open_hub(settings: Settings, *, now: Clock = time.time) -> Hub:
    """Opens a hub: makes its folder if need be and brings its database to the newest schema. An empty one works.

    `Failed` if the folder cannot be made.
    """
    try:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Failed(
            f"the hub's folder {settings.data_dir} cannot be used: {error.strerror}",
            hint="name one that you may write to: --data-dir FOLDER",
        ) from error
    db = Database(settings.database())
    db.migrate()
    blobs = FileStore(settings.data_dir / "blobs")
    limits = Limits(settings.max_unpacked_bytes, settings.max_archive_entries)
    sdk = Sdk(db, blobs, limits=limits)
    packages = Packages(db, blobs, sdk=sdk, limits=limits, now=now)
    return Hub(
        settings=settings,
        db=db,
        blobs=blobs,
        accounts=Accounts(db, now=now),
        keys=Keys(db, now=now),
        sessions=Sessions(db, now=now, days=settings.session_days),
        sdk=sdk,
        packages=packages,
        publishing=Publishing(db, blobs, packages=packages, settings=settings, now=now),
        index=Index(db, sdk=sdk, now=now),
        runs=Runs(db, blobs, settings=settings, now=now),
        figures=Figures(),
        now=now,
    )
