"""The OpenAI-compatible server, over HTTP: by our own client and by hand."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.scripted_sampler import ScriptedSampler
from tests.tiny import make_tiny_model, make_tiny_tokenizer

from sandlot.errors import Invalid, OverlongPromptError
from sandlot.inference import ChatTokens, PolicyServer, Sampler, ServeConfig, TorchSampler, load_module, load_tokenizer
from sandlot.models import Endpoint, EndpointModel, Retries
from sandlot.records import Sampling, Tool, UserMessage

ASK = [{"role": "user", "content": "hi"}]
ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
CALLS = 'so <tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call><tool_call>{"name": "sub"}</tool_call>'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("served") / "tiny", seed=1, context_length=256)


@asynccontextmanager
async def serving(tokens: ChatTokens, sampler: Sampler, **settings: Any) -> AsyncIterator[PolicyServer]:
    async with PolicyServer(sampler, tokens, ServeConfig(model="tiny", port=0, **settings)) as server:
        yield server
    await sampler.close()


@asynccontextmanager
async def tiny(folder: Path, **settings: Any) -> AsyncIterator[PolicyServer]:
    sampler = TorchSampler(load_module(folder), max_rows=16)
    async with serving(ChatTokens(load_tokenizer(folder)), sampler, **settings) as server:
        yield server


@asynccontextmanager
async def says(folder: Path, text: str) -> AsyncIterator[PolicyServer]:
    tokens = ChatTokens(load_tokenizer(make_tiny_tokenizer(folder)))
    async with serving(tokens, ScriptedSampler(lambda _: [*tokens.encode(text), 2])) as server:
        yield server


async def post(server: PolicyServer, path: str, body: Any) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with session.post(server.url + path, data=payload) as response:
            return response.status, await response.json()


async def events(server: PolicyServer, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    async with aiohttp.ClientSession() as session, session.post(server.url + path, json=body) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        lines = (await response.text()).split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


async def test_our_own_client_reads_tokens_and_log_probabilities_that_the_module_confirms(folder: Path) -> None:
    async with tiny(folder) as server:
        model = EndpointModel(
            Endpoint(id="tiny", url=server.url, extra={"return_token_ids": True, "logprobs": True}, retries=Retries())
        )
        completion = await model.generate([UserMessage(content="hi")], sampling=Sampling(max_tokens=20, seed=3))
        assert completion.tokens is not None
        scores = await server._sampler.score([*completion.tokens.prompt, *completion.tokens.sampled])
        await model.close()
    drawn = scores[len(completion.tokens.prompt) - 1 :]
    assert completion.tokens.logprobs == pytest.approx(drawn, abs=1e-4)
    assert completion.usage.completion_tokens == len(completion.tokens.sampled)


async def test_our_own_client_sees_a_prompt_that_does_not_fit_as_overlong(folder: Path) -> None:
    async with tiny(folder) as server:
        model = EndpointModel(Endpoint(id="tiny", url=server.url, retries=Retries()))
        with pytest.raises(OverlongPromptError):
            await model.generate([UserMessage(content="x" * 300)], sampling=Sampling(max_tokens=5))
        await model.close()


async def test_our_own_client_gets_tool_calls(tmp_path: Path) -> None:
    async with says(tmp_path, CALLS) as server:
        model = EndpointModel(Endpoint(id="tiny", url=server.url, retries=Retries()))
        completion = await model.generate([UserMessage(content="hi")], tools=[Tool(name="add")], sampling=Sampling())
        await model.close()
    assert completion.finish == "tool_calls"
    assert [(call.name, call.arguments) for call in completion.message.tool_calls] == [
        ("add", '{"a": 1}'),
        ("sub", "{}"),
    ]
    assert completion.message.content == "so "


async def test_a_stream_says_what_the_whole_answer_says(folder: Path) -> None:
    body = {"model": "tiny", "messages": ASK, "max_tokens": 30, "seed": 5, "n": 3, "logprobs": True}
    async with tiny(folder) as server:
        status, whole = await post(server, "/chat/completions", body)
        assert status == 200
        streamed = await events(
            server,
            "/chat/completions",
            {**body, "stream": True, "return_token_ids": True, "stream_options": {"include_usage": True}},
        )
    assert whole["usage"]["completion_tokens"] == sum(len(c["logprobs"]["content"]) for c in whole["choices"])
    assert streamed[-1]["usage"] == whole["usage"]
    texts, ends = {0: "", 1: "", 2: ""}, {}
    for event in streamed[:-1]:
        (choice,) = event["choices"]
        texts[choice["index"]] += choice["delta"].get("content", "")
        if choice["finish_reason"]:
            ends[choice["index"]] = choice
    for choice in whole["choices"]:
        assert texts[choice["index"]] == choice["message"]["content"]
        assert ends[choice["index"]]["finish_reason"] == choice["finish_reason"]
        assert len(ends[choice["index"]]["token_ids"]) == len(choice["logprobs"]["content"])
    assert len({choice["message"]["content"] for choice in whole["choices"]}) == 3


async def test_text_completions_take_text_or_ids_and_stream(folder: Path) -> None:
    async with tiny(folder) as server:
        ids = ChatTokens(load_tokenizer(folder)).encode("Once")
        body = {"prompt": "Once", "max_tokens": 12, "temperature": 0, "logprobs": 1, "return_token_ids": True}
        _, by_text = await post(server, "/completions", body)
        _, by_ids = await post(server, "/completions", {**body, "prompt": ids})
        streamed = await events(server, "/completions", {**body, "stream": True})
    assert by_text["choices"] == by_ids["choices"]
    assert by_text["prompt_token_ids"] == ids
    (choice,) = by_text["choices"]
    assert len(choice["logprobs"]["token_logprobs"]) == len(choice["token_ids"]) == 12
    assert "".join(event["choices"][0]["text"] for event in streamed) == choice["text"]
    assert streamed[-1]["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(("stop", "expected"), [("END", "one "), (["zz", "e E"], "on"), (["nothing"], "one END two")])
async def test_a_stop_string_and_what_follows_it_is_never_sent(
    tmp_path: Path, stop: str | list[str], expected: str
) -> None:
    async with says(tmp_path, "one END two") as server:
        _, whole = await post(server, "/chat/completions", {"messages": ASK, "stop": stop})
        streamed = await events(server, "/chat/completions", {"messages": ASK, "stop": stop, "stream": True})
    assert whole["choices"][0]["message"]["content"] == expected
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in streamed) == expected
    assert streamed[-1]["choices"][0]["finish_reason"] == "stop"


async def test_a_stop_string_ends_the_drawing_of_a_real_sampler(folder: Path) -> None:
    async with tiny(folder) as server:
        body = {"messages": ASK, "max_tokens": 200, "seed": 1, "temperature": 1.5, "return_token_ids": True}
        _, free = await post(server, "/chat/completions", body)
        text = free["choices"][0]["message"]["content"]
        _, cut = await post(server, "/chat/completions", {**body, "stop": text[5:7]})
    at = text.index(text[5:7])
    assert cut["choices"][0]["message"]["content"] == text[:at]
    assert len(cut["choices"][0]["token_ids"]) < len(free["choices"][0]["token_ids"])
    assert cut["choices"][0]["finish_reason"] == "stop"


async def test_tool_calls_are_streamed_whole_after_the_text_before_them(tmp_path: Path) -> None:
    async with says(tmp_path, CALLS) as server:
        streamed = await events(server, "/chat/completions", {"messages": ASK, "tools": [ADD], "stream": True})
        plain = await events(
            server, "/chat/completions", {"messages": ASK, "tools": [ADD], "tool_choice": "none", "stream": True}
        )
    deltas = [event["choices"][0]["delta"] for event in streamed]
    assert "".join(delta.get("content", "") for delta in deltas) == "so "
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
    assert [(call["index"], call["function"]["name"]) for call in calls] == [(0, "add"), (1, "sub")]
    assert streamed[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in plain) == CALLS


async def test_requests_that_come_together_each_get_their_own_answer(folder: Path) -> None:
    async with tiny(folder) as server:
        bodies = [{"messages": [{"role": "user", "content": f"q{n}"}], "max_tokens": 20, "seed": n} for n in range(24)]
        together = await asyncio.gather(*(post(server, "/chat/completions", body) for body in bodies))
        alone = [await post(server, "/chat/completions", body) for body in bodies[:4]]
    assert [status for status, _ in together] == [200] * 24
    assert [a["choices"] for _, a in together[:4]] == [a["choices"] for _, a in alone]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_away_frees_its_place(tmp_path: Path, stream: bool) -> None:
    tokens = ChatTokens(load_tokenizer(make_tiny_tokenizer(tmp_path)))
    drawn = 0

    def endless(_: list[int]) -> Iterator[int]:
        nonlocal drawn
        while True:
            drawn += 1
            yield 20

    async with serving(tokens, ScriptedSampler(endless, context_length=10**9)) as server:
        async with aiohttp.ClientSession() as session:
            body = {"messages": ASK, "stream": stream}
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(session.post(server.url + "/chat/completions", json=body), 0.2)
        await asyncio.sleep(0.1)
        assert drawn > 0
        before = drawn
        await asyncio.sleep(0.1)
        assert drawn == before


async def test_health_and_models_say_what_is_served(folder: Path) -> None:
    async with tiny(folder, name="my-model") as server, aiohttp.ClientSession() as session:
        async with session.get(server.url.removesuffix("/v1") + "/health") as response:
            assert await response.json() == {"status": "ok", "model": "my-model", "version": 0}
        async with session.get(server.url + "/models") as response:
            (card,) = (await response.json())["data"]
        async with session.get(server.url + "/models/my-model") as response:
            assert await response.json() == card
        async with session.get(server.url + "/models/other") as response:
            assert response.status == 404
    assert (card["id"], card["max_model_len"]) == ("my-model", 256)


BAD = [
    (b"{nonsense", 400, "not JSON"),
    (b"[]", 400, "Expected `object`"),
    ({}, 400, "messages"),
    ({"messages": []}, 400, "at least one"),
    ({"messages": [{"content": "x"}]}, 400, "no role"),
    ({"messages": [{"role": "user", "content": 3}]}, 400, "content"),
    ({"messages": [{"role": "assistant", "tool_calls": [1]}]}, 400, "tool_calls"),
    ({"messages": "hi"}, 400, "messages"),
    ({"messages": ASK, "temperature": "hot"}, 400, "temperature"),
    ({"messages": ASK, "temperature": -1}, 400, "temperature"),
    ({"messages": ASK, "max_tokens": 0}, 400, "max_tokens"),
    ({"messages": ASK, "top_p": 0}, 400, "top_p"),
    ({"messages": ASK, "n": 0}, 400, "n must be"),
    ({"messages": ASK, "frequency_penalty": 0.5}, 400, "frequency_penalty"),
    ({"messages": ASK, "logit_bias": {"5": 1}}, 400, "logit_bias"),
    ({"messages": ASK, "response_format": {"type": "json_object"}}, 400, "response_format"),
    ({"messages": ASK, "tools": [ADD], "tool_choice": "required"}, 400, "tool_choice"),
    ({"messages": [{"role": "user", "content": "x" * 300}]}, 400, "maximum context length is 256"),
    ({"messages": [{"role": "user", "content": "x" * 300}], "stream": True}, 400, "maximum context length"),
    ({"messages": ASK, "temperature": -1, "stream": True}, 400, "temperature"),
    ({"messages": ASK, "model": "gpt-4"}, 404, "'tiny'"),
    ({"messages": [{"role": "user", "content": "x" * 1_200_000}]}, 413, "larger"),
]


@pytest.mark.parametrize(("body", "status", "words"), BAD, ids=[str(index) for index in range(len(BAD))])
async def test_a_bad_chat_request_is_answered_with_what_is_wrong(
    folder: Path, body: Any, status: int, words: str
) -> None:
    async with tiny(folder, max_body_megabytes=1) as server:
        found, answer = await post(server, "/chat/completions", body)
    assert found == status
    assert words in answer["error"]["message"]
    assert set(answer["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"prompt": []}, "no tokens"),
        ({"prompt": [9999]}, "9999"),
        ({"prompt": "x", "echo": True}, "echo"),
        ({}, "prompt"),
    ],
)
async def test_a_bad_text_request_is_answered_with_what_is_wrong(folder: Path, body: Any, words: str) -> None:
    async with tiny(folder) as server:
        for stream in (False, True):
            status, answer = await post(server, "/completions", {**body, "stream": stream})
            assert status == 400
            assert words in answer["error"]["message"]


@pytest.mark.parametrize("path", ["/embeddings", "/chat"])
async def test_an_unknown_path_names_those_that_there_are(folder: Path, path: str) -> None:
    async with tiny(folder) as server:
        status, answer = await post(server, path, {})
    assert status == 404
    assert "/v1/chat/completions" in answer["error"]["message"]


async def test_an_engine_that_broke_is_a_server_error_for_whole_and_streamed_answers(folder: Path) -> None:
    async with tiny(folder) as server:
        broken = {name: tensor * float("nan") for name, tensor in server._sampler.module.state_dict().items()}
        await server._sampler.apply(1, broken)
        for stream in (False, True):
            status, answer = await post(server, "/chat/completions", {"messages": ASK, "stream": stream})
            assert (status, answer["error"]["type"]) == (500, "server_error")
            assert "not finite" in answer["error"]["message"]


async def test_a_port_that_is_taken_is_refused_with_what_to_do(folder: Path) -> None:
    async with tiny(folder) as server:
        port = int(server.url.split(":")[2].removesuffix("/v1"))
        second = PolicyServer(server._sampler, server._tokens, ServeConfig(model="tiny", port=port))
        with pytest.raises(Invalid, match=f"127.0.0.1:{port} cannot be listened at") as caught:
            await second.__aenter__()
    assert "--port 0" in str(caught.value.hint)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_stop_signal_ends_the_server_cleanly(folder: Path, number: int) -> None:
    program = (
        "import sys; from sandlot.inference import ServeConfig, serve\n"
        "serve(ServeConfig(model=sys.argv[1], port=0), ready=lambda url: print(url, flush=True))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TRANSFORMERS_VERBOSITY": "error"},
    ) as server:  # fmt: skip
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        body = json.dumps({"messages": ASK, "max_tokens": 3})
        answer = asyncio.run(_posted(url, body))
        assert answer["usage"]["completion_tokens"] <= 3
        server.send_signal(number)
        _, errors = server.communicate(timeout=30)
    assert server.returncode == 0
    assert "Traceback" not in errors


async def _posted(url: str, body: str) -> Any:
    async with aiohttp.ClientSession() as session, session.post(url + "/chat/completions", data=body) as response:
        return await response.json()
