"""Rollouts per second and client CPU per rollout, over HTTP against the mock endpoint, beside a bare aiohttp loop.

Both clients run in processes of their own, one after the other, against one server process; ours plays a single-turn
environment with a rubric and saves every rollout.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from typing import Any

CONCURRENCY = (32, 1024)
ROLLOUTS = 8000


def main() -> None:
    """Prints a table: client × concurrency, with the ratio of CPU per request to the bare loop's."""
    server = subprocess.Popen(
        [sys.executable, "-m", "sandlot.testing.server", "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    try:
        print(f"rollouts over HTTP, {ROLLOUTS} each")
        print(f"{'client':12}{'concurrent':>12}{'per second':>12}{'CPU ms':>10}")
        for concurrent in CONCURRENCY:
            bare = _measured("bare", url, concurrent)
            ours = _measured("sandlot", url, concurrent)
            for name, found in (("bare aiohttp", bare), ("sandlot", ours)):
                figures = f"{found['rate']:>12.0f}{found['cpu_ms']:>10.3f}{found['cpu_ms'] / bare['cpu_ms']:>7.1f}×"
                print(f"{name:12}{concurrent:>12}{figures}", flush=True)
    finally:
        server.terminate()
        server.wait(timeout=10)


def _measured(client: str, url: str, concurrent: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.rollouts", client, url, str(concurrent)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


async def _bare(url: str, concurrent: int) -> int:
    import aiohttp

    body = {"model": "mock", "messages": [{"role": "user", "content": "What is 1?"}]}
    remaining = iter(range(ROLLOUTS))

    async def work(session: aiohttp.ClientSession) -> None:
        for _ in remaining:
            async with session.post(f"{url}/chat/completions", json=body) as response:
                await response.json()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(work(session) for _ in range(concurrent)))
    return ROLLOUTS


async def _sandlot(url: str, concurrent: int) -> int:
    import sandlot as sl

    def right(completion: Any, answer: str) -> float:
        return float(completion[-1].content == answer)

    rows = [{"question": f"What is {number}?", "answer": str(number)} for number in range(ROLLOUTS)]
    env = sl.SingleTurnEnv(dataset=rows, rubric=sl.Rubric([right]))
    with tempfile.TemporaryDirectory() as folder:
        results = await env.evaluate_async(
            model=sl.connect("mock", base_url=url), max_concurrent=concurrent, results_path=folder
        )
    assert results.summary.scored == ROLLOUTS, results.summary.counts
    return ROLLOUTS


def _client(name: str, url: str, concurrent: int) -> None:
    begin, cpu = time.perf_counter(), time.process_time()
    count = asyncio.run((_bare if name == "bare" else _sandlot)(url, concurrent))
    seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu
    print(json.dumps({"rate": count / seconds, "cpu_ms": 1000 * cpu_seconds / count}))


if __name__ == "__main__":
    _client(sys.argv[1], sys.argv[2], int(sys.argv[3]))
