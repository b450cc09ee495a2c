"""The processes in which mathematical answers are compared.

Invariants: a comparison that outlives its limit is killed with its process and delays no other one; there are never
more processes than asked for; none outlives this one.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import selectors
import subprocess
import sys
import threading
import time
from pathlib import Path

from sandlot.errors import Failed, MissingDependency

START_SECONDS = 120.0
"""Longest start of a process: importing sympy takes seconds where many start at once."""
_SCRIPT = Path(__file__).with_name("math_worker.py")


class ComparisonLimit(Exception):
    """A comparison was cut off: what was written is more than the comparer can take."""


class _Worker:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(_SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        self.ready = False

    def ask(self, gold: str, answer: str, *, seconds: float) -> dict[str, object]:
        """The reply. `TimeoutError` where there is none in time, `EOFError` where the process died."""
        if not self.ready:
            self._line(START_SECONDS)
            self.ready = True
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps([gold, answer]) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise EOFError from None
        reply: dict[str, object] = json.loads(self._line(seconds))
        return reply

    def kill(self) -> None:
        """Ends the process and takes leave of it."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

    def _line(self, seconds: float) -> str:
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                raise TimeoutError
        line = self.process.stdout.readline()
        if not line:
            raise EOFError
        return line


class MathWorkers:
    """At most `count` processes, started when they are needed; a comparison takes at most `seconds`."""

    def __init__(self, count: int = 8, *, seconds: float = 5.0) -> None:
        self.seconds = seconds
        self._places = threading.BoundedSemaphore(count)
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._lock = threading.Lock()
        atexit.register(self.close)

    def equal(self, gold: str, answer: str) -> bool:
        """Whether the two are equal as mathematics; blocks. `ComparisonLimit` where that cannot be told within the
        limits, `Failed` where no process can be started."""
        with self._places:
            for _ in range(2):
                worker = self._taken()
                begin = time.monotonic()
                try:
                    reply = worker.ask(gold, answer, seconds=self.seconds)
                except (TimeoutError, EOFError) as error:
                    was_ready = worker.ready
                    self._end(worker)
                    if not was_ready:
                        raise Failed("the process that compares answers did not start") from None
                    if isinstance(error, TimeoutError):
                        raise ComparisonLimit(f"comparing took longer than {self.seconds:g} s") from None
                    if time.monotonic() - begin > self.seconds / 2:
                        break
                    continue  # It may have died of something else: once more, on a new one.
                except BaseException:
                    self._end(worker)
                    raise
                with self._lock:
                    self._idle.append(worker)
                if "limit" in reply:
                    raise ComparisonLimit(f"comparing ran out of {reply['limit']}")
                return bool(reply["equal"])
        raise ComparisonLimit("comparing ended its process")

    def close(self) -> None:
        """Ends all processes."""
        with self._lock:
            workers, self._all, self._idle = list(self._all), set(), []
        for worker in workers:
            worker.kill()

    def _taken(self) -> _Worker:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        worker = _Worker()
        with self._lock:
            self._all.add(worker)
        return worker

    def _end(self, worker: _Worker) -> None:
        with self._lock:
            self._all.discard(worker)
        worker.kill()


def require_math_verify() -> None:
    """`MissingDependency` if the comparer is not installed."""
    if importlib.util.find_spec("math_verify") is None:
        raise MissingDependency("comparing mathematical answers needs math-verify", hint="pip install 'sandlot[math]'")
