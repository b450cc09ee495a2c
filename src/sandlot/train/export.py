"""A trained policy as an ordinary Hugging Face folder.

Invariant: the folder appears whole or not at all, and holds whatever the base model's folder held beside its weights,
so that tokenizer and chat template are those that the policy was trained with.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from sandlot.errors import Failed

_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth", ".h5", ".msgpack", ".onnx", ".index.json")

_ORIGIN = "source.json"
"""Says where the base model's weights came from, which is not true of other weights."""


def export_merged(model: Any, *, base: Path, to: Path) -> Path:
    """Writes `model` to `to`, replacing what was there; `base` is the folder that it was loaded from.

    `Failed` if the disk refuses.
    """
    beside = to.with_name(f".{to.name}.partial")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        for file in base.iterdir():
            if file.is_file() and not file.name.endswith(_WEIGHTS) and file.name != _ORIGIN:
                shutil.copy(file, beside / file.name)
        model.save_pretrained(beside)
        shutil.rmtree(to, ignore_errors=True)
        beside.rename(to)
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise Failed(f"the model cannot be written to {to}: {error.strerror or error}") from error
    return to
