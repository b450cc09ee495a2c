"""What the engine is asked to play, and under which policy."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from sandlot.records import Task


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout that is asked for. (task.id, index) names it within a run."""

    task: Task
    index: int
    seed: int = 0


class PlayPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How rollouts are admitted and what happens when one breaks."""

    max_concurrent: int = 128
    """Rollouts in flight at once."""
    retries: int = 2
    """How often a rollout is played again after the endpoint, a sandbox, the network or its set-up failed."""
    scoring_retries: int = 1
    """How often scoring alone is tried again after it failed."""
    on_scoring_error: Literal["none", "zero"] = "none"
    """`zero` gives reward 0.0 where scoring failed; the failure stays on record."""
    max_tokens: int | None = None
    """The most tokens, prompt and completion of every call added up, that one rollout may use."""
    max_cost: float | None = None
    """US dollars that one rollout may cost. As with tokens, a call that is under way is finished."""
    max_seconds: float | None = None
    """Seconds that a rollout's play may take; where the playable has a limit too, the shorter one holds."""
    split: Literal["train", "eval"] = "eval"
    step: int | None = None


def seed_of(run_seed: int, task_id: str, index: int) -> int:
    """The seed of one rollout, 31 bits: the same for the same run seed, task and index on every machine."""
    digest = hashlib.sha256(f"{run_seed}\0{task_id}\0{index}".encode()).digest()
    return int.from_bytes(digest[:4], "big") & 0x7FFFFFFF
