"""The port between a call and the bytes of an endpoint's requests and answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sandlot.models.endpoint import Endpoint
from sandlot.models.model import Completion
from sandlot.records import JsonObject, Message, Sampling, Tool


class Dialect(ABC):
    """One form of requests and answers."""

    path: str
    """What follows the endpoint's address."""

    @abstractmethod
    def request(
        self, endpoint: Endpoint, messages: Sequence[Message], *, tools: Sequence[Tool], sampling: Sampling
    ) -> bytes:
        """The body of a request. `Error` when a message cannot be written as JSON."""

    @abstractmethod
    def completion(self, endpoint: Endpoint, body: JsonObject) -> Completion | None:
        """The completion in an answer's body, or None where it has no choice at all.

        `ValueError` says what is wrong where there is a choice that is no completion.
        """
