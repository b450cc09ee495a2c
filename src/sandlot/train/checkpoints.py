"""Checkpoints: `checkpoints/step_N/` with weights, optimiser, controller and, written last, a manifest of hashes.

Invariants: a checkpoint whose manifest is missing, or does not fit its files, does not exist, so one that was cut short
by `kill -9` leaves the older one in force; an older one is removed only after a newer one is whole and on disk; no file
runs code when it is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from sandlot.errors import Failed, Invalid
from sandlot.store import write_atomic
from sandlot.train.learner import Learner

FOLDER = "checkpoints"
_MANIFEST = "manifest.json"
_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole checkpoint."""

    path: Path
    step: int

    def controller(self) -> dict[str, Any]:
        """What the controller left: the task order's state and the draws to play again."""
        state: dict[str, Any] = json.loads((self.path / "controller.json").read_text(encoding="utf-8"))
        return state

    def restore(self, learner: Learner) -> None:
        """Puts weights and optimiser into `learner`. `Invalid` if they are another model's."""
        weights = load_file(self.path / "model.safetensors")
        load_weights(learner.model, weights)
        learner.load_state(load_file(self.path / "optimiser.safetensors"))


def save_checkpoint(run: Path, learner: Learner, *, controller: Mapping[str, Any], keep_last: int) -> Checkpoint:
    """Writes the checkpoint of the learner's last update under `run`, and removes all but the newest `keep_last`.

    `Failed` if the disk refuses; older checkpoints are then as they were.
    """
    path = run / FOLDER / f"step_{learner.updates}"
    try:
        if path.exists():
            shutil.rmtree(path)
        path.mkdir(parents=True)
        weights = {name: parameter.detach().contiguous() for name, parameter in learner.model.named_parameters()}
        save_file(weights, path / "model.safetensors")
        save_file(
            {name: tensor.contiguous() for name, tensor in learner.state().items()}, path / "optimiser.safetensors"
        )
        (path / "controller.json").write_text(json.dumps(dict(controller)), encoding="utf-8")
        files = {file.name: _entry(file) for file in sorted(path.iterdir())}
        manifest = {"schema": _SCHEMA, "step": learner.updates, "files": files}
        write_atomic(path / _MANIFEST, json.dumps(manifest, indent=2).encode())
    except OSError as error:
        shutil.rmtree(path, ignore_errors=True)
        raise Failed(
            f"{path} cannot be written: {error.strerror or error}", hint="check the disk's space and the permissions"
        ) from error
    for older in _numbered(run)[keep_last:]:
        shutil.rmtree(older[1], ignore_errors=True)
    return Checkpoint(path, learner.updates)


def newest_checkpoint(run: Path) -> Checkpoint | None:
    """The newest checkpoint under `run` that is whole, or None."""
    for step, path in _numbered(run):
        if problem_with(path) is None:
            return Checkpoint(path, step)
    return None


def problem_with(path: Path) -> str | None:
    """Why `path` is no whole checkpoint, or None if it is one. Reads and hashes every file."""
    try:
        manifest = json.loads((path / _MANIFEST).read_text(encoding="utf-8"))
        if manifest["schema"] != _SCHEMA:
            return f"its schema is {manifest['schema']}; this sandlot reads {_SCHEMA}"
        for name, entry in manifest["files"].items():
            if (path / name).stat().st_size != entry["size"] or _sha256(path / name) != entry["sha256"]:
                return f"{name} is not what the manifest says"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"its manifest cannot be read: {error}"
    return None


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Puts `weights` into the parameters of `model` by name. `Invalid` if they do not fit, with nothing changed."""
    own = dict(model.named_parameters())
    wrong = sorted(set(own) ^ set(weights))
    wrong += sorted(name for name in set(own) & set(weights) if own[name].shape != weights[name].shape)
    if wrong:
        raise Invalid(f"the checkpoint is of another model: {', '.join(wrong[:3])} differ")
    for name, parameter in own.items():
        parameter.data.copy_(weights[name])


def _numbered(run: Path) -> list[tuple[int, Path]]:
    """What looks like a checkpoint, newest first."""
    found = [
        (int(path.name.removeprefix("step_")), path)
        for path in (run / FOLDER).glob("step_*")
        if path.name.removeprefix("step_").isdigit()
    ]
    return sorted(found, reverse=True)


def _entry(file: Path) -> dict[str, Any]:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return {"size": file.stat().st_size, "sha256": _sha256(file)}


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
