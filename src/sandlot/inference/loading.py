"""Loads a model folder: the module in float32 for the device it will run on, and its tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from sandlot.errors import Invalid
from sandlot.inference.products import use_fast_products

_untyped_logging: Any = transformers_logging


def default_device() -> torch.device:
    """The accelerator if there is one, else the CPU. The one place that chooses."""
    return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")


def load_module(
    folder: Path, *, device: torch.device | None = None, dtype: torch.dtype = torch.float32
) -> torch.nn.Module:
    """The causal language model in `folder`, in evaluation mode. `Invalid` if transformers cannot make one of it."""
    _untyped_logging.disable_progress_bar()
    loader: Any = AutoModelForCausalLM
    try:
        module, found = loader.from_pretrained(
            folder, dtype=dtype, attn_implementation="sdpa", output_loading_info=True
        )
    except Exception as error:
        # Boundary: files that anyone may have written, read by a library that raises whatever its readers raise.
        raise Invalid(f"{folder} cannot be loaded as a causal language model: {_first_line(error)}") from error
    # What has no weights would be drawn at random, with no more than a warning.
    absent = sorted({*found["missing_keys"], *(str(entry[0]) for entry in found["mismatched_keys"])})
    if absent:
        more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
        raise Invalid(
            f"{folder} has no fitting weights for {', '.join(absent[:3])}{more}: its config and weights differ"
        )
    placed: torch.nn.Module = module.to(device or default_device()).eval()
    return use_fast_products(placed)


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer in `folder`. `Invalid` if there is none."""
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    except Exception as error:
        # Boundary: as for the weights.
        raise Invalid(f"{folder} has no tokenizer that can be loaded: {_first_line(error)}") from error
    assert isinstance(tokenizer, PreTrainedTokenizerBase)
    return tokenizer


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
