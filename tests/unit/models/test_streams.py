"""Answers that come piece by piece: whole, or no answer at all."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from sandlot.errors import InvalidModelResponseError, ModelError
from sandlot.models import Completion, Endpoint, EndpointModel, Retries
from sandlot.models.dialects import ANTHROPIC, CHAT, DIALECTS
from sandlot.models.reading import EventReader
from sandlot.records import AssistantMessage, Message, Sampling, ToolCall, Usage, UserMessage
from sandlot.testing import Fault, MockServer

TYPES = sorted(type_ for type_ in DIALECTS if not type_.startswith("vllm_"))  # Reward models send no streams.
every_dialect = pytest.mark.parametrize("type_", TYPES)
FEW = Retries(base=0.001, tries=3)


async def ask(server: MockServer, type_: str, *, stream: bool = True, **fields: Any) -> Completion:
    extra = {"return_token_ids": True} if "completions" in type_ else {}
    sampling = Sampling(logprobs=True) if type_ in ("openai_chat_completions", "openai_completions") else Sampling()
    fields = {"retries": FEW, "extra": extra, **fields}
    model = EndpointModel(Endpoint(id="gpt-5", url=server.url, type=type_, stream=stream, **fields))
    try:
        return await model.generate([UserMessage(content="hi")], sampling=sampling)
    finally:
        await model.close()


def long_answer(_: list[Message]) -> Completion:
    calls = [ToolCall(id=f"c{n}", name="add", arguments=f'{{"a":{n},"b":"é \\n"}}') for n in range(2)]
    message = AssistantMessage(content="one two  three\n\nvier é ", reasoning_content="first\nthen", tool_calls=calls)
    usage = Usage(prompt_tokens=9, completion_tokens=7, cached_tokens=4, reasoning_tokens=2)
    return Completion(message=message, finish="tool_calls", usage=usage)


@every_dialect
async def test_a_stream_adds_up_to_what_would_have_come_in_one_piece(type_: str) -> None:
    async with MockServer(long_answer) as server:
        whole = await ask(server, type_, stream=False)
        streamed = await ask(server, type_)
    assert [bool(body.get("stream")) for body in server.requests] == [False, True]
    assert streamed.message == whole.message
    assert streamed.message.content == "one two  three\n\nvier é "
    assert (streamed.finish, streamed.usage, streamed.tokens) == (whole.finish, whole.usage, whole.tokens)
    assert streamed.usage.completion_tokens == 7
    if type_ != "openai_completions":
        assert streamed.message.reasoning_content == "first\nthen"
        assert [json.loads(call.arguments)["a"] for call in streamed.message.tool_calls] == [0, 1]


@every_dialect
async def test_half_a_stream_is_tried_again_and_never_a_short_answer(type_: str) -> None:
    async with MockServer("one two three four", faults=[Fault(kind="broken"), Fault(kind="cut")]) as server:
        completion = await ask(server, type_)
    assert completion.message.content == "one two three four"
    assert len(server.requests) == 3
    async with MockServer("one two three four", faults=lambda _: Fault(kind="broken")) as server:
        with pytest.raises(InvalidModelResponseError, match=r"broke off after \d+ events, before the end") as caught:
            await ask(server, type_)
    assert caught.value.boundary == "model"


@every_dialect
async def test_a_server_that_answers_in_one_piece_though_asked_to_stream_is_understood(type_: str) -> None:
    async with MockServer("one two") as server:
        body = (await ask(server, type_, stream=False)).raw
    made = {"choices": [{"text": "one two", "finish_reason": "stop"}]} if type_ == "openai_completions" else body
    async with MockServer(faults=[Fault(kind="raw", body=json.dumps(made).encode())]) as server:
        assert (await ask(server, type_)).message.content == "one two"


async def test_a_stream_on_which_nothing_comes_is_given_up_after_its_idle_time() -> None:
    async with MockServer(faults=lambda _: Fault(kind="hang")) as server:
        with pytest.raises(ModelError, match=r"sent nothing for 0\.1 s, its idle_timeout \(after 3 tries\)"):
            await ask(server, "openai_chat_completions", idle_timeout=0.1)


async def test_an_error_in_a_stream_is_what_it_says() -> None:
    said = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"par"}}]}\n\n'
    error = b'data: {"error":{"message":"Overloaded, come back","code":503}}\n\ndata: [DONE]\n\n'
    fault = Fault(kind="raw", body=said + error, content_type="text/event-stream")
    async with MockServer(faults=lambda _: fault) as server:
        with pytest.raises(ModelError, match="Overloaded, come back") as caught:
            await ask(server, "openai_chat_completions")
    assert (caught.value.status, len(server.requests)) == (503, 3)


async def test_events_under_another_content_type_are_understood() -> None:
    body = b'data: {"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}\n\n'
    async with MockServer(faults=[Fault(kind="raw", body=body, content_type="text/plain")]) as server:
        assert (await ask(server, "openai_chat_completions", stream=False)).message.content == "ok"


async def test_a_cancelled_stream_ends_at_once() -> None:
    async with MockServer(faults=lambda _: Fault(kind="drip")) as server:
        call = asyncio.create_task(ask(server, "openai_chat_completions"))
        await asyncio.sleep(0.1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(call, 2)


def chat_of(*chunks: dict[str, Any]) -> Completion:
    assembly = CHAT.assembly()
    for delta in chunks:
        assembly.add({"choices": [{"index": 0, "delta": delta}]})
    assert assembly.body() is None
    assembly.add({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    body = assembly.body()
    assert body is not None
    completion = CHAT.completion(Endpoint(id="m", url="http://127.0.0.1:1/v1"), body)
    assert completion is not None
    return completion


def piece(arguments: str, **fields: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": fields.pop("name")} if "name" in fields else {})}
    return {"tool_calls": [{**fields, "function": function}]}


def test_parallel_calls_whose_pieces_mix_are_told_apart_by_index() -> None:
    first, second = piece('{"a"', index=0, id="c0", name="f"), piece("{", index=1, id="c1", name="g")
    said = chat_of(first, second, piece(": 1}", index=0), piece('"b"', index=1)).message
    assert [(call.id, call.name, call.arguments) for call in said.tool_calls] == [
        ("c0", "f", '{"a": 1}'),
        ("c1", "g", '{"b"'),
    ]


def test_parallel_calls_that_are_all_numbered_0_are_told_apart_by_id() -> None:
    said = chat_of(piece("{}", index=0, id="c0", name="f"), piece("{}", index=0, id="c1", name="f")).message
    assert [call.id for call in said.tool_calls] == ["c0", "c1"]


def test_arguments_that_are_no_json_stay_what_the_model_wrote() -> None:
    assembly = ANTHROPIC.assembly()
    block = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    for event in (
        {"type": "message_start", "message": {"type": "message", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"a": '}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "oops"}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ):
        assert assembly.body() is None
        assembly.add(event)
    endpoint = Endpoint(id="m", url="http://127.0.0.1:1", type="anthropic")
    completion = ANTHROPIC.completion(endpoint, assembly.body() or {})
    assert completion is not None
    assert completion.message.tool_calls[0].arguments == '{"a": oops'


def cut(data: bytes, places: list[int]) -> Iterator[bytes]:
    marks = sorted({place % (len(data) + 1) for place in places})
    for start, end in zip([0, *marks], [*marks, len(data)], strict=True):
        yield data[start:end]


@given(
    st.lists(st.text(st.characters(exclude_characters="\r\n"), min_size=1), max_size=5), st.lists(st.integers(0, 999))
)
def test_events_are_the_same_wherever_the_network_cuts_them(texts: list[str], places: list[int]) -> None:
    lines = "".join(f": note\r\nevent: e\ndata: {json.dumps(text)}\r\n\r\n" for text in texts).encode()
    reader = EventReader()
    found = [json.loads(data) for part in cut(lines, places) for data in reader.feed(part)]
    assert found == texts
