"""What an endpoint's failures become: which are tried again, for how long, and what the user reads."""

import asyncio
import socket
import subprocess
import sys
import time
from email.utils import formatdate

import pytest
from aiohttp import web
from hypothesis import given, strategies as st

from sandlot.errors import EmptyModelResponseError, InvalidModelResponseError, MissingKeyError, ModelError
from sandlot.models import Completion, Endpoint, EndpointModel, Retries
from sandlot.models.setback import retry_after
from sandlot.records import Sampling, UserMessage
from sandlot.testing import Fault, MockServer

FAST = Retries(base=0.001, longest=0.01, seconds=20)


async def ask(server: MockServer, **fields: object) -> Completion:
    fields.setdefault("retries", FAST)
    key = {"MOCK_KEY": "secret-abc"}
    model = EndpointModel(Endpoint(id="m", url=server.url, **fields), environ=key)
    try:
        return await model.generate([UserMessage(content="hi")], sampling=Sampling())
    finally:
        await model.close()


@pytest.mark.parametrize(
    "fault",
    [
        *(Fault(status=status) for status in (408, 409, 425, 429, 500, 502, 503, 504, 529)),
        Fault(kind="html"),
        Fault(kind="html", status=502),
        Fault(kind="half"),
        Fault(kind="cut"),
        Fault(kind="reset"),
        Fault(kind="empty"),
    ],
    ids=lambda fault: f"{fault.kind}-{fault.status}",
)
async def test_what_may_heal_is_tried_again_and_the_answer_comes(fault: Fault) -> None:
    async with MockServer(faults=[fault, fault]) as server:
        completion = await ask(server)
    assert completion.message.content == "hi"
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [301, 400, 402, 403, 404, 405, 422, 501])
async def test_what_will_not_heal_is_asked_once(status: int) -> None:
    async with MockServer(faults=[Fault(status=status, message="the server's words")]) as server:
        with pytest.raises(ModelError, match="the server's words") as caught:
            await ask(server)
    assert caught.value.status == status
    assert len(server.requests) == 1
    assert str(status) in str(caught.value)


async def test_an_unpaid_bill_is_a_429_that_no_wait_will_change() -> None:
    from aiohttp import web

    asked = 0

    async def handle(_: web.BaseRequest) -> web.Response:
        nonlocal asked
        asked += 1
        return web.json_response({"error": {"message": "no money", "code": "insufficient_quota"}}, status=429)

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    model = EndpointModel(Endpoint(id="m", url=f"http://127.0.0.1:{runner.addresses[0][1]}/v1", retries=FAST))
    with pytest.raises(ModelError, match="no money"):
        await model.generate([UserMessage(content="hi")], sampling=Sampling())
    await model.close()
    await runner.cleanup()
    assert asked == 1


async def test_tries_are_bounded_and_counted_in_the_message() -> None:
    async with MockServer(faults=lambda _: Fault(status=503)) as server:
        with pytest.raises(ModelError, match=r"failed \(503\).*after 4 tries"):
            await ask(server, retries=Retries(tries=4, base=0.001))
    assert len(server.requests) == 4


async def test_tries_are_bounded_in_time() -> None:
    async with MockServer(faults=lambda _: Fault(status=429, retry_after="30")) as server:
        began = time.monotonic()
        with pytest.raises(ModelError, match="too many requests"):
            await ask(server, retries=Retries(seconds=5))
    assert time.monotonic() - began < 4
    assert len(server.requests) == 1


async def test_retry_after_is_waited_for() -> None:
    async with MockServer(faults=[Fault(status=429, retry_after="0.3")]) as server:
        began = time.monotonic()
        await ask(server)
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (Fault(kind="html"), InvalidModelResponseError, "an HTML page titled 'Bad gateway'"),
        (Fault(kind="half"), InvalidModelResponseError, "no completion"),
        (Fault(kind="empty"), EmptyModelResponseError, "without a choice"),
        (Fault(kind="cut"), ModelError, "connection"),
        (Fault(kind="reset"), ModelError, "connection"),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
async def test_what_never_heals_ends_as_an_error_of_the_endpoint(fault: Fault, error: type, words: str) -> None:
    async with MockServer(faults=lambda _: fault) as server:
        with pytest.raises(error, match=words) as caught:
            await ask(server)
    assert caught.value.boundary == "model"
    assert "m at http://127.0.0.1" in str(caught.value)
    assert 1 < len(server.requests) <= 10


async def test_a_request_has_a_limit_in_time() -> None:
    async with MockServer(faults=lambda _: Fault(kind="hang")) as server:
        with pytest.raises(ModelError, match=r"did not answer within 0\.2 s"):
            await ask(server, timeout=0.2)
    assert len(server.requests) == 2


async def test_an_endpoint_that_is_not_there_is_given_up_quickly_and_named() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model = EndpointModel(Endpoint(id="m", url=f"http://127.0.0.1:{port}/v1", retries=FAST))
    with pytest.raises(ModelError, match=rf"connection to m at http://127\.0\.0\.1:{port}/v1 failed.*3 tries"):
        await model.generate([UserMessage(content="hi")], sampling=Sampling())
    await model.close()


async def test_a_wrong_key_names_its_variable_and_is_never_shown() -> None:
    async with MockServer(key="right") as server:
        with pytest.raises(ModelError, match="refused the API key in MOCK_KEY") as caught:
            await ask(server, key="MOCK_KEY")
    assert server.headers[0]["authorization"] == "Bearer secret-abc"
    assert "secret-abc" not in repr(caught.value)


async def test_a_key_that_was_named_and_is_not_set_is_not_called_a_wrong_one() -> None:
    async with MockServer(key="right") as server:
        with pytest.raises(ModelError, match="wants the API key in UNSET_KEY, which is not set"):
            await ask(server, key="UNSET_KEY")
    assert "authorization" not in server.headers[0]


async def test_a_missing_key_says_how_to_give_one() -> None:
    async with MockServer(key="right") as server:
        with pytest.raises(ModelError, match="--key-var"):
            await ask(server)
    assert "authorization" not in server.headers[0]


async def test_a_key_that_the_server_echoes_is_taken_out() -> None:
    fault = Fault(status=400, message="bad key secret-abc in request")
    async with MockServer(faults=[fault]) as server:
        with pytest.raises(ModelError) as caught:
            await ask(server, key="MOCK_KEY")
    assert "bad key *** in request" in str(caught.value)


@pytest.mark.parametrize(("status", "body"), [(401, b"no %s"), (200, b"hm: %s"), (200, b'{"said": "%s", "n": 123456}')])
async def test_what_a_header_took_out_of_a_variable_is_taken_out_of_what_the_server_echoes(
    status: int, body: bytes
) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(status=status, body=body % request.headers["X-Team-Key"].encode())

    app = web.Application()
    app.router.add_post("/v1/chat/completions", echo)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        endpoint = Endpoint(id="m", url=url, headers={"X-Team-Key": "key ${TEAM_KEY}"}, retries=Retries(tries=1))
        model = EndpointModel(endpoint, environ={"TEAM_KEY": "123456"})
        with pytest.raises(ModelError) as caught:
            await model.generate([UserMessage(content="hi")], sampling=Sampling())
        await model.close()
    finally:
        await runner.cleanup()
    assert "123456" not in str(caught.value)
    assert "***" in str(caught.value)


def test_a_variable_that_is_not_set_is_named_before_anything_is_sent() -> None:
    endpoint = Endpoint(id="m", url="https://api.example.com/v1", key="NO_SUCH_KEY")
    with pytest.raises(MissingKeyError, match="NO_SUCH_KEY, which is not set") as caught:
        EndpointModel(endpoint, environ={})
    assert caught.value.hint == "export NO_SUCH_KEY=…"


def test_a_key_with_a_line_break_is_refused_without_being_shown() -> None:
    endpoint = Endpoint(id="m", url="https://api.example.com/v1", key="MY_KEY")
    with pytest.raises(MissingKeyError, match="MY_KEY holds characters") as caught:
        EndpointModel(endpoint, environ={"MY_KEY": "abc\ndef"})
    assert "abc" not in str(caught.value)


def test_the_models_repr_holds_no_key() -> None:
    endpoint = Endpoint(id="m", url="https://api.example.com/v1", key="MY_KEY", headers={"api-key": "${MY_KEY}"})
    model = EndpointModel(endpoint, environ={"MY_KEY": "secret-abc"})
    assert "secret-abc" not in repr(model) + repr(model.endpoints) + str(vars(model))


@given(st.floats(0, 1e6))
def test_retry_after_reads_seconds(seconds: float) -> None:
    assert retry_after({"Retry-After": f"{seconds:f}"}, 0.0) == pytest.approx(seconds, abs=1e-5)


@given(st.integers(0, 2_000_000_000), st.integers(-3600, 86_400))
def test_retry_after_reads_http_dates_and_the_past_is_now(now: int, ahead: int) -> None:
    at = max(0, now + ahead)
    assert retry_after({"Retry-After": formatdate(at, usegmt=True)}, float(now)) == max(0, at - now)


@given(st.text())
def test_retry_after_that_makes_no_sense_is_none_or_a_wait(text: str) -> None:
    seconds = retry_after({"Retry-After": text}, time.time())
    assert seconds is None or 0 <= seconds < float("inf")


async def test_replicas_take_turns_and_a_broken_one_is_left_for_the_next() -> None:
    async with MockServer("from a") as a, MockServer(faults=lambda _: Fault(status=500)) as b:
        replicas = [Endpoint(id="m", url=server.url, retries=FAST) for server in (a, b)]
        model = EndpointModel(replicas)
        calls = (model.generate([UserMessage(content="hi")], sampling=Sampling()) for _ in range(10))
        completions = await asyncio.gather(*calls)
        await model.close()
    assert {completion.message.content for completion in completions} == {"from a"}
    assert len(a.requests) == 10
    assert len(b.requests) >= 5


def test_one_model_serves_several_event_loops_in_turn() -> None:
    with MockServer() as server:
        model = EndpointModel(Endpoint(id="m", url=server.url))

        async def call(text: str) -> str:
            completion = await model.generate([UserMessage(content=text)], sampling=Sampling())
            return completion.message.content

        assert [asyncio.run(call(text)) for text in ("one", "two", "three")] == ["one", "two", "three"]


async def test_a_server_on_this_machine_is_asked_without_the_key_that_is_not_set() -> None:
    async with MockServer() as server:
        completion = await ask(server, key="NOT_SET_ANYWHERE")
    assert completion.message.content == "hi"
    assert "authorization" not in server.headers[0]


async def test_no_more_requests_are_in_flight_than_the_endpoint_allows() -> None:
    busy = most = 0

    async def answer(_: object) -> str:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.005)
        busy -= 1
        return "ok"

    async with MockServer(answer) as server:
        model = EndpointModel(Endpoint(id="m", url=server.url, max_concurrent=3))
        calls = (model.generate([UserMessage(content="hi")], sampling=Sampling()) for _ in range(20))
        await asyncio.gather(*calls)
        await model.close()
    assert most == 3


async def test_an_address_that_redirects_gets_the_key_only_itself() -> None:
    from aiohttp import web

    async with MockServer() as elsewhere:

        async def handle(_: web.BaseRequest) -> web.Response:
            return web.Response(status=307, headers={"Location": f"{elsewhere.url}/chat/completions"})

        runner = web.ServerRunner(web.Server(handle))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        model = EndpointModel(Endpoint(id="m", url=f"http://127.0.0.1:{runner.addresses[0][1]}/v1"), key="secret-abc")
        with pytest.raises(ModelError, match=r"has moved \(307\)"):
            await model.generate([UserMessage(content="hi")], sampling=Sampling())
        await model.close()
        await runner.cleanup()
    assert len(elsewhere.requests) == 0


async def test_a_proxy_in_the_environment_is_used_but_not_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MockServer("through the proxy") as proxy, MockServer("straight") as server:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1"))
        monkeypatch.delenv("no_proxy", raising=False)
        answers = []
        for url in ("http://model.example/v1", server.url):
            model = EndpointModel(Endpoint(id="m", url=url, retries=FAST))
            completion = await model.generate([UserMessage(content="hi")], sampling=Sampling())
            answers.append(completion.message.content)
            await model.close()
    assert answers == ["through the proxy", "straight"]


def test_too_few_open_files_slow_the_calls_down_and_lose_none() -> None:
    program = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))
from sandlot.models import Endpoint, EndpointModel, Retries
from sandlot.records import Sampling, UserMessage

async def main():
    model = EndpointModel(Endpoint(id="m", url=sys.argv[1], retries=Retries(base=0.02)))
    calls = (model.generate([UserMessage(content=str(n))], sampling=Sampling()) for n in range(300))
    completions = await asyncio.gather(*calls)
    print([completion.message.content for completion in completions] == [str(n) for n in range(300)])
    await model.close()

asyncio.run(main())
"""
    with MockServer(latency=0.005) as server:
        command = [sys.executable, "-c", program, server.url]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout.strip() == "True", ended.stderr[-2000:]
