"""A training run from its config to a trained model on disk.

Invariants: what can be known to be wrong is refused before the first rollout; however the run ends, its folder says
how; Ctrl-C leaves a checkpoint of the last step that was learned.
"""

from __future__ import annotations

import asyncio
import copy
import importlib.metadata
import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import torch

from sandlot.engine import Playable
from sandlot.errors import Conflict, Invalid, SandlotError
from sandlot.ids import new_id
from sandlot.inference import (
    ChatTokens,
    PolicyModel,
    TorchSampler,
    default_device,
    end_ids,
    load_module,
    load_tokenizer,
    resolve,
)
from sandlot.records import EnvironmentRef, Run, RunEvent, RunStatus
from sandlot.store import EVENTS, RunFolder
from sandlot.train.checkpoints import newest_checkpoint
from sandlot.train.config import TrainConfig
from sandlot.train.controller import Controller, Roles
from sandlot.train.export import export_merged
from sandlot.train.learner import Learner
from sandlot.train.progress import Progress, Silent

MERGED = "merged"
"""The folder of a run in which the trained model lies."""

_MAY_DIFFER = ("name", "steps", "eval", "checkpoint", "limits", "export")
"""Settings with which a run may be taken up again. None changes which tasks come next, and limits have to give way
where a run ended because of one."""

_SAME_CODE = ("owner", "version", "digest")
"""What must be equal of an environment, or the order of the tasks that is on record would be that of others."""


async def run_training(
    config: TrainConfig,
    playables: Mapping[str, Playable],
    *,
    folder: Path,
    progress: Progress | None = None,
    refs: Sequence[EnvironmentRef] = (),
) -> Run:
    """Trains, and gives the run as it ended. `folder` is new, or one of an earlier life that is then taken up.

    `playables` are the environments by their ids in `config`; `refs` say for the record which code they are. `Conflict`
    if the folder's run had other settings; `Failed` if training cannot go on. When it is cancelled it saves, and goes
    on being cancelled.
    """
    progress = progress or Silent()
    missing = [env.id for env in config.env if env.id not in playables]
    if missing:
        raise Invalid(f"the environment {missing[0]} was not loaded")
    progress.phase(f"loading {config.model}", None)
    base = resolve(config.model)
    roles = build_roles(config, base)
    record = _open(folder, config, refs)
    status: RunStatus = "failed"
    message: str | None = None
    try:
        controller = Controller(
            config,
            roles,
            playables={env.id: playables[env.id] for env in config.env},
            folder=record,
            progress=progress,
        )
        await _train(controller, progress)
        if config.export == "merged":
            progress.phase("writing the model", None)
            await asyncio.to_thread(export_merged, roles.learner.model, base=base, to=folder / MERGED)
        status, message = "done", controller.early
    except (asyncio.CancelledError, KeyboardInterrupt):
        status, message = "interrupted", "stopped; the same command takes it up again"
        raise
    except BaseException as error:  # boundary: the run. What ends it is put on record and goes on its way.
        message = f"{type(error).__name__}: {error}"
        raise
    finally:
        with suppress(SandlotError):  # A disk that is full refuses this too; what ended the run already says so.
            record.append(RunEvent(run=_ended(record, status, message)))
        final = record.run
        record.close()
        await roles.policy.close()
    return final


def build_roles(config: TrainConfig, base: Path) -> Roles:
    """The learner on the model in `base`, and a sampler: of the same module when synchronous, else of a copy."""
    device = default_device()
    module = load_module(base, device=device)
    shared = config.limits.max_staleness == 0
    own = int(getattr(module.config, "max_position_embeddings", 0)) or config.context_length
    # A length that was asked for is passed on, so that the sampler can refuse it; the default follows the model.
    context = config.limits.context_length or min(own, config.context_length)
    sampler = TorchSampler(
        module if shared else copy.deepcopy(module),
        context_length=context,
        max_rows=config.limits.max_concurrent,
    )
    learner = Learner(
        module,
        algorithm=config.algorithm,
        optimiser=config.optimiser,
        temperature=config.sampling.temperature,
        device=device,
    )
    tokens = ChatTokens(load_tokenizer(base), end_ids=end_ids(module))
    policy = PolicyModel(sampler, tokens, name=config.model, max_tokens=config.sampling.max_tokens)
    return Roles(learner=learner, sampler=sampler, policy=policy, shared=shared)


async def _train(controller: Controller, progress: Progress) -> None:
    checkpoint = newest_checkpoint(controller.folder.path)
    if checkpoint is not None:
        progress.phase(f"taking up the run after step {checkpoint.step}", None)
        await asyncio.to_thread(controller.take_up, checkpoint)
    try:
        await controller.run()
    finally:
        if controller.config.checkpoint.at_end and controller.step > controller.saved:
            progress.phase(f"saving the checkpoint of step {controller.step}", None)
            controller.save()


def _open(folder: Path, config: TrainConfig, refs: Sequence[EnvironmentRef]) -> RunFolder:
    run = Run(
        id=new_id(),
        kind="train",
        name=config.name or "+".join(ref.name or ref.id for ref in refs) or "+".join(env.id for env in config.env),
        environments=list(refs) or [EnvironmentRef(id=env.id, args=env.args) for env in config.env],
        model=config.model,
        config=config.model_dump(mode="json"),
        seed=config.seed,
        started=_now(),
        sdk=importlib.metadata.version("sandlot"),
        host={
            "python": platform.python_version(),
            "system": platform.system(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "torch": str(torch.__version__),
        },
    )
    if not (folder / EVENTS).exists():
        return RunFolder.create(folder, run)
    record = RunFolder.resume(folder)
    try:
        before = record.run
        _check_same(before, run)
        record.append(RunEvent(run=msgspec.structs.replace(run, id=before.id, started=before.started)))
    except BaseException:
        record.close()
        raise
    return record


def _check_same(before: Run, now: Run) -> None:
    if before.kind != now.kind:
        raise Conflict(f"the folder holds a run of kind {before.kind}", hint="choose another folder")
    names = [name for name in now.config if name not in _MAY_DIFFER]
    wrong = [
        f"{name} was {before.config.get(name)!r} and is {now.config[name]!r}"
        for name in names
        if before.config.get(name) != now.config[name]
    ]
    if not wrong:
        wrong = [
            f"{ref.id} had {name} {getattr(old, name)} and has {getattr(ref, name)}"
            for old, ref in zip(before.environments, now.environments, strict=True)
            for name in _SAME_CODE
            if getattr(old, name) != getattr(ref, name)
        ]
    if wrong:
        raise Conflict(
            f"the folder's run had other settings: {'; '.join(wrong)}",
            hint="start it in another folder, or with the settings that it had",
        )


def _ended(record: RunFolder, status: RunStatus, message: str | None) -> Run:
    metrics = record.metrics()
    evals = [event for event in metrics if any(name.startswith("eval/") for name in event.values)]
    summary: dict[str, object] = {"steps": metrics[-1].step if metrics else 0}
    for when, event in (("before", evals[:1]), ("after", evals[-1:])):
        if event:
            values = {name: value for name, value in event[0].values.items() if name.startswith("eval/")}
            summary[when] = {"step": event[0].step, **values}
    return msgspec.structs.replace(record.run, status=status, message=message, ended=_now(), summary=summary)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
