"""Client objects that a caller already has: mocks, blocking clients, and OpenAI's own."""

import asyncio
import sys
import time
import types
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from sandlot.errors import EmptyModelResponseError, Invalid, InvalidModelResponseError, ModelError, OverlongPromptError
from sandlot.models import ClientModel, EndpointModel, from_client
from sandlot.records import AssistantMessage, Sampling, Tool, ToolCall, UserMessage
from sandlot.testing import MockServer, ScriptedModel

HI = [UserMessage(content="hi", name=None)]
ANSWER = {"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}


def client_with(create: Any) -> Any:
    return SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))


def test_a_model_stays_what_it_is() -> None:
    model = ScriptedModel("x")
    assert from_client(model, "m") is model


@pytest.mark.parametrize("thing", [None, "gpt", object(), SimpleNamespace(chat=None)])
def test_what_is_no_client_is_refused_by_name(thing: object) -> None:
    with pytest.raises(Invalid, match=rf"a {type(thing).__name__} cannot be called"):
        from_client(thing, "m")


async def test_a_magic_mock_with_a_message_answers() -> None:
    client = MagicMock()
    answer = MagicMock()
    answer.choices[0].message.content = "hello"
    answer.choices = [answer.choices[0]]
    client.chat.completions.create = AsyncMock(return_value=answer)
    completion = await from_client(client, "m").generate(HI, sampling=Sampling())
    assert completion.message == {"role": "assistant", "content": "hello"}
    assert completion.usage.prompt_tokens is None


async def test_an_answer_may_be_a_dict_or_plain_objects() -> None:
    function = SimpleNamespace(name="f", arguments="{}")
    message = SimpleNamespace(content=None, tool_calls=[SimpleNamespace(id="c", function=function)])
    objects = SimpleNamespace(
        choices=[SimpleNamespace(message=message, finish_reason="tool_calls")],
        usage=SimpleNamespace(prompt_tokens=3, completion_tokens=4),
    )
    one = await from_client(client_with(AsyncMock(return_value=ANSWER)), "m").generate(HI, sampling=Sampling())
    two = await from_client(client_with(AsyncMock(return_value=objects)), "m").generate(HI, sampling=Sampling())
    assert (one.message.content, one.usage.prompt_tokens) == ("hello", 3)
    assert (two.message.tool_calls[0].name, two.finish, two.usage.completion_tokens) == ("f", "tool_calls", 4)


async def test_fields_that_openais_client_does_not_know_go_into_extra_body() -> None:
    create = AsyncMock(return_value=ANSWER)
    sampling = Sampling(temperature=0.5, max_tokens=9, top_k=3, extra={"chat_template_kwargs": {"a": 1}})
    calls = AssistantMessage(content="", tool_calls=[ToolCall(id="c", name="f", arguments="{}")])
    await from_client(client_with(create), "m").generate([*HI, calls], tools=[Tool(name="f")], sampling=sampling)
    sent = create.await_args.kwargs
    assert sent["model"] == "m"
    assert sent["messages"][0] == {"role": "user", "content": "hi"}
    assert (sent["temperature"], sent["max_tokens"]) == (0.5, 9)
    assert sent["extra_body"] == {"top_k": 3, "chat_template_kwargs": {"a": 1}}
    assert sent["tools"][0]["function"]["name"] == "f"


async def test_a_client_that_blocks_does_not_hold_up_the_others() -> None:
    def create(**_: Any) -> dict[str, Any]:
        time.sleep(0.2)
        return ANSWER

    model = from_client(client_with(create), "m")
    began = time.monotonic()
    await asyncio.gather(*(model.generate(HI, sampling=Sampling()) for _ in range(4)))
    assert time.monotonic() - began < 0.7


class _StatusError(Exception):
    def __init__(self, message: str, status_code: int) -> None:
        super().__init__(message)
        self.status_code = status_code


async def test_what_a_client_raises_becomes_an_error_of_the_model() -> None:
    overlong = client_with(AsyncMock(side_effect=_StatusError("This model's MAXIMUM context length is 9", 400)))
    down = client_with(AsyncMock(side_effect=_StatusError("down", 503)))
    with pytest.raises(OverlongPromptError):
        await from_client(overlong, "m").generate(HI, sampling=Sampling())
    with pytest.raises(ModelError, match="_StatusError: down") as caught:
        await from_client(down, "m").generate(HI, sampling=Sampling())
    assert caught.value.status == 503
    assert isinstance(caught.value.__cause__, _StatusError)


async def test_an_answer_without_choices_or_that_is_none_is_told_apart() -> None:
    with pytest.raises(EmptyModelResponseError):
        await from_client(client_with(AsyncMock(return_value={"choices": []})), "m").generate(HI, sampling=Sampling())
    with pytest.raises(InvalidModelResponseError, match="a str that has no choices"):
        await from_client(client_with(AsyncMock(return_value="hello")), "m").generate(HI, sampling=Sampling())


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The shape of OpenAI's package, as far as a client object shows it."""
    module = types.ModuleType("openai")

    class Completions:
        async def create(self, **_: Any) -> dict[str, Any]:
            raise AssertionError("our own client was to be used")

    class AsyncOpenAI:
        def __init__(self, *, base_url: str, api_key: str, default_headers: dict[str, str] | None = None) -> None:
            self.base_url = base_url + "/"
            self.api_key = api_key
            self._custom_headers = default_headers or {}
            self.chat = SimpleNamespace(completions=Completions())

    AsyncOpenAI.__module__ = "openai._client"
    module.AsyncOpenAI = AsyncOpenAI  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "openai", module)
    return module


async def test_openais_own_client_is_replaced_with_its_address_key_and_headers(openai: Any) -> None:
    async with MockServer(key="secret-abc") as server:
        client = openai.AsyncOpenAI(base_url=server.url, api_key="secret-abc", default_headers={"X-Team": "t"})
        model = from_client(client, "m")
        assert isinstance(model, EndpointModel)
        completion = await model.generate(HI, sampling=Sampling())
        await model.close()
    assert completion.message.content == "hi"
    assert server.headers[0]["x-team"] == "t"
    assert "secret-abc" not in repr(model) + repr(model.endpoints)


async def test_openais_client_with_a_function_put_in_by_a_test_is_called_as_it_is(openai: Any) -> None:
    client = openai.AsyncOpenAI(base_url="http://127.0.0.1:9/v1", api_key="k")
    client.chat.completions.create = AsyncMock(return_value=ANSWER)
    model = from_client(client, "m")
    assert isinstance(model, ClientModel)
    assert (await model.generate(HI, sampling=Sampling())).message.content == "hello"


def test_openais_client_with_secrets_in_its_headers_keeps_them(openai: Any) -> None:
    client = openai.AsyncOpenAI(base_url="http://127.0.0.1:9/v1", api_key="k", default_headers={"api-key": "hunter2"})
    assert isinstance(from_client(client, "m"), ClientModel)
