"""What goes out to an endpoint that speaks Anthropic's Messages, and what is read from its answer."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from sandlot.errors import Error, Invalid, ModelError, OverlongPromptError
from sandlot.models import Completion, Endpoint, EndpointModel, Price, Retries
from sandlot.models.dialects import ANTHROPIC
from sandlot.records import (
    AssistantMessage,
    Message,
    Sampling,
    SystemMessage,
    Tool,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from sandlot.testing import Fault, MockServer

HERE = Endpoint(id="m", url="http://127.0.0.1:1", type="anthropic_messages")
HI = [UserMessage(content="hi")]
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2lnbmVk"}
HIDDEN = {"type": "redacted_thinking", "data": "aGlkZGVu"}
TEXT = {"type": "text", "text": "ok"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}}


def sent(
    messages: Sequence[Message] = HI, *, endpoint: Endpoint = HERE, tools: Sequence[Tool] = (), **sampling: Any
) -> dict[str, Any]:
    return json.loads(ANTHROPIC.request(endpoint, messages, tools=tools, sampling=Sampling(**sampling)))


def read(*content: dict[str, Any], endpoint: Endpoint = HERE, **body: Any) -> Completion:
    whole = {"type": "message", "stop_reason": "end_turn", "content": list(content), **body}
    completion = ANTHROPIC.completion(endpoint, whole)
    assert completion is not None
    return completion


def test_a_conversation_goes_out_with_its_system_prompt_apart_and_results_first() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    linked = {"type": "image_url", "image_url": "https://example.org/a.png"}
    good = ToolCall(id="functions.add:0", name="add", arguments='{"a": 1}')
    bad = ToolCall(id="c2", name="add", arguments="{")
    messages = [
        SystemMessage(content="be brief"),
        UserMessage(content=[{"type": "text", "text": "what?"}, picture, linked]),
        AssistantMessage(content="let me see", tool_calls=[good, bad], reasoning_content="another model's"),
        ToolMessage(content="3", tool_call_id="functions.add:0"),
        ToolMessage(content=[{"type": "text", "text": "bad"}, picture], tool_call_id="c2"),
        UserMessage(content="go on"),
        AssistantMessage(content=""),
        UserMessage(content="well?"),
    ]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    body = sent(messages)
    assert (body["system"], body["max_tokens"]) == ("be brief", 8192)
    assert body["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "what?"},
                image,
                {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "let me see"},
                {"type": "tool_use", "id": "functions_add_0-eb2ec88f", "name": "add", "input": {"a": 1}},
                {"type": "tool_use", "id": "c2", "name": "add", "input": {"INVALID_JSON": "{"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "functions_add_0-eb2ec88f", "content": "3"},
                {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "bad"}, image]},
                {"type": "text", "text": "go on"},
                {"type": "text", "text": "well?"},
            ],
        },
    ]


def test_a_later_system_message_stays_where_it_was_said() -> None:
    messages = [SystemMessage(content="a"), *HI, AssistantMessage(content="b"), SystemMessage(content="c")]
    body = sent(messages)
    assert (body["system"], body["messages"][2]) == ("a", {"role": "system", "content": "c"})


def test_sampling_has_this_forms_names_and_a_seed_is_left_out() -> None:
    body = sent(temperature=0.5, top_p=0.9, top_k=20, max_tokens=7, stop=["\n"], seed=3)
    expected = {"temperature": 0.5, "top_p": 0.9, "top_k": 20, "max_tokens": 7, "stop_sequences": ["\n"]}
    assert body == {**sent(), **expected}
    assert "top_k" not in sent(top_k=-1)


def test_fields_that_callers_know_from_chat_are_renamed_and_others_passed_through() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
    thinking = {"type": "enabled", "budget_tokens": 1024}
    extra = {"reasoning_effort": "low", "response_format": schema, "tool_choice": "required", "stop": "x"}
    body = sent(extra={**extra, "parallel_tool_calls": False, "thinking": thinking})
    made = {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}}
    assert body["output_config"] == made
    assert body["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert (body["thinking"], body["stop_sequences"]) == (thinking, ["x"])
    named = sent(extra={"tool_choice": {"type": "function", "function": {"name": "add"}}})
    assert named["tool_choice"] == {"type": "tool", "name": "add"}


@pytest.mark.parametrize("asked", [{"min_p": 0.1}, {"logprobs": True}])
def test_what_the_form_has_no_word_for_is_refused_before_anything_is_played(asked: dict[str, Any]) -> None:
    (name,) = asked
    with pytest.raises(Invalid, match=f"anthropic_messages, which has no {name}"):
        EndpointModel(HERE).check(Sampling(**asked))


def test_a_tool_has_its_schema_under_this_forms_name() -> None:
    (tool,) = sent(tools=[Tool(name="a", description="A.")])["tools"]
    assert tool == {"name": "a", "description": "A.", "input_schema": {"type": "object", "properties": {}}}


def test_a_part_without_a_form_is_an_error_that_names_the_message() -> None:
    with pytest.raises(Error, match=r"message 0 \(user\) has a part of type 'input_audio', which anthropic_messages"):
        sent([UserMessage(content=[{"type": "input_audio", "input_audio": {}}])])


def test_text_thinking_calls_and_counts_are_read() -> None:
    usage = {
        "input_tokens": 50,
        "cache_read_input_tokens": 40,
        "cache_creation_input_tokens": 10,
        "output_tokens": 20,
        "output_tokens_details": {"thinking_tokens": 15},
    }
    price = Price(input=1.0, output=10.0, cached=0.1, cache_write=1.25)
    endpoint = Endpoint(id="m", url="http://127.0.0.1:1", type="anthropic", price=price)
    completion = read(THOUGHT, HIDDEN, TEXT, USE, endpoint=endpoint, usage=usage, stop_reason="tool_use")
    message = completion.message
    assert (message.content, message.reasoning_content, completion.finish) == ("ok", "hm", "tool_calls")
    assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == [("toolu_1", "add", '{"a":1}')]
    assert completion.usage == Usage(prompt_tokens=100, completion_tokens=20, reasoning_tokens=15, cached_tokens=40)
    assert completion.cost == pytest.approx((50 * 1.0 + 40 * 0.1 + 10 * 1.25 + 20 * 10.0) / 1e6)


@pytest.mark.parametrize(
    "content", [[THOUGHT, HIDDEN, TEXT, USE], [THOUGHT, TEXT, HIDDEN, USE], [TEXT, USE, TEXT]], ids=str
)
def test_signed_thinking_goes_back_as_it_came_and_where_it_stood(content: list[dict[str, Any]]) -> None:
    message = AssistantMessage(json.loads(json.dumps(read(*content).message)))
    result = ToolMessage(content="3", tool_call_id="toolu_1")
    assert sent([*HI, message, result])["messages"][1]["content"] == content


def test_a_message_that_was_changed_is_sent_as_it_now_reads() -> None:
    message = read(TEXT, THOUGHT, TEXT).message
    message["content"] = "changed"
    assert sent([*HI, message])["messages"][1]["content"] == [THOUGHT, {"type": "text", "text": "changed"}]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
    ],
)
def test_why_it_ended_is_told_in_the_words_that_all_dialects_share(reason: str, finish: str) -> None:
    assert read(TEXT, stop_reason=reason).finish == finish


def test_a_model_that_says_nothing_has_said_an_empty_text() -> None:
    assert read().message.content == ""


async def ask(*faults: Fault, key: str | None = None, **fields: Any) -> tuple[MockServer, Completion | ModelError]:
    async with MockServer(faults=list(faults), key=key) as server:
        retries = Retries(base=0, tries=2)
        endpoint = Endpoint(id="m", url=server.url.removesuffix("/v1"), type="anthropic", retries=retries, **fields)
        model = EndpointModel(endpoint, environ={"A_KEY": "secret-abc"})
        try:
            return server, await model.generate(HI, sampling=Sampling())
        except ModelError as error:
            return server, error
        finally:
            await model.close()


async def test_the_key_and_the_version_are_sent_in_headers_of_this_form() -> None:
    _, refused = await ask(key="secret-abc")
    assert isinstance(refused, ModelError)
    assert refused.status == 401
    async with MockServer(key="secret-abc") as server:
        model = EndpointModel(Endpoint(id="m", url=server.url, type="anthropic"), key="secret-abc")
        await model.generate(HI, sampling=Sampling())
        await model.close()
    assert server.headers[0]["x-api-key"] == "secret-abc"
    assert server.headers[0]["anthropic-version"] == "2023-06-01"
    assert "authorization" not in server.headers[0]


async def test_failures_in_this_forms_words_are_what_they_say() -> None:
    _, error = await ask(Fault(kind="overlong"))
    assert isinstance(error, OverlongPromptError)
    words = "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"
    _, error = await ask(Fault(status=400, message=words))
    assert isinstance(error, OverlongPromptError)
    server, completion = await ask(Fault(status=529, message="Overloaded"))
    assert (len(server.requests), isinstance(completion, Completion)) == (2, True)
    overloaded = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    server, error = await ask(*[Fault(kind="raw", body=overloaded.encode())] * 2)
    assert (len(server.requests), isinstance(error, ModelError) and error.status) == (2, 529)
