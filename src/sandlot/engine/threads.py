"""Where blocking code of authors runs, so that it never holds up the event loop.

Invariants: at most `MAX_THREADS` calls that somebody waits for run at once; a call that nobody waits for any more,
because a limit ended the rollout, takes no place from others and does not hold up the end of the process.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from sandlot.engine.authors import AuthorRaised, authors_code

ResultT = TypeVar("ResultT")

MAX_THREADS = 512
"""More than asyncio's own pool has (cores + 4): a thread here mostly waits for a tool, not for a core."""


class _Call:
    """One call, and whoever waits for what comes of it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.future: Future[Any] = Future()
        self.is_given_up = False


class _Threads:
    """Threads that take calls in order. They are daemons, which `concurrent.futures` cannot make: Python waits for
    every other thread before it ends, and one that hangs in a tool would keep a finished run from ending."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[_Call] = deque()
        self._idle = 0
        self._starting = 0
        self._count = 0
        """Threads whose call, if they have one, somebody waits for."""
        self._numbers = itertools.count()

    def start(self, call: _Call) -> None:
        with self._changed:
            self._waiting.append(call)
            self._staff()

    def give_up(self, call: _Call) -> None:
        """Nobody waits for `call` any more. If it runs, its thread ends with it, and another one takes its place."""
        if call.future.cancel():
            return
        with self._changed:
            if not call.future.done():
                call.is_given_up = True
                self._count -= 1
                self._staff()

    def _staff(self) -> None:
        """Wakes or starts threads for the calls that wait. The lock is held."""
        self._changed.notify(len(self._waiting))
        while len(self._waiting) > self._idle + self._starting and self._count < MAX_THREADS:
            thread = threading.Thread(target=self._work, name=f"sandlot-author-{next(self._numbers)}", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # The system gives no more. Where there are some already, they will come to it.
                if not self._count:
                    raise
                return
            self._count += 1
            self._starting += 1

    def _work(self) -> None:
        with self._changed:
            self._starting -= 1
        while True:
            call = self._next()
            if not call.future.set_running_or_notify_cancel():
                continue
            result = call.function()
            with self._changed:
                call.future.set_result(result)
                if call.is_given_up:
                    return
            del call, result  # An idle thread is not to keep alive what an author returned.

    def _next(self) -> _Call:
        with self._changed:
            self._idle += 1
            try:
                while not self._waiting:
                    self._changed.wait()
                return self._waiting.popleft()
            finally:
                self._idle -= 1


_threads = _Threads()


async def in_thread(function: Callable[..., ResultT], *args: Any, **kwargs: Any) -> ResultT:
    """`function(*args, **kwargs)` in a thread, with the caller's context variables.

    Cancelling the wait does not end the thread: Python cannot. Its result is dropped.
    """
    context = contextvars.copy_context()

    # What is raised comes back as a value: a future would take StopIteration and CancelledError for its own signals,
    # and makes another exception, without its traceback, of a TimeoutError.
    def run() -> tuple[ResultT | None, BaseException | None]:
        try:
            return context.run(function, *args, **kwargs), None
        except BaseException as error:  # boundary: the author's code, in a thread that it is not to end
            return None, AuthorRaised(error) if isinstance(error, GeneratorExit) else error

    call = _Call(run)
    _threads.start(call)
    try:
        result, raised = await asyncio.wrap_future(call.future)
    except asyncio.CancelledError:
        _threads.give_up(call)
        raise
    with authors_code:
        if raised is not None:
            raise raised
    return result  # type: ignore[no-any-return]
