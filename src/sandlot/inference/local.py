"""Models that run in this process: `local:FOLDER`, `local:smollm2-135m`, `local:owner/name`.

Invariant: the weights of a folder are loaded once for the process, however many models are connected to them.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

from sandlot.errors import Invalid
from sandlot.inference.loading import load_module, load_tokenizer
from sandlot.inference.policy import PolicyModel
from sandlot.inference.tokens import ChatTokens
from sandlot.inference.torch_sampler import TorchSampler
from sandlot.inference.weights import Progress, resolve
from sandlot.models import Model

_log = logging.getLogger("sandlot.inference")
_MAX_TOKENS = 512
"""A small model that has lost the thread goes on until something stops it: at 8,192 tokens that is minutes on a CPU."""
_OPTIONS = {"context_length", "max_rows", "max_tokens", "cache_bytes", "name", "progress"}


_modules: dict[tuple[Path, int], tuple[Any, ChatTokens]] = {}
_samplers: dict[tuple[Path, int, str], TorchSampler] = {}
_loading = threading.Lock()


def connect_local(rest: str, **options: Any) -> Model:
    """The model in the folder, or of the name, `rest`; fetched on first use, which is announced.

    Options: `context_length` (tokens; default the model's), `max_rows` (sequences decoded together, default 64),
    `cache_bytes` (default 2 GiB), `max_tokens` (of a completion that sets none, default 512; None is what the context
    leaves), `name`, `progress` (takes a line of text; default: the log). `NotFound`, `Invalid` or `Unreachable` where
    there is no such model.
    """
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise Invalid(
            f"a local model has no option {', '.join(unknown)}", hint=f"there are {', '.join(sorted(_OPTIONS))}"
        )
    if not rest:
        raise Invalid("local: names no model", hint="write local:smollm2-135m or local:./folder")
    progress: Progress = options.pop("progress", None) or _log.warning
    name, max_tokens = options.pop("name", None) or f"local:{rest}", options.pop("max_tokens", _MAX_TOKENS)
    folder = resolve(rest, progress=progress)
    sampler, tokens = _shared(folder, options)
    return _LocalModel(sampler, tokens, name=name, max_tokens=max_tokens)


def _shared(folder: Path, settings: dict[str, Any]) -> tuple[TorchSampler, ChatTokens]:
    """The sampler with these settings over the folder's module. A folder that was written anew is loaded anew."""
    written = max(file.stat().st_mtime_ns for file in folder.iterdir())
    with _loading:
        if (folder, written) not in _modules:
            module = load_module(folder)
            _modules[folder, written] = module, ChatTokens(load_tokenizer(folder), end_ids=end_ids(module))
        module, tokens = _modules[folder, written]
        key = (folder, written, repr(sorted(settings.items())))
        if key not in _samplers:
            _samplers[key] = TorchSampler(module, **settings)
        return _samplers[key], tokens


class _LocalModel(PolicyModel):
    async def close(self) -> None:
        """The weights stay for the other models of this process."""
        return


def end_ids(module: Any) -> list[int]:
    """The ids that the model's own generation settings end at."""
    generation = getattr(module, "generation_config", None)
    ids = getattr(generation, "eos_token_id", None)
    return [] if ids is None else [int(each) for each in (ids if isinstance(ids, list) else [ids])]
