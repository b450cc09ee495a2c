"""Runs and their rollouts on the wire.

A producer announces a run with `POST /runs`, then sends the bytes of its append-only event file in order, as batches of
whole lines: `POST /runs/{id}/batches?offset=N`, gzip, with `Idempotency-Key: sha256:<hex of the uncompressed bytes>`.
`RunInfo.offset` says how far the hub is, so that after a crash of either side the producer goes on from there.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sandlot.api.packages import Visibility
from sandlot.api.wire import Answer, Request
from sandlot.records import JsonObject, RunKind, RunStatus, Status

MAX_LINE_BYTES = 64 * 1024 * 1024
"""The longest event that a hub takes."""
MAX_BATCH_BYTES = 256 * 1024 * 1024
"""The largest batch, uncompressed."""


class RunCreate(Request):
    """Announces a run. Sent again with the same id it changes nothing."""

    run: JsonObject
    """A `records.Run` as JSON. Its id is the producer's and stays."""
    owner: str | None = None
    """The account that the run belongs to (default: the caller)."""
    visibility: Visibility = "private"
    unpublished: bool = False
    """Takes a run of an environment that the hub does not have. Such a run is not pinned to a release."""


class RunEnvironment(Answer):
    """An environment that a run used, as the hub knows it."""

    owner: str | None = None
    name: str
    version: str | None = None
    digest: str | None = None
    pinned: bool
    """Whether the digest is that of the named release: the run measured exactly this."""


class RunInfo(Answer):
    """A run as it stands."""

    id: str
    owner: str
    kind: RunKind
    name: str
    model: str = ""
    status: RunStatus
    visibility: Visibility
    environments: list[RunEnvironment] = Field(default_factory=list)
    offset: int
    """How many bytes of the event file the hub has."""
    rollouts: int = 0
    scored: int = 0
    mean_reward: float | None = None
    """Over the scored rollouts."""
    expected: int | None = None
    created_at: str
    created_by: str
    updated_at: str
    url: str
    """The page of the run."""
    run: JsonObject
    """The `records.Run`, as its last event has it."""


class RunPatch(Request):
    """Changes a run. What is absent stays."""

    visibility: Visibility | None = None


class BatchReceipt(Answer):
    """What became of a batch."""

    sha256: str
    offset: int
    """Where the batch begins."""
    next_offset: int
    """Where the next one has to begin."""
    events: int
    repeated: bool = False
    """Whether the hub had this batch already."""


class RolloutSummary(Answer):
    """One row of a run's rollouts."""

    id: str
    task_id: str
    index: int
    status: Status
    reward: float | None = None
    turns: int
    tokens: int | None = None
    seconds: float
    stop: str | None = None
    first_words: str = ""
    step: int | None = None
    split: Literal["train", "eval"] = "eval"
    environment: str = ""
    scores: dict[str, float] = Field(default_factory=dict)
    """Each reward's and metric's value by name, before weighting."""
    cost: float | None = None
