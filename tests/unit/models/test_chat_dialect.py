"""What goes out to a chat endpoint, and what is read from its answer."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from sandlot.errors import Error, InvalidModelResponseError, ModelError
from sandlot.models import Completion, Endpoint, EndpointModel, Price, Retries
from sandlot.models.dialects import CHAT
from sandlot.records import AssistantMessage, Message, Sampling, Tool, ToolCall, ToolMessage, Usage, UserMessage

HERE = Endpoint(id="m", url="http://127.0.0.1:1/v1")
HI = [UserMessage(content="hi")]


def sent(
    messages: Sequence[Message] = HI, *, endpoint: Endpoint = HERE, tools: Sequence[Tool] = (), **sampling: Any
) -> dict[str, Any]:
    return json.loads(CHAT.request(endpoint, messages, tools=tools, sampling=Sampling(**sampling)))


def read(message: dict[str, Any] | None = None, *, endpoint: Endpoint = HERE, **body: Any) -> Completion:
    choice = {"index": 0, "message": message or {"content": "ok"}, **body.pop("choice", {})}
    completion = CHAT.completion(endpoint, {"choices": [choice], **body})
    assert completion is not None
    return completion


def test_only_what_was_asked_for_stands_in_the_body() -> None:
    assert sent() == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    assert sent(temperature=0.0, top_k=20, min_p=0.1, stop=["\n"], seed=3, max_tokens=5, logprobs=True) == {
        **sent(),
        "temperature": 0.0,
        "top_k": 20,
        "min_p": 0.1,
        "stop": ["\n"],
        "seed": 3,
        "max_tokens": 5,
        "logprobs": True,
    }


def test_extra_fields_are_merged_last_the_callers_over_the_endpoints() -> None:
    endpoint = Endpoint(id="m", url="http://127.0.0.1:1/v1", extra={"temperature": 0.5, "a": 1, "b": 1})
    body = sent(endpoint=endpoint, temperature=1.0, extra={"b": 2, "extra_body": {"c": 3}})
    assert (body["temperature"], body["a"], body["b"], body["c"]) == (0.5, 1, 2, 3)
    assert "extra_body" not in body


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"url": "https://api.openai.com/v1"}, "max_completion_tokens"),
        ({"url": "https://api.openai.com/v1", "max_tokens_name": "max_tokens"}, "max_tokens"),
        ({"url": "http://127.0.0.1:1/v1"}, "max_tokens"),
        ({"url": "http://127.0.0.1:1/v1", "max_tokens_name": "max_completion_tokens"}, "max_completion_tokens"),
    ],
)
def test_the_limit_of_a_completion_has_the_name_that_the_endpoint_knows(fields: dict[str, Any], name: str) -> None:
    assert sent(endpoint=Endpoint(id="m", **fields), max_tokens=7)[name] == 7


def test_messages_go_out_as_they_are_but_for_fields_that_are_none() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages = [
        UserMessage(content=[{"type": "text", "text": "what?"}, image], name=None),
        AssistantMessage(content=None, tool_calls=[ToolCall(id="c", name="f", arguments="{}")], refusal=None),
        AssistantMessage(content="", tool_calls=[ToolCall(id="d", name="f", arguments="{}")]),
        ToolMessage(content="", tool_call_id="c"),
        AssistantMessage(content="ok ", reasoning_content="hm"),
    ]
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert sent(messages)["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "what?"}, image]},
        {"role": "assistant", "tool_calls": [{"id": "c", **call}]},
        {"role": "assistant", "tool_calls": [{"id": "d", **call}]},
        {"role": "tool", "content": "", "tool_call_id": "c"},
        {"role": "assistant", "content": "ok ", "reasoning_content": "hm"},
    ]


def test_tools_go_out_nested() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    body = sent(tools=[Tool(name="f", description="Does.", parameters=schema), Tool(name="g", strict=True)])
    assert body["tools"] == [
        {"type": "function", "function": {"name": "f", "description": "Does.", "parameters": schema}},
        {
            "type": "function",
            "function": {"name": "g", "parameters": {"type": "object", "properties": {}}, "strict": True},
        },
    ]


def test_a_message_that_is_no_json_is_named_and_is_the_environments_doing() -> None:
    with pytest.raises(Error, match=r"message 1 \(user\) cannot be sent as JSON") as caught:
        sent([UserMessage(content="fine"), UserMessage(content=object())])
    assert caught.value.boundary == "environment"
    assert not isinstance(caught.value, ModelError)
    with pytest.raises(Error, match="tools or the sampling"):
        sent(extra={"f": object()})


@given(st.text())
def test_sampled_text_is_not_altered(text: str) -> None:
    assert read({"content": text}).message.content == text


def test_reasoning_is_read_under_both_names_and_as_parts() -> None:
    assert read({"content": "a", "reasoning": "r"}).message.reasoning_content == "r"
    assert read({"content": "a", "reasoning_content": "r"}).message.reasoning_content == "r"
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "r"}]}, {"type": "text", "text": "a"}]
    said = read({"content": parts}).message
    assert (said.content, said.reasoning_content) == ("a", "r")
    assert "reasoning_content" not in read({"content": "a", "reasoning": None}).message


def test_tool_calls_are_read_as_servers_really_write_them() -> None:
    calls = [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"function": {"name": "g", "arguments": {"a": 1}}},
        {"id": None, "function": {"name": "h", "arguments": None}},
    ]
    completion = read({"content": None, "tool_calls": calls}, id="x", choice={"finish_reason": None})
    said = [(call.id, call.name, call.arguments) for call in completion.message.tool_calls]
    assert said == [("c", "f", '{"a":1}'), ("x-1", "g", '{"a":1}'), ("x-2", "h", "{}")]
    assert completion.finish == "tool_calls"
    assert completion.message.content == ""


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("stop", "stop"),
        ("MAX_TOKENS", "length"),
        ("eos_token", "stop"),
        ("function_call", "tool_calls"),
        (None, "stop"),
    ],
)
def test_reasons_to_end_have_one_vocabulary(theirs: str | None, ours: str) -> None:
    assert read(choice={"finish_reason": theirs}).finish == ours


def test_numbers_that_are_missing_or_are_none_are_unknown() -> None:
    assert read().usage == Usage()
    assert read(usage={"prompt_tokens": None, "completion_tokens": "7"}).usage == Usage()
    counted = {
        "prompt_tokens": 10,
        "completion_tokens": 4.0,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    assert read(usage=counted).usage == Usage(
        prompt_tokens=10, completion_tokens=4, reasoning_tokens=0, cached_tokens=8
    )


def test_cost_follows_the_price_table() -> None:
    price = Price(input=2.0, output=8.0, cached=0.5)
    endpoint = Endpoint(id="m", url="http://127.0.0.1:1/v1", price=price)
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 400}}
    assert read(endpoint=endpoint, usage=usage).cost == pytest.approx((600 * 2 + 400 * 0.5 + 100 * 8) / 1e6)
    assert read(endpoint=endpoint, usage={"prompt_tokens": 1000}).cost is None
    assert read(usage=usage).cost is None


def test_token_ids_and_logprobs_are_taken_from_the_server() -> None:
    content = [{"token": "a", "logprob": -0.25}, {"token": "b", "logprob": None}]
    completion = read(prompt_token_ids=[1, 2], choice={"token_ids": [3, 4], "logprobs": {"content": content}})
    assert completion.tokens is not None
    assert completion.tokens.prompt == [1, 2]
    assert completion.tokens.sampled == [3, 4]
    assert completion.tokens.logprobs == [-0.25, None]


def test_token_ids_are_read_from_vllms_token_texts() -> None:
    content = [{"token": "token_id:7", "logprob": -1.0}, {"token": "token_id:9", "logprob": -2.0}]
    completion = read(prompt_token_ids=[1], choice={"logprobs": {"content": content}})
    assert completion.tokens is not None
    assert completion.tokens.sampled == [7, 9]


def test_logprobs_that_do_not_line_up_are_dropped() -> None:
    content = [{"token": "a", "logprob": -0.25}]
    completion = read(prompt_token_ids=[1], choice={"token_ids": [3, 4], "logprobs": {"content": content}})
    assert completion.tokens is not None
    assert completion.tokens.logprobs == [None, None]


@pytest.mark.parametrize(
    "fields",
    [
        {"choice": {"token_ids": [1]}},
        {"prompt_token_ids": [1], "choice": {"token_ids": None}},
        {"prompt_token_ids": None, "choice": {"token_ids": [1]}},
        {"prompt_token_ids": [1], "choice": {"token_ids": ["1"]}},
        {"prompt_token_ids": [1], "choice": {"logprobs": {"content": [{"token": "a", "logprob": -1}]}}},
    ],
)
def test_half_of_the_token_ids_is_none_of_them(fields: dict[str, Any]) -> None:
    assert read(**fields).tokens is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = ["content", "tool_calls", "function", "usage", "logprobs", "finish_reason", "token_ids", "id", "reasoning"]


@given(
    st.dictionaries(st.sampled_from(NAMES), JSON),
    st.dictionaries(st.sampled_from(NAMES), JSON),
    st.dictionaries(st.sampled_from(NAMES), JSON),
)
def test_whatever_an_answer_holds_it_is_a_completion_or_a_value_error(message: Any, choice: Any, body: Any) -> None:
    answer = {**body, "choices": [{**choice, "message": message}]}
    try:
        completion = CHAT.completion(HERE, answer)
    except ValueError:
        return
    assert completion is not None
    assert isinstance(completion.message["content"], str)
    assert completion.finish


@pytest.mark.parametrize("choice", [{"finish_reason": "error"}, {"error": {"message": "provider died"}}])
async def test_a_completion_that_the_server_says_is_broken_is_not_an_answer(choice: dict[str, Any]) -> None:
    from sandlot.testing import MockServer

    message = AssistantMessage(content="half an ans")
    broken = Completion(message=message, finish=choice.get("finish_reason", "error"))
    async with MockServer(broken) as server:
        model = EndpointModel(Endpoint(id="m", url=server.url, retries=Retries(base=0.001)))
        with pytest.raises(InvalidModelResponseError, match="cut off"):
            await model.generate(HI, sampling=Sampling())
        await model.close()
