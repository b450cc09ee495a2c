"""A policy that is served: the sampler port, the torch engine, the OpenAI-compatible server.

Importing this imports neither torch nor transformers; the names that need them load when they are first asked for.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from sandlot.errors import MissingDependency
from sandlot.inference.config import ServeConfig
from sandlot.inference.policy import PolicyModel
from sandlot.inference.sampler import Sampled, Sampler, TokenSampling
from sandlot.inference.tokens import ChatTokens, Rendered
from sandlot.inference.weights import (
    ListedModel,
    PublishedModel,
    checked_folder,
    list_models,
    pull,
    resolve,
)

if TYPE_CHECKING:
    from sandlot.inference.loading import default_device, load_module, load_tokenizer
    from sandlot.inference.local import connect_local, end_ids
    from sandlot.inference.products import product, use_fast_products
    from sandlot.inference.server import PolicyServer, serve
    from sandlot.inference.torch_sampler import TorchSampler

__all__ = [
    "ChatTokens",
    "ListedModel",
    "PolicyModel",
    "PolicyServer",
    "PublishedModel",
    "Rendered",
    "Sampled",
    "Sampler",
    "ServeConfig",
    "TokenSampling",
    "TorchSampler",
    "checked_folder",
    "connect_local",
    "default_device",
    "end_ids",
    "list_models",
    "load_module",
    "load_tokenizer",
    "product",
    "pull",
    "resolve",
    "serve",
    "use_fast_products",
]

_HEAVY = {
    "PolicyServer": "server",
    "TorchSampler": "torch_sampler",
    "connect_local": "local",
    "default_device": "loading",
    "end_ids": "local",
    "load_module": "loading",
    "load_tokenizer": "loading",
    "product": "products",
    "serve": "server",
    "use_fast_products": "products",
}


def __getattr__(name: str) -> Any:
    module = _HEAVY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if "torch" not in sys.modules:
        # On cores that are shared with anything else, threads that spin while they wait for each other make every
        # parallel operation wait for a time slice: measured 8 ms instead of 1 for a softmax. Read when torch loads.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        # heavy: torch and transformers load here, and nowhere else in this unit.
        return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("sandlot"):
            raise
        raise MissingDependency(
            f"local models need {error.name}, which is not installed", hint="pip install 'sandlot[train]'"
        ) from error
