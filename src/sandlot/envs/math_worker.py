"""A process that compares two mathematical answers: a script that answers a line for a line, and may be killed.

Invariants: nothing but answers goes to the standard output; the memory of a comparison is bounded; there is no time
limit in here: whoever asks kills the process.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
from typing import TextIO

MEMORY_BYTES = 4 << 30


def compared(gold: str, answer: str) -> bool:
    """Whether the two are equal as mathematics."""
    from math_verify import parse, verify  # heavy: sympy, which only these processes load

    read = [parse(rf"\boxed{{{text}}}", parsing_timeout=None) for text in (gold, answer)]
    return bool(all(read) and verify(read[0], read[1], timeout_seconds=None))


def answering(questions: TextIO, answers: TextIO) -> None:
    """Answers every question until there are no more."""
    compared("1", "1")
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in questions:
        gold, answer = json.loads(line)
        try:
            reply: dict[str, object] = {"equal": compared(gold, answer)}
        except MemoryError:
            reply = {"limit": "memory"}
        except RecursionError:
            reply = {"limit": "depth"}
        except Exception as error:  # boundary: the comparer, on whatever a model wrote
            reply = {"equal": False, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=answers, flush=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    logging.disable()
    private = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    answering(sys.stdin, private)
