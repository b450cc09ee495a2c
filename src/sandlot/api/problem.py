"""What an error looks like on the wire (RFC 9457)."""

from __future__ import annotations

from sandlot.api.wire import Answer

PROBLEM_TYPE = "application/problem+json"


class Problem(Answer):
    """A problem document. `code` is stable: programs branch on it, people read `detail` and `hint`."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
    hint: str | None = None
    """What to do about it, usually a command."""
