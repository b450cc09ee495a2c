"""The endpoint that an agent program calls, as an HTTP client sees it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

import sandlot as vf
from sandlot.envs.agents.endpoint import AgentEndpoint
from sandlot.models import Completion
from sandlot.records import Usage

QUESTION = {"role": "user", "content": "where?"}
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


async def ask(endpoint: AgentEndpoint, *messages: Any, **more: Any) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as client:
        body = {"model": "any", "messages": messages, **more}
        return await client.post(f"{endpoint.url}/chat/completions", json=body, timeout=10)


async def asked_and_answered(endpoint: AgentEndpoint, said: vf.Message, *messages: Any, **more: Any) -> Any:
    """The call as the rollout sees it, and the program's response."""
    asking = asyncio.create_task(ask(endpoint, *messages, **more))
    call = await asyncio.wait_for(endpoint.next(), 10)
    call.answer(Completion(message=vf.AssistantMessage(said), finish="stop", usage=Usage(prompt_tokens=3)))
    return call, await asking


def calling(name: str, arguments: str, **more: Any) -> vf.Message:
    call = vf.ToolCall(id="c1", name=name, arguments=arguments)
    return vf.AssistantMessage(content="", tool_calls=[call], **more)


def events_of(response: httpx.Response) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


async def test_a_call_waits_for_the_policy_and_gets_its_words() -> None:
    async with AgentEndpoint(model="policy") as endpoint:
        said = vf.AssistantMessage(content="here", reasoning_content="I looked")
        call, response = await asked_and_answered(endpoint, said, QUESTION, tools=[LOOK])
        assert [message.content for message in call.messages] == ["where?"]
        assert [tool.name for tool in call.tools] == ["look"]
        body = response.json()
        assert (body["model"], body["usage"]["prompt_tokens"]) == ("policy", 3)
        assert body["choices"][0]["message"] == {
            "role": "assistant",
            "content": "here",
            "reasoning_content": "I looked",
        }


async def test_a_stream_carries_the_words_the_calls_and_the_counts() -> None:
    async with AgentEndpoint() as endpoint:
        said = calling("look", '{"at": 1}')
        options = {"stream": True, "stream_options": {"include_usage": True}}
        _, response = await asked_and_answered(endpoint, said, QUESTION, **options)
        events = events_of(response)
        deltas = [event["choices"][0]["delta"] for event in events if event["choices"]]
        (call,) = [call for delta in deltas for call in delta.get("tool_calls", [])]
        assert (call["index"], call["function"]) == (0, {"name": "look", "arguments": '{"at": 1}'})
        assert events[-1]["usage"]["total_tokens"] == 3
        assert [event["choices"][0]["finish_reason"] for event in events if event["choices"]][-1] == "stop"


async def test_what_the_program_sends_back_is_the_message_on_record() -> None:
    async with AgentEndpoint() as endpoint:
        said = calling("look", '{"at":1}', reasoning_content="thinking")
        await asked_and_answered(endpoint, said, QUESTION)
        respelt = {
            "role": "assistant",
            "content": None,
            "tool_calls": [dict(calling("look", '{ "at": 1 }').tool_calls[0])],
        }
        result = {"role": "tool", "tool_call_id": "c1", "content": "nothing"}
        call, _ = await asked_and_answered(endpoint, vf.AssistantMessage(content="ok"), QUESTION, respelt, result)
        assert call.messages[1] == said
        changed = {**respelt, "content": "I changed this"}
        call, _ = await asked_and_answered(endpoint, vf.AssistantMessage(content="ok"), QUESTION, changed, result)
        assert call.messages[1] == changed


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "not JSON"),
        (b"[]", "no JSON object"),
        (b'{"messages": []}', "at least one message"),
        (b'{"messages": [{"content": "x"}]}', "messages[0] has no role"),
        (b'{"messages": [{"role": "user", "content": 1}]}', "messages[0].content"),
        (b'{"messages": [{"role": "user", "content": "x", "tool_calls": [1]}]}', "messages[0].tool_calls"),
        (b'{"messages": [{"role": "user", "content": "x"}], "tools": [{}]}', "tools[0]"),
        (b'{"messages": [{"role": "user", "content": "x"}], "n": 2}', "n is 2"),
    ],
)
async def test_what_is_no_conversation_is_refused_in_a_sentence(body: bytes, words: str) -> None:
    async with AgentEndpoint() as endpoint, httpx.AsyncClient(trust_env=False) as client:
        response = await client.post(f"{endpoint.url}/chat/completions", content=body)
        assert response.status_code == 400
        assert words in response.json()["error"]["message"]


async def test_whoever_does_not_know_the_path_gets_nothing() -> None:
    async with AgentEndpoint() as endpoint, httpx.AsyncClient(trust_env=False) as client:
        origin = endpoint.url.rsplit("/", 2)[0]
        assert (await client.get(f"{endpoint.url}/models")).json()["data"][0]["id"] == "model"
        response = await client.get(f"{origin}/v1/models")
        assert response.status_code == 404
        assert "POST /chat/completions" in response.json()["error"]["message"]


async def test_a_call_whose_program_went_away_is_no_turn() -> None:
    async with AgentEndpoint() as endpoint:
        leaving = asyncio.create_task(ask(endpoint, QUESTION))
        await asyncio.sleep(0.2)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        await asyncio.sleep(0.2)
        call, _ = await asked_and_answered(
            endpoint, vf.AssistantMessage(content="ok"), {"role": "user", "content": "still here?"}
        )
        assert call.messages[0].content == "still here?"


@pytest.mark.parametrize("stream", [False, True])
async def test_closing_refuses_what_waits_and_nothing_listens_afterwards(stream: bool) -> None:
    endpoint = AgentEndpoint()
    await endpoint.open()
    waiting = asyncio.create_task(ask(endpoint, QUESTION, stream=stream))
    await endpoint.next()
    await endpoint.close()
    response = await waiting
    said = events_of(response)[0] if stream else response.json()
    assert said["error"]["message"] == "the rollout is over"
    assert response.status_code == (200 if stream else 503)
    with pytest.raises(httpx.ConnectError):
        await ask(endpoint, QUESTION)
    await endpoint.close()
