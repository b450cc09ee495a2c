"""Fakes that behave like the real thing, for the tests of environments and of sandlot itself."""

from sandlot.testing.faults import Fault
from sandlot.testing.mock_server import MockServer
from sandlot.testing.script import Answer, Answers, OutOfAnswers
from sandlot.testing.scripted_model import Call, ScriptedModel

__all__ = ["Answer", "Answers", "Call", "Fault", "MockServer", "OutOfAnswers", "ScriptedModel"]
