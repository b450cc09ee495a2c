"""Improves a policy on environments: config, controller and its stages, numerics, checkpoints.

The config and the presets need nothing installed beside the base; whatever needs torch loads when it is asked for.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from sandlot.errors import MissingDependency
from sandlot.train.algorithms import PRESETS, Algorithm
from sandlot.train.config import EnvironmentConfig, TrainConfig
from sandlot.train.progress import Progress

if TYPE_CHECKING:
    from sandlot.train.run import run_training

__all__ = ["PRESETS", "Algorithm", "EnvironmentConfig", "Progress", "TrainConfig", "run_training"]


def __getattr__(name: str) -> Any:
    if name != "run_training":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if "torch" not in sys.modules:
        # Threads that spin while they wait for each other starve whatever else runs on two cores: measured on the
        # learner, 200 s instead of 16 for one step. Read when torch loads.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        # heavy: torch, transformers and numpy load here, and nowhere else in this unit.
        return importlib.import_module("sandlot.train.run").run_training
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("sandlot"):
            raise
        raise MissingDependency(
            f"training needs {error.name}, which is not installed", hint="pip install 'sandlot[train]'"
        ) from error
