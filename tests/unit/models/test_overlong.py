"""A prompt that does not fit is recognised whatever the provider's words; other errors are not taken for it."""

import json

import pytest
from hypothesis import given, strategies as st

from sandlot.errors import OverlongPromptError
from sandlot.models import Endpoint, EndpointModel, is_overlong
from sandlot.records import Sampling, UserMessage
from sandlot.testing import Fault, MockServer

WORDINGS = [
    "This model's maximum context length is {n} tokens. However, you requested {m} tokens",
    "This model’s maximum context length is {n} tokens",
    "MAXIMUM context length is {n}",
    "exceeds the model's context length",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "Input tokens exceed the configured limit of {n} tokens. Your messages resulted in {m} tokens.",
    "The decoder prompt (length {m}) is longer than the maximum model length of {n}.",
    "You passed {m} input tokens and requested 0 output tokens. However, the model's context length is only {n} tokens",
    "The input ({m} tokens) is longer than the model's context length ({n} tokens).",
    "Requested token count exceeds the model's maximum context length of {n} tokens.",
    "prompt is too long: {m} tokens > {n} maximum",
    "input length and `max_tokens` exceed context limit: {m} + 20000 > {n}",
    "Input is too long for requested model.",
    "The input token count ({m}) exceeds the maximum number of tokens allowed ({n}).",
    "Prompt contains {m} tokens and 0 draft tokens, too large for model with {n} maximum context length",
    "Please reduce the length of the messages or completion.",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= {n}. Given: {m} `inputs` tokens",
    "The prompt is too long: {m}, model maximum context length: {n}",
    "too many tokens: total number of tokens in the prompt cannot exceed {n}",
    "This model's maximum prompt length is {n} but the request contains {m} tokens.",
    "the request exceeds the available context size ({n} tokens), try increasing it",
    "The number of tokens to keep from the initial prompt is greater than the context length",
    "This endpoint's maximum context length is {n} tokens.",
    "Invalid request: Your request exceeded model token limit: {n}",
    "Range of input length should be [1, {n}]",
    "prompt token count of {m} exceeds the limit of {n}",
    "Prompt length ({m}) exceeds maximum input length ({n}).",
]
OTHERS = [
    "Rate limit reached for tokens per min (TPM): Limit {n}, Used {m}",
    "Invalid value for 'temperature': must be at most 2",
    "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
    "The image is too large: {m} bytes",
    "you exceeded your current quota, please check your plan and billing details",
    "Unknown field: context",
    "Invalid schema for function 'length'",
    "The requested model does not support long context pricing",
    "Content was flagged by the content filter",
]
SHAPES = [
    lambda text: {"error": {"message": text, "type": "invalid_request_error", "param": "messages", "code": None}},
    lambda text: {"object": "error", "message": text, "type": "BadRequestError", "code": 400},
    lambda text: {"detail": text},
    lambda text: {"detail": [{"loc": ["body"], "msg": text, "type": "value_error"}]},
    lambda text: {"error": text},
    lambda text: [{"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}}],
    lambda text: {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": text}}},
]


def _varied(draw: st.DrawFn, text: str) -> str:
    text = text.format(n=draw(st.integers(512, 2_000_000)), m=draw(st.integers(513, 9_000_000)))
    text = draw(st.sampled_from([str, str.upper, str.lower, str.swapcase, str.title]))(text)
    text = text.replace(" ", draw(st.sampled_from([" ", "  ", "\n"])))
    return draw(st.sampled_from(["", "Error code: 400 - ", "litellm.BadRequestError: "])) + text


@st.composite
def overlong_texts(draw: st.DrawFn) -> str:
    return _varied(draw, draw(st.sampled_from(WORDINGS)))


@st.composite
def other_texts(draw: st.DrawFn) -> str:
    return _varied(draw, draw(st.sampled_from(OTHERS)))


@given(overlong_texts())
def test_every_known_wording_in_any_case_and_spacing_is_recognised(text: str) -> None:
    assert is_overlong(400, text)


@given(other_texts())
def test_other_refusals_are_not_taken_for_it(text: str) -> None:
    assert not is_overlong(400, text)


@pytest.mark.parametrize("status", [401, 403, 404, 429])
def test_a_status_that_means_something_else_is_believed(status: int) -> None:
    assert not is_overlong(status, WORDINGS[0])


async def _raised(body: bytes | str, status: int = 400, key: str | None = None) -> BaseException:
    from aiohttp import web

    async def handle(_: web.BaseRequest) -> web.Response:
        return web.Response(status=status, body=body)

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    model = EndpointModel(Endpoint(id="m", url=f"http://127.0.0.1:{runner.addresses[0][1]}/v1"), key=key)
    try:
        with pytest.raises(Exception) as caught:  # noqa: PT011
            await model.generate([UserMessage(content="hi")], sampling=Sampling())
    finally:
        await model.close()
        await runner.cleanup()
    return caught.value


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("status", [400, 413, 422, 500])
async def test_it_is_found_in_every_shape_of_error_body(shape, status: int) -> None:
    error = await _raised(json.dumps(shape("prompt is too long: 5000 tokens > 4096 maximum")), status)
    assert isinstance(error, OverlongPromptError)
    assert error.status == status


async def test_it_is_found_in_plain_text_and_by_code() -> None:
    assert isinstance(await _raised("The input is longer than the model's context length"), OverlongPromptError)
    by_code = {"error": {"message": "zu lang", "code": "context_length_exceeded"}}
    assert isinstance(await _raised(json.dumps(by_code)), OverlongPromptError)


@pytest.mark.parametrize("key", ["x", "e", "EMPTY", "maximum", "maximum context length"])
async def test_a_key_that_is_part_of_the_wording_does_not_hide_it(key: str) -> None:
    error = await _raised(json.dumps({"error": {"message": "maximum context length is 10 tokens"}}), key=key)
    assert isinstance(error, OverlongPromptError)


async def test_it_is_found_behind_a_long_preface() -> None:
    wording = "the prompt is too long: 5000 tokens > 4096 maximum"
    error = await _raised(json.dumps({"error": {"message": "An error came back. " * 60 + wording}}))
    assert isinstance(error, OverlongPromptError)


async def test_letters_of_a_key_that_is_none_stay_in_the_words() -> None:
    error = await _raised(json.dumps({"error": {"message": "unexpected field 'seed'"}}), key="e")
    assert "unexpected field 'seed'" in str(error)


async def test_an_echo_of_the_request_in_the_error_does_not_make_it_overlong() -> None:
    echo = {"detail": [{"loc": ["body", "stop"], "msg": "a list was expected", "input": WORDINGS[0]}]}
    error = await _raised(json.dumps(echo), 422)
    assert not isinstance(error, OverlongPromptError)
    assert "a list was expected" in str(error)


async def test_it_is_not_tried_again() -> None:
    async with MockServer(faults=[Fault(kind="overlong")]) as server:
        model = EndpointModel(Endpoint(id="m", url=server.url))
        with pytest.raises(OverlongPromptError, match="does not fit m at"):
            await model.generate([UserMessage(content="hi")], sampling=Sampling())
        await model.close()
    assert len(server.requests) == 1
