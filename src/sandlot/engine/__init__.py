"""Plays anything that keeps the `Playable` port."""

from sandlot.engine.playable import Limits, Playable
from sandlot.engine.state import State

__all__ = ["Limits", "Playable", "State"]
