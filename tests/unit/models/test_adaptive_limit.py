"""How many requests an endpoint gets while it answers 429."""

import asyncio
import itertools
import random

from hypothesis import given, settings, strategies as st

from sandlot.models import AdaptiveLimit, Endpoint, EndpointModel, Retries
from sandlot.records import Sampling, UserMessage
from sandlot.testing import Fault, MockServer


async def test_one_burst_of_429s_halves_once_what_was_in_flight() -> None:
    limit = AdaptiveLimit(1000)
    tickets = [await limit.acquire() for _ in range(40)]
    for ticket in tickets:
        limit.throttled(ticket)
        limit.release()
    assert limit.limit == 20
    fresh = [await limit.acquire() for _ in range(20)]
    limit.throttled(fresh[0])
    limit.throttled(fresh[1])
    assert limit.limit == 10


async def test_it_never_falls_below_one_and_grows_back_by_one_a_round() -> None:
    limit = AdaptiveLimit(8)
    for _ in range(10):
        limit.throttled(await limit.acquire())
        limit.release()
    assert limit.limit == 1
    grown = []
    for _ in range(60):
        limit.succeeded()
        grown.append(limit.limit)
    assert grown[0] == 2
    assert grown[-1] == 8
    assert all(after - before in (0, 1) for before, after in itertools.pairwise(grown))


async def test_a_pause_holds_everyone_back() -> None:
    now = 0.0
    limit = AdaptiveLimit(4, clock=lambda: now)
    ticket = await limit.acquire()
    limit.throttled(ticket, pause=0.05)
    limit.release()
    waiting = asyncio.create_task(limit.acquire())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    now = 1.0
    await asyncio.wait_for(waiting, 1)
    assert limit.in_flight == 1


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_the_limit_holds_and_every_slot_comes_back_whatever_is_cancelled(seed: int, most: int) -> None:
    rng = random.Random(seed)

    async def play() -> None:
        limit = AdaptiveLimit(most)
        busiest = 0

        async def work() -> None:
            nonlocal busiest
            ticket = await limit.acquire()
            try:
                busiest = max(busiest, limit.in_flight)
                for _ in range(rng.randrange(3)):
                    await asyncio.sleep(0)
                limit.throttled(ticket) if rng.random() < 0.2 else limit.succeeded()
            finally:
                limit.release()

        tasks = [asyncio.create_task(work()) for _ in range(30)]
        for task in rng.sample(tasks, 10):
            await asyncio.sleep(0)
            task.cancel()
        results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
        assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results)
        assert busiest <= most
        assert limit.in_flight == 0
        for _ in range(limit.limit):
            await asyncio.wait_for(limit.acquire(), 1)

    asyncio.run(play())


async def test_an_endpoint_that_takes_three_at_once_is_played_through() -> None:
    busy = refused = 0

    async def answer(_: object) -> str:
        nonlocal busy
        busy += 1
        await asyncio.sleep(0.005)
        busy -= 1
        return "ok"

    def too_many(_: object) -> Fault | None:
        nonlocal refused
        refused += busy >= 3
        return Fault(status=429) if busy >= 3 else None

    async with MockServer(answer, faults=too_many) as server:
        model = EndpointModel(Endpoint(id="m", url=server.url, retries=Retries(tries=50, base=0.005, longest=0.05)))
        calls = (model.generate([UserMessage(content="hi")], sampling=Sampling()) for _ in range(120))
        completions = await asyncio.gather(*calls)
        await model.close()
    assert len(completions) == 120
    assert refused > 0
