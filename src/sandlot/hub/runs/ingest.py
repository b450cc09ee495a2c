"""Takes in batches of events: all of a batch or nothing of it, each once, in order.

Invariants: `offset` is how many bytes of the producer's event file the hub has, and grows only by whole batches; the
same batch sent again changes nothing; every event was decoded before any of them counts; the last verdict on a rollout
wins, whichever batch it comes in.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import msgspec
import sqlalchemy as sa

from sandlot import api
from sandlot.errors import Invalid
from sandlot.hub.blobs import BlobStore
from sandlot.hub.clock import Clock, stamp
from sandlot.hub.db import Database, lock, upsert
from sandlot.hub.permissions import Viewer
from sandlot.hub.problems import problem
from sandlot.hub.runs.chunks import ChunkWriter, LineReader, Place, file_pieces, unpack_line
from sandlot.hub.runs.source import row_of
from sandlot.hub.runs.tables import batches, metrics, rollouts, runs
from sandlot.hub.settings import Settings
from sandlot.records import (
    Event,
    MetricsEvent,
    Rollout,
    RolloutEvent,
    Run,
    RunEvent,
    Verdict,
    VerdictEvent,
    check_finite,
    decode_event,
)

_SPOOL = 8 * 1024 * 1024
_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Batch:
    """What a producer sends: the bytes of its event file from `offset` on."""

    offset: int
    key: str | None
    """`sha256:…` of the uncompressed bytes."""
    chunks: Iterable[bytes]
    gzipped: bool = True


@dataclass(slots=True)
class _Taken:
    """A batch after it was read: what its events say, and the file in which they will be kept."""

    file: BinaryIO
    sha256: str = ""
    size: int = 0
    events: int = 0
    run: Run | None = None
    rollouts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Columns by rollout: a batch may hold more than fits into memory, its rows do not."""
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    judged: dict[str, dict[str, Any]] = field(default_factory=dict)
    """New columns of rollouts that came in earlier batches."""
    numbers: dict[tuple[int, str], tuple[float, float]] = field(default_factory=dict)


class Ingestion:
    """The way of events into a hub."""

    def __init__(self, db: Database, blobs: BlobStore, *, settings: Settings, now: Clock) -> None:
        self._db = db
        self._blobs = blobs
        self._settings = settings
        self._now = now

    def append(self, run: Mapping[str, Any], batch: Batch, *, viewer: Viewer) -> api.BatchReceipt:
        """Takes a batch of a run (a row of `runs`).

        Raises `batch_invalid`, `event_invalid`, `too_large`, `digest_mismatch`, and `offset_mismatch` where the batch
        does not begin where the hub is; the message says where that is.
        """
        announced = _announced(batch.key)
        with self._db.read() as connection:
            known = _known(connection, run["id"], batch.offset, sha256=announced)
        if known is not None:
            return known
        with tempfile.SpooledTemporaryFile(max_size=_SPOOL) as file:
            taken = self._read(run["id"], batch, file=file)  # type: ignore[arg-type]
            if taken.sha256 != announced:
                detail = f"the batch has the SHA-256 {taken.sha256}, its Idempotency-Key says {announced}"
                raise problem("digest_mismatch", detail)
            self._judge(run["id"], taken)
            chunk = self._blobs.put(file_pieces(taken.file)).sha256
            with self._db.write() as connection:
                lock(connection, runs.c.id, value=run["id"])
                known = _known(connection, run["id"], batch.offset, sha256=announced)
                return known or self._write(connection, run["id"], taken=taken, chunk=chunk, viewer=viewer)

    def _read(self, run_id: str, batch: Batch, *, file: BinaryIO) -> _Taken:
        limits = self._settings
        reader = LineReader(gzipped=batch.gzipped, max_batch=limits.max_batch_bytes, max_line=limits.max_line_bytes)
        taken, writer = _Taken(file), ChunkWriter(file)
        for number, line in enumerate(reader.lines(batch.chunks), start=1):
            try:
                _sort(taken, decode_event(line), place=writer.write(line), run_id=run_id)
            except (Invalid, RecursionError) as error:
                raise problem("event_invalid", f"line {number} of the batch: {error}") from None
            taken.events = number
        if not taken.events:
            raise problem("batch_invalid", "the batch is empty")
        taken.sha256, taken.size = reader.sha256, reader.size
        return taken

    def _judge(self, run_id: str, taken: _Taken) -> None:
        """Applies the verdicts. Rollouts are read for it, so it is done before the database is locked."""
        for rollout_id, verdict in taken.verdicts.items():
            columns = taken.rollouts.get(rollout_id)
            if columns is not None:
                taken.file.seek(columns["chunk_offset"])
                columns |= _columns(_rollout(taken.file.read(columns["chunk_length"])), verdict)
                continue
            where = (rollouts.c.run_id == run_id) & (rollouts.c.rollout_id == rollout_id)
            with self._db.read() as connection:
                row = connection.execute(sa.select(rollouts).where(where)).mappings().first()
            if row is None:
                raise problem("event_invalid", f"there is a verdict on {rollout_id}, which the run does not have")
            taken.judged[rollout_id] = _columns(stored_rollout(self._blobs, dict(row)), verdict)

    def _write(
        self, connection: sa.Connection, run_id: str, *, taken: _Taken, chunk: str, viewer: Viewer
    ) -> api.BatchReceipt:
        row = connection.execute(sa.select(runs).where(runs.c.id == run_id)).mappings().one()
        at, by = stamp(self._now()), viewer.account_id or row["created_by"]
        offset: int = row["offset"]
        added = self._write_rollouts(connection, run_id, first=row["rollouts"], taken=taken, chunk=chunk)
        for rollout_id, columns in taken.judged.items():
            where = (rollouts.c.run_id == run_id) & (rollouts.c.rollout_id == rollout_id)
            connection.execute(rollouts.update().where(where).values(**columns))
        for (step, name), (value, when) in taken.numbers.items():
            values = {"run_id": run_id, "step": step, "name": name, "value": value, "at": when}
            upsert(connection, metrics, values=values)
        changes: dict[str, Any] = {"offset": offset + taken.size, "rollouts": row["rollouts"] + added}
        if taken.run is not None:
            changes |= {"record": msgspec.to_builtins(taken.run), "status": taken.run.status, "name": taken.run.name}
        changes |= {"updated_at": at, "updated_by": by}
        connection.execute(runs.update().where(runs.c.id == run_id).values(**changes))
        kept = {"run_id": run_id, "offset": offset, "sha256": taken.sha256, "size": taken.size, "events": taken.events}
        connection.execute(batches.insert().values(**kept, chunk=chunk, created_at=at, created_by=by))
        return _receipt(kept, repeated=False)

    def _write_rollouts(self, connection: sa.Connection, run_id: str, *, first: int, taken: _Taken, chunk: str) -> int:
        mine = rollouts.c.run_id == run_id
        known = _present(connection, run_id, list(taken.rollouts))
        new: list[dict[str, Any]] = []
        for rollout_id, columns in taken.rollouts.items():
            values = {**columns, "chunk": chunk}
            if rollout_id in known:
                same = mine & (rollouts.c.rollout_id == rollout_id)
                connection.execute(rollouts.update().where(same).values(**values))
            else:
                new.append({"run_id": run_id, "seq": first + len(new), "rollout_id": rollout_id, **values})
        if new:
            connection.execute(rollouts.insert(), new)
        return len(new)


def stored_rollout(blobs: BlobStore, row: Mapping[str, Any]) -> Rollout:
    """The rollout of a row of `rollouts`, with its last verdict."""
    rollout = _rollout(blobs.bytes(row["chunk"], start=row["chunk_offset"], length=row["chunk_length"]))
    if row["verdict"] is None:
        return rollout
    return msgspec.structs.replace(rollout, verdict=msgspec.convert(row["verdict"], Verdict))


def _rollout(packed: bytes) -> Rollout:
    event = decode_event(unpack_line(packed))
    assert isinstance(event, RolloutEvent)
    return event.rollout


def _sort(taken: _Taken, event: Event, *, place: Place, run_id: str) -> None:
    check_finite(event)
    match event:
        case RunEvent():
            if event.run.id != run_id:
                raise Invalid(f"an event of the run {event.run.id} among those of {run_id}")
            taken.run = event.run
        case RolloutEvent():
            where = {"chunk_offset": place.offset, "chunk_length": place.length}
            taken.rollouts[event.rollout.id] = {**_columns(event.rollout, None), **where}
            taken.verdicts.pop(event.rollout.id, None)
        case VerdictEvent():
            taken.verdicts[event.rollout] = event.verdict
        case MetricsEvent():
            for name, value in event.values.items():
                taken.numbers[event.step, name] = (value, event.at)


def _columns(rollout: Rollout, verdict: Verdict | None) -> dict[str, Any]:
    judged = rollout if verdict is None else msgspec.structs.replace(rollout, verdict=verdict)
    row = row_of(judged)
    columns = {name: getattr(row, name) for name in row.__struct_fields__ if name != "id"}
    return {**columns, "verdict": None if verdict is None else msgspec.to_builtins(verdict)}


def _present(connection: sa.Connection, run_id: str, ids: list[str]) -> set[str]:
    """Which of the rollouts the run has already. Asked in parts: a statement has room for some 30,000 values."""
    found: set[str] = set()
    for start in range(0, len(ids), _AT_ONCE):
        some = rollouts.c.rollout_id.in_(ids[start : start + _AT_ONCE])
        query = sa.select(rollouts.c.rollout_id).where((rollouts.c.run_id == run_id) & some)
        found.update(connection.execute(query).scalars())
    return found


def _announced(key: str | None) -> str:
    kind, _, digest = (key or "").partition(":")
    if kind != "sha256" or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        hint = "send Idempotency-Key: sha256:<hex of the uncompressed bytes>"
        raise problem("batch_invalid", f"the Idempotency-Key {key!r} is not the digest of a batch", hint=hint)
    return digest


def _known(connection: sa.Connection, run_id: str, offset: int, *, sha256: str) -> api.BatchReceipt | None:
    """The receipt of a batch that the hub has already; None if it is the next one. `offset_mismatch` else."""
    here = connection.execute(sa.select(runs.c.offset).where(runs.c.id == run_id)).scalar_one()
    if offset == here:
        return None
    where = (batches.c.run_id == run_id) & (batches.c.offset == offset)
    row = connection.execute(sa.select(batches).where(where)).mappings().first()
    if row is not None and row["sha256"] == sha256:
        return _receipt(dict(row), repeated=True)
    said = "it had other bytes there" if row is not None else "batches come in order"
    hint = f"go on from {here}; if the file was rewritten, push it as a new run"
    raise problem("offset_mismatch", f"the batch begins at {offset}, the hub is at {here}; {said}", hint=hint)


def _receipt(row: Mapping[str, Any], *, repeated: bool) -> api.BatchReceipt:
    return api.BatchReceipt(
        sha256=row["sha256"],
        offset=row["offset"],
        next_offset=row["offset"] + row["size"],
        events=row["events"],
        repeated=repeated,
    )
