"""Blocking code runs in threads: a call that was given up holds up neither others nor the end of the process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from sandlot.engine import in_thread

HANGS = """
import asyncio, threading
from sandlot.engine import in_thread

async def main():
    try:
        async with asyncio.timeout(0.05):
            await in_thread(threading.Event().wait)
    except TimeoutError:
        print("given up", flush=True)

asyncio.run(main())
"""


async def test_a_call_gives_its_result_or_what_it_raised() -> None:
    assert await in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 7, 0)


def test_a_process_ends_though_a_call_that_was_given_up_hangs_for_ever() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "given up\n"), done.stderr


async def test_calls_that_were_given_up_take_no_place_from_others() -> None:
    hangs = threading.Event()
    try:
        calls = [asyncio.create_task(in_thread(hangs.wait)) for _ in range(600)]
        await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        async with asyncio.timeout(30):
            assert await asyncio.gather(*(in_thread(pow, 2, n) for n in range(40))) == [2**n for n in range(40)]
    finally:
        hangs.set()


async def test_many_calls_run_at_once_and_each_gives_its_own_result() -> None:
    together = threading.Barrier(32)

    def meet(number: int) -> int:
        together.wait(30)
        return number

    for _ in range(2):
        assert await asyncio.gather(*(in_thread(meet, number) for number in range(32))) == list(range(32))
