"""A Model you call; endpoints and their registry; dialects."""

from sandlot.models.model import Completion, Model, Prior

__all__ = ["Completion", "Model", "Prior"]
