"""Improves a policy on environments: config, controller and its stages, numerics, checkpoints.

The config and the presets need nothing installed beside the base; whatever needs torch is loaded when it is asked for.
"""

from __future__ import annotations

from sandlot.train.algorithms import PRESETS, Algorithm
from sandlot.train.config import EnvironmentConfig, TrainConfig

__all__ = ["PRESETS", "Algorithm", "EnvironmentConfig", "TrainConfig"]
