"""Sends run folders to a hub: a finished one at once, a growing one while it is written.

Invariants: the folder is the spool, so nothing is lost while the hub is away; only whole lines are sent, in order, from
where the hub says it is; sending the same bytes again changes nothing, so a broken upload goes on where it stopped.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from sandlot.api import MAX_LINE_BYTES, RunInfo, Visibility
from sandlot.client.client import HubClient
from sandlot.errors import Conflict, Invalid, SandlotError, Unreachable
from sandlot.store import EVENTS, RunFolder

BATCH_BYTES = 4 * 1024 * 1024
"""Lines are gathered into batches of about this many bytes before compression."""

_LAST_REQUEST = 60.0
"""Seconds that a request which is under way at the deadline is waited for."""
_PAUSES = (1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class Pushed:
    """A run at the hub. `sent` and `total` are bytes of its event file: newly sent ones, and all that the hub has."""

    id: str
    owner: str
    url: str
    sent: int
    total: int


def push_run(
    client: HubClient,
    path: Path,
    *,
    owner: str | None = None,
    visibility: Visibility = "private",
    unpublished: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Pushed:
    """Sends what the hub lacks of the run folder `path`; `progress` is told the bytes it has and those of the file.

    `unpublished` lets through a run whose environment the hub does not have. Raises `NotFound` where there is no run,
    `Conflict` where the hub has more of it than the folder.
    """
    with RunFolder.open(path) as folder:
        run = folder.run
    info = client.runs.create(run, owner=owner, visibility=visibility, unpublished=unpublished)
    end = _send_from(client, info, path / EVENTS, progress)
    return Pushed(info.id, info.owner, info.url, end - info.offset, end)


def _send_from(client: HubClient, info: RunInfo, file: Path, progress: Callable[[int, int], None]) -> int:
    size, offset = file.stat().st_size, info.offset
    if offset > size:
        raise Conflict(
            f"the hub has {offset} bytes of run {info.id} and {file} has {size}: it is not the same run any more",
            hint="push it from the folder that it was written in",
        )
    progress(offset, size)
    for lines in read_batches(file, offset):
        receipt = client.runs.send_batch(info.id, lines, offset=offset)
        offset = receipt.next_offset
        progress(offset, max(size, offset))
    return offset


def read_batches(file: Path, offset: int) -> Iterator[bytes]:
    """The whole lines of `file` from byte `offset`, in batches of about `BATCH_BYTES`. A torn last line is left."""
    with file.open("rb") as handle:
        handle.seek(offset)
        gathered: list[bytes] = []
        width = 0
        for line in handle:
            if not line.endswith(b"\n"):
                break
            if len(line) > MAX_LINE_BYTES:
                raise Invalid(
                    f"{file} has a line of {len(line)} bytes at byte {handle.tell() - len(line)}; "
                    f"a hub takes {MAX_LINE_BYTES}"
                )
            if gathered and width + len(line) > BATCH_BYTES:
                yield b"".join(gathered)
                gathered, width = [], 0
            gathered.append(line)
            width += len(line)
        if gathered:
            yield b"".join(gathered)


class Spool:
    """Sends a run folder in a thread while it is being written, and the rest when it is closed.

    A hub that is away is asked again, ever more rarely. Whatever else the hub refuses ends the sending and stands in
    `problem`; the run is not disturbed, and `sandlot run push` sends it later.
    """

    def __init__(
        self,
        client: HubClient,
        path: Path,
        *,
        owner: str | None = None,
        visibility: Visibility = "private",
        unpublished: bool = False,
        interval: float = 2.0,
        last_words: float = 20.0,
    ) -> None:
        """`interval` is the pause between two looks at the folder, `last_words` how long closing waits for a hub that
        is away: seconds."""
        self._client = client
        self._path = path
        self._owner, self._visibility, self._unpublished = owner, visibility, unpublished
        self._interval, self._last_words = interval, last_words
        self._closing = threading.Event()
        self._deadline = math.inf
        self._thread = threading.Thread(target=self._run, name="sandlot-spool", daemon=True)
        self.pushed: Pushed | None = None
        """How far the hub is."""
        self.problem: SandlotError | None = None
        """Why the hub does not have everything, where that is so."""

    def __enter__(self) -> Spool:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> Pushed | None:
        """Sends what is left and ends the thread. Returns how far the hub is; None if it has nothing of the run."""
        self._deadline = time.monotonic() + self._last_words
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(self._last_words + _LAST_REQUEST)
            if self._thread.is_alive():
                self.problem = Unreachable(f"{self._client.origin} did not take the rest of the run in time")
        return self.pushed

    def _run(self) -> None:
        failures = 0
        while True:
            last = self._closing.is_set()
            try:
                if (self._path / EVENTS).exists():
                    self.pushed = push_run(
                        self._client,
                        self._path,
                        owner=self._owner,
                        visibility=self._visibility,
                        unpublished=self._unpublished,
                    )
                failures, self.problem = 0, None
            except Unreachable as error:
                failures, self.problem = failures + 1, error
            except SandlotError as error:
                self.problem = error
                return
            if last and (not failures or time.monotonic() >= self._deadline):
                return
            if last:
                time.sleep(1.0)
            else:
                self._closing.wait(_PAUSES[min(failures, len(_PAUSES)) - 1] if failures else self._interval)
