"""The forms in which endpoints take requests and give answers."""

from sandlot.models.dialects.chat import CHAT
from sandlot.models.dialects.dialect import Dialect

__all__ = ["CHAT", "Dialect"]
