"""Runs a coroutine for a command, so that Ctrl-C ends it in order.

The first Ctrl-C cancels the work and lets it clean up; more of them only say what is being waited for, until the third
gives up on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from sandlot.cli.errors import INTERRUPTED
from sandlot.cli.output import Output
from sandlot.engine import authors_code, raised_by, text_of_error
from sandlot.envs import Environment

ResultT = TypeVar("ResultT")

_PATIENCE = 3


def run_async(work: Coroutine[Any, Any, ResultT], out: Output, *, saved: str = "") -> ResultT:
    """The result of `work`. Ctrl-C raises `KeyboardInterrupt` after its clean-up; `saved` says what is kept then."""
    return asyncio.run(_guarded(work, out, saved))


def prints_aside() -> contextlib.AbstractContextManager[object]:
    """While it is entered, what an author prints goes to stderr, wherever it is printed: stdout is for results."""
    return contextlib.redirect_stdout(sys.stderr)


async def close_environment(environment: Environment, out: Output) -> None:
    """Runs the environment's tear-down. One that fails is warned of: what was measured before stays."""
    try:
        with authors_code:
            await environment.playable.close()
    except Exception as error:  # boundary: the author's tear-down
        raised = raised_by(error)
        out.warn(f"the environment's tear-down raised {type(raised).__name__}: {text_of_error(raised)}")


async def _guarded(work: Coroutine[Any, Any, ResultT], out: Output, saved: str) -> ResultT:
    task = asyncio.ensure_future(work)
    pressed = 0

    def interrupt() -> None:
        nonlocal pressed
        pressed += 1
        if pressed == 1:
            out.say("stopping and cleaning up" + (f"; {saved}" if saved else ""))
            task.cancel()
        elif pressed < _PATIENCE:
            out.say("still cleaning up; once more leaves it undone")
        else:
            out.say("left before the clean-up was done: sandboxes and servers of this run may still be there")
            os._exit(INTERRUPTED)

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupt)
    loop.add_signal_handler(signal.SIGTERM, interrupt)
    try:
        return await task
    except asyncio.CancelledError:
        if pressed:
            raise KeyboardInterrupt from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)
