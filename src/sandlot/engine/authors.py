"""The boundary to what authors wrote: whatever their code raises becomes an exception that can be caught and kept.

Invariants: `KeyboardInterrupt`, a cancellation and the closing of a coroutine go through as they are; everything else
leaves as an `Exception`, and none as one that a future or a generator takes for a signal of its own; making a failure
of an exception never raises, whatever its text does.
"""

from __future__ import annotations

import asyncio
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

from sandlot.errors import Error, MissingDependency, ModelError
from sandlot.records import Failure, storable_text

_TRACEBACK_LIMIT = 20_000
"""Characters of a traceback that are kept: the end, where the cause stands."""

_SIGNALS = (KeyboardInterrupt, asyncio.CancelledError, GeneratorExit)
_OURS = str(Path(__file__).resolve().parents[1])
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


class AuthorRaised(Exception):
    """Carries what an author's code raised and is no ordinary exception, such as `SystemExit` or `StopIteration`."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__(f"{type(raised).__name__}: {text_of_error(raised)}")
        self.raised = raised


class _AuthorsCode:
    """A block in which an author's code runs: it raises an `Exception`, or one of the signals."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, _SIGNALS):
            return
        if not isinstance(error, Exception) or isinstance(error, StopIteration | StopAsyncIteration):
            raise AuthorRaised(error) from error


authors_code = _AuthorsCode()


def raised_by(error: BaseException) -> BaseException:
    """What the author's code raised, where `error` only carries it."""
    return error.raised if isinstance(error, AuthorRaised) else error


def text_of_error(error: BaseException) -> str:
    """The text of an exception, also where it raises when it is asked for it."""
    try:
        with authors_code:
            return storable_text(str(error))
    except Exception as other:  # boundary: the author's __str__
        return f"its text cannot be told: __str__ raised {type(other).__name__}"


def failure_of(error: BaseException, boundary: str) -> Failure:
    """An exception as data. An `Error` knows its own boundary; anything else failed at `boundary`."""
    error = raised_by(error)
    trace = "".join(traceback.format_exception(error))
    remedy = f" ({error.hint})" if isinstance(error, MissingDependency) and error.hint else ""
    return Failure(
        boundary=error.boundary if isinstance(error, Error) and error.boundary != "environment" else boundary,
        type=storable_text(type(error).__name__),
        message=text_of_error(error) + remedy,
        traceback=storable_text(trace[-_TRACEBACK_LIMIT:]),
        status=error.status if isinstance(error, ModelError) else None,
    )


def place_of(error: BaseException) -> str:
    """File and line of the innermost frame that is neither Sandlot's nor a library's, as `my_env.py:12`, or nothing."""
    frames = [
        frame
        for frame in traceback.extract_tb(raised_by(error).__traceback__)
        if not frame.filename.startswith((_OURS, "<", *_LIBRARIES))
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
