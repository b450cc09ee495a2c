"""Runs a program of the agent's on tests, in the sandbox, and compares what it says here.

Invariants: each test is a process of its own; a test that takes too long, or ends with an error, has not passed.
"""

from __future__ import annotations

import ast
import asyncio
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from sandlot.envs.sandboxed import AsyncSandboxClient, CommandTimeoutError
from sandlot.envs.sandboxed.requests import author_class

_AT_ONCE = 4
_TOLERANCE = Decimal("0.001")

_PREAMBLE = """\
import bisect, collections, copy, datetime, functools, heapq, io, itertools, math, operator, os, random, re, string, sys
from bisect import *
from collections import *
from copy import deepcopy
from functools import *
from heapq import *
from itertools import *
from math import *
from operator import itemgetter
from random import randrange, shuffle
from string import ascii_lowercase, ascii_uppercase
from typing import *
from operator import iand, or_, sub, xor
pow = __builtins__.pow
try:
    import numpy as np
    import pandas as pd
except ImportError:
    pass
"""
"""What such programs take for granted."""

_CALL = """

import json as _json, sys as _sys
_given = _json.loads(open(_sys.argv[1]).read())
_solution = globals().get("Solution")
_result = (getattr(_solution(), {name!r}) if _solution else {name})(*_given)
print("\\n" + {mark!r} + _json.dumps(_result, default=list))
"""


@dataclass(frozen=True)
class Tests:
    """What a program is tested with."""

    inputs: Sequence[Any]
    """For each test what it reads, or the arguments of its function: a list, or text with one literal in each line."""
    outputs: Sequence[Any]
    function: str | None = None
    seconds: float = 60.0


async def results_of(code: str, tests: Tests, client: AsyncSandboxClient, sandbox_id: str) -> list[bool]:
    """Which tests the program passes, in order."""
    folder, mark = f"/tests-{secrets.token_hex(8)}", secrets.token_hex(8)
    program = f"{_PREAMBLE}\n{code}"
    if tests.function:
        program += _CALL.format(name=tests.function, mark=mark)
    await client.upload_bytes(sandbox_id, f"{folder}/program.py", program.encode())
    room = asyncio.Semaphore(_AT_ONCE)

    async def passed(number: int) -> bool:
        given, expected = tests.inputs[number], tests.outputs[number]
        path = f"{folder}/{number}.in"
        async with room:
            await client.upload_bytes(sandbox_id, path, _input(given, tests.function).encode())
            word = path if tests.function else f"< {path}"
            try:
                done = await client.execute_command(
                    sandbox_id, f"python3 {folder}/program.py {word}", working_dir=folder, timeout=tests.seconds
                )
            except author_class(CommandTimeoutError):
                return False
        if done.exit_code:
            return False
        return _returned(done.stdout, mark, expected) if tests.function else same_output(done.stdout, _text(expected))

    return list(await asyncio.gather(*(passed(number) for number in range(len(tests.inputs)))))


def same_output(said: str, expected: str) -> bool:
    """Whether the two say the same, white space aside, and numbers within a thousandth."""
    one, other = said.split(), expected.split()
    if one == other:
        return True
    if len(one) != len(other):
        return False
    try:
        return all(abs(Decimal(a) - Decimal(b)) <= _TOLERANCE for a, b in zip(one, other, strict=True))
    except InvalidOperation:
        return False


def _input(given: Any, function: str | None) -> str:
    if not function:
        return _text(given)
    if isinstance(given, str):
        return json.dumps([ast.literal_eval(line) for line in given.splitlines() if line.strip()])
    return json.dumps(given if isinstance(given, list) else [given])


def _text(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _returned(stdout: str, mark: str, expected: Any) -> bool:
    """Whether the function returned what was expected: some sets of tests wrap it into a list of one."""
    _, found, text = stdout.rpartition(mark)
    try:
        value = json.loads(text) if found else None
    except ValueError:
        return False
    if not found:
        return False
    wanted = json.loads(expected) if isinstance(expected, str) and not isinstance(value, str) else expected
    return bool(value == wanted or (isinstance(wanted, list) and len(wanted) == 1 and value == wanted[0]))
