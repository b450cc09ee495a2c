"""Cases of endpoints: what their answers leave out, add, cut off or word in their own way."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from sandlot.errors import ModelError, OverlongPromptError
from sandlot.models import Endpoint, EndpointModel, Retries
from sandlot.records import AssistantMessage, Sampling, Usage, UserMessage
from sandlot.testing import Fault, MockServer

HI = [UserMessage(content="hi")]
FAST = Retries(base=0.001)


@asynccontextmanager
async def answering(answer: Callable[[dict[str, Any]], tuple[int, Any]]) -> AsyncIterator[EndpointModel]:
    """A model at an endpoint that gives exactly this status and JSON."""

    async def handle(request: web.BaseRequest) -> web.Response:
        status, body = answer(json.loads(await request.read()))
        return web.json_response(body, status=status)

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    model = EndpointModel(Endpoint(id="m", url=f"http://127.0.0.1:{runner.addresses[0][1]}/v1", retries=FAST))
    try:
        yield model
    finally:
        await model.close()
        await runner.cleanup()


USAGES: list[tuple[Any, Usage]] = [
    ({"prompt_tokens": 5, "completion_tokens": 2}, Usage(prompt_tokens=5, completion_tokens=2)),
    ({"prompt_tokens": 5}, Usage(prompt_tokens=5)),
    ({"prompt_tokens": None, "completion_tokens_details": None}, Usage()),
    ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": None}}, Usage(prompt_tokens=5)),
    (None, Usage()),
]


@pytest.mark.parametrize(("usage", "read"), USAGES)
@pytest.mark.parametrize("added", [{}, {"service_tier": "turbo"}, {"system_fingerprint": None, "x": {"y": [1]}}])
@pytest.mark.parametrize("token_ids", [{}, {"token_ids": None, "stop_reason": None, "logprobs": None}])
async def test_INT_07_fields_left_out_or_added_do_no_harm_and_missing_numbers_are_unknown(
    usage: Any, read: Usage, added: dict[str, Any], token_ids: dict[str, Any]
) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, **token_ids}
    body = {"choices": [choice], **({} if usage is None else {"usage": usage}), **added}
    async with answering(lambda _: (200, body)) as model:
        completion = await model.generate(HI, sampling=Sampling())
    assert completion.message.content == "ok"
    assert completion.usage == read
    assert completion.tokens is None
    assert completion.cost is None


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 4096 tokens",
        "MAXIMUM context length is 4096",
        "the prompt exceeds the model's context length",
    ],
)
async def test_ROLL_06_the_turn_that_outgrows_the_context_is_told_apart_and_the_first_one_stands(words: str) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        if len(body["messages"]) > 1:
            return 400, {"error": {"message": words, "type": "BadRequestError"}}
        return 200, {"choices": [{"message": {"content": "first"}, "finish_reason": "stop"}]}

    async with answering(answer) as model:
        first = await model.generate(HI, sampling=Sampling())
        with pytest.raises(OverlongPromptError):
            await model.generate([*HI, first.message, UserMessage(content="more")], sampling=Sampling())
    assert first.message.content == "first"


@pytest.mark.parametrize("kind", ["cut", "half", "reset", "html"])
async def test_ROLL_11_an_answer_that_breaks_off_is_an_error_and_never_a_short_answer(kind: Any) -> None:
    async with MockServer("the whole answer", faults=lambda _: Fault(kind=kind)) as server:
        model = EndpointModel(Endpoint(id="m", url=server.url, retries=FAST))
        with pytest.raises(ModelError) as caught:
            await model.generate(HI, sampling=Sampling())
        await model.close()
    assert caught.value.boundary == "model"
    assert not isinstance(caught.value, OverlongPromptError)


@pytest.mark.parametrize("content", ["", "ok ", " ok", "\n", "ok\n\n", "\u00a0ok"])
async def test_NUM_17_content_comes_and_goes_without_being_altered_and_null_is_the_empty_text(content: str) -> None:
    seen: list[Any] = []

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        seen.append(body["messages"])
        return 200, {"choices": [{"message": {"role": "assistant", "content": content or None}}]}

    async with answering(answer) as model:
        first = await model.generate(HI, sampling=Sampling())
        await model.generate([*HI, first.message, UserMessage(content="more")], sampling=Sampling())
    assert first.message == AssistantMessage(content=content)
    assert seen[1][1] == {"role": "assistant", "content": content}
