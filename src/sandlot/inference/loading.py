"""Loads a model folder: the module in float32 for the device it will run on, and its tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from sandlot.errors import Invalid

_untyped_logging: Any = transformers_logging


def default_device() -> torch.device:
    """The accelerator if there is one, else the CPU. The one place that chooses."""
    return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")


def load_module(
    folder: Path, *, device: torch.device | None = None, dtype: torch.dtype = torch.float32
) -> torch.nn.Module:
    """The causal language model in `folder`, in evaluation mode. `Invalid` if transformers cannot make one of it."""
    _untyped_logging.disable_progress_bar()
    try:
        module: torch.nn.Module = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa")
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise Invalid(f"{folder} cannot be loaded as a causal language model: {_first_line(error)}") from error
    return module.to(device or default_device()).eval()


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer in `folder`. `Invalid` if there is none."""
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise Invalid(f"{folder} has no tokenizer that can be loaded: {_first_line(error)}") from error
    assert isinstance(tokenizer, PreTrainedTokenizerBase)
    return tokenizer


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
