"""Event files of runs, as the store writes them."""

from __future__ import annotations

import gzip
from typing import Any

import httpx
import msgspec

from sandlot.ids import sha256_hex
from sandlot.records import (
    EnvironmentRef,
    Event,
    Reward,
    Rollout,
    RolloutEvent,
    Run,
    RunEvent,
    Task,
    Turn,
    Verdict,
    VerdictEvent,
    encode_event,
)

RUN_ID = "01ky0000000000000000000000"


def a_run(run_id: str = RUN_ID, **fields: Any) -> Run:
    defaults: dict[str, Any] = {"kind": "eval", "name": "gsm-env", "model": "scripted", "environments": []}
    return Run(id=run_id, **{**defaults, **fields})


def used(digest: str | None = None, **fields: Any) -> EnvironmentRef:
    return EnvironmentRef(id=fields.pop("id", "ada/gsm-env"), digest=digest, **fields)


def a_rollout(
    number: int, *, reward: float | None = 1.0, task: str | None = None, answer: str = "four", **fields: Any
) -> Rollout:
    verdict = None if reward is None else Verdict(reward=reward, rewards=[Reward(name="right", value=reward)])
    turn = Turn(prompt=[{"role": "user", "content": "2+2?"}], completion={"role": "assistant", "content": answer})
    return Rollout(
        id=f"r{number:05d}",
        task=Task(id=task or f"t{number}"),
        index=fields.pop("index", 0),
        environment="gsm-env",
        model="scripted",
        turns=[turn],
        verdict=verdict,
        **fields,
    )


def lines(*events: Event | Rollout | Run) -> bytes:
    """Events, rollouts and runs as the bytes of an event file."""
    wrapped = (
        RolloutEvent(rollout=event)
        if isinstance(event, Rollout)
        else RunEvent(run=event)
        if isinstance(event, Run)
        else event
        for event in events
    )
    return b"".join(encode_event(event) + b"\n" for event in wrapped)


def verdict(rollout: Rollout, reward: float) -> VerdictEvent:
    return VerdictEvent(rollout=rollout.id, verdict=Verdict(reward=reward))


def create(client: httpx.Client, run: Run, **more: Any) -> httpx.Response:
    return client.post("/api/v1/runs", json={"run": msgspec.to_builtins(run), **more})


def append(client: httpx.Client, content: bytes, *, offset: int = 0, run_id: str = RUN_ID, **headers: str) -> Any:
    sent = {"Idempotency-Key": f"sha256:{sha256_hex(content)}", "Content-Encoding": "gzip", **headers}
    body = gzip.compress(content) if sent["Content-Encoding"] == "gzip" else content
    return client.post(f"/api/v1/runs/{run_id}/batches", params={"offset": offset}, content=body, headers=sent)
