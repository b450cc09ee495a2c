"""A policy called with messages: what it is asked, what it answers, and what it cannot take."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.scripted_sampler import LOGPROB, ScriptedSampler
from tests.tiny import CHATML, make_tiny_model, make_tiny_tokenizer

from sandlot.errors import Invalid, ModelError, NotFound, OverlongPromptError
from sandlot.inference import ChatTokens, PolicyModel, connect_local, load_tokenizer
from sandlot.models import Prior, connect
from sandlot.records import Message, Sampling, Tool, UserMessage


def scripted(folder: Path, answers: list[str], *, template: str = CHATML, context_length: int = 512) -> PolicyModel:
    tokens = ChatTokens(load_tokenizer(make_tiny_tokenizer(folder, chat_template=template)))
    left = iter(answers)
    sampler = ScriptedSampler(lambda _: [*tokens.encode(next(left)), 2], context_length=context_length)
    return PolicyModel(sampler, tokens, name="scripted")


async def test_a_completion_carries_the_tokens_as_they_were_sampled(tmp_path: Path) -> None:
    model = scripted(tmp_path, [" Hi. "])
    completion = await model.generate([UserMessage(content="hello")], sampling=Sampling())
    assert completion.message == {"role": "assistant", "content": " Hi. "}
    assert completion.tokens is not None
    assert completion.tokens.sampled == [*model.tokens.encode(" Hi. "), 2]
    assert completion.tokens.logprobs == [LOGPROB] * 6
    assert completion.tokens.texts == [" ", "H", "i", ".", " ", "<|im_end|>"]
    assert completion.tokens.prompt == model.tokens.render([UserMessage(content="hello")])
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (len(completion.tokens.prompt), 6)
    assert completion.finish == "stop"


async def test_a_second_turn_sends_the_first_ones_tokens_and_only_what_is_new_is_tokenised(tmp_path: Path) -> None:
    model = scripted(tmp_path, ["one", "two"])
    messages: list[Message] = [UserMessage(content="a")]
    first = await model.generate(messages, sampling=Sampling())
    assert first.tokens is not None
    known = [*first.tokens.prompt, *first.tokens.sampled]
    messages += [first.message, UserMessage(content="b")]
    second = await model.generate(messages, sampling=Sampling(), prior=Prior(messages=2, ids=known))
    assert second.continues
    assert second.tokens is not None
    assert model.sampler.prompts[1] == known + second.tokens.prompt
    assert model.tokens.decode(second.tokens.prompt) == "\n<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n"
    assert second.usage.prompt_tokens == len(known) + len(second.tokens.prompt)
    assert (model.calls, model.forks) == (1, 0)


async def test_a_stop_string_cuts_the_text_and_leaves_the_tokens(tmp_path: Path) -> None:
    model = scripted(tmp_path, ["4, because END of it"])
    sampling = Sampling(stop=["XX", " END", "because"])
    completion = await model.generate([UserMessage(content="2+2")], sampling=sampling)
    assert completion.message.content == "4, "
    assert completion.finish == "stop"
    assert completion.tokens is not None
    assert model.tokens.said(completion.tokens.sampled) == "4, because END of it"


async def test_a_completion_is_bounded_by_its_own_limit_the_models_or_the_context(tmp_path: Path) -> None:
    model = scripted(tmp_path, ["x" * 500] * 3)
    prompt = [UserMessage(content="a")]
    limited = await model.generate(prompt, sampling=Sampling(max_tokens=3))
    assert (limited.message.content, limited.finish) == ("xxx", "length")
    full = await model.generate(prompt, sampling=Sampling())
    assert full.finish == "length"
    assert full.tokens is not None
    assert len(full.tokens.prompt) + len(full.tokens.sampled) == 512
    bounded = PolicyModel(model.sampler, model.tokens, name="bounded", max_tokens=7)
    assert (await bounded.generate(prompt, sampling=Sampling())).message.content == "x" * 7


async def test_a_history_that_outgrew_the_context_is_overlong(tmp_path: Path) -> None:
    model = scripted(tmp_path, ["x" * 100, "y"], context_length=128)
    messages: list[Message] = [UserMessage(content="a")]
    first = await model.generate(messages, sampling=Sampling())
    assert first.tokens is not None
    known = [*first.tokens.prompt, *first.tokens.sampled]
    messages += [first.message, UserMessage(content="b")]
    with pytest.raises(OverlongPromptError, match="context of 128"):
        await model.generate(messages, sampling=Sampling(), prior=Prior(messages=2, ids=known))


@pytest.mark.parametrize(
    ("sampling", "words"),
    [
        (Sampling(temperature=-1), "temperature"),
        (Sampling(top_p=2), "top_p"),
        (Sampling(max_tokens=0), "max_tokens"),
        (Sampling(extra={"repetition_penalty": 1.1}), "repetition_penalty"),
    ],
)
async def test_a_setting_it_cannot_take_is_a_models_error_that_names_it(
    tiny: Path, sampling: Sampling, words: str
) -> None:
    model = connect_local(str(tiny))
    with pytest.raises(ModelError, match=words):
        await model.generate([UserMessage(content="a")], sampling=sampling)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("local") / "tiny", context_length=128)


async def test_a_folder_is_called_by_its_path_like_any_model(tiny: Path) -> None:
    model = connect(f"local:{tiny}")
    completion = await model.generate([UserMessage(content="a")], sampling=Sampling(max_tokens=5, seed=0))
    assert model.name == f"local:{tiny}"
    assert completion.tokens is not None
    assert 1 <= len(completion.tokens.sampled) <= 5
    await model.close()
    again = await model.generate([UserMessage(content="a")], sampling=Sampling(max_tokens=5, seed=0))
    assert again.tokens is not None
    assert again.tokens.sampled == completion.tokens.sampled


async def test_a_local_completion_that_sets_no_limit_is_cut_at_512_tokens_unless_it_may_fill_the_context(
    tmp_path: Path,
) -> None:
    # Weights that are all zero draw every token equally, so that the end comes late; 0 takes the first, which is none.
    folder = make_tiny_model(tmp_path / "m", context_length=700, spread=0.0)
    prompt, sampling = [UserMessage(content="a")], Sampling(temperature=0)
    cut = await connect_local(str(folder)).generate(prompt, sampling=sampling)
    whole = await connect_local(str(folder), max_tokens=None).generate(prompt, sampling=sampling)
    assert (cut.finish, cut.usage.completion_tokens) == ("length", 512)
    assert (whole.finish, whole.usage.completion_tokens) == ("length", 700 - (whole.usage.prompt_tokens or 0))


def test_two_models_of_one_folder_share_its_weights_and_a_folder_written_anew_is_loaded_anew(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path / "m", seed=0)
    first, second = connect_local(str(folder)), connect_local(str(folder), context_length=64, max_tokens=3)
    assert first.sampler.module is second.sampler.module
    assert (first.sampler.context_length, second.sampler.context_length) == (512, 64)
    make_tiny_model(folder, seed=1)
    assert connect_local(str(folder)).sampler.module is not first.sampler.module


@pytest.mark.parametrize(
    ("rest", "options", "error", "words"),
    [
        ("", {}, Invalid, "names no model"),
        ("./nowhere", {}, NotFound, "nowhere"),
        ("smollm2-135", {}, NotFound, "smollm2-135m"),
        ("smollm2-135m", {"temprature": 1}, Invalid, "temprature"),
    ],
)
def test_a_local_model_that_is_not_there_says_what_there_is(
    rest: str, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        connect_local(rest, **options)


async def test_calls_with_tools_are_refused_where_the_template_would_lose_them(tmp_path: Path) -> None:
    plain = "{% for m in messages %}<|im_start|>{{ m.role + '\n' + m.content }}<|im_end|>{% endfor %}"
    model = scripted(tmp_path, ["x"], template=plain)
    with pytest.raises(ModelError, match="drops the definitions of the tools"):
        await model.generate([UserMessage(content="a")], tools=[Tool(name="add")], sampling=Sampling())


async def test_forks_are_warned_of_once_and_counted_each_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = scripted(tmp_path, ["one", "two", "three"])
    messages: list[Message] = [UserMessage(content="edited"), Message(role="assistant", content="other")]
    with caplog.at_level(logging.WARNING, logger="sandlot.inference"):
        for _ in range(3):
            prior = Prior(messages=2, ids=model.tokens.encode("something else"))
            completion = await model.generate([*messages, UserMessage(content="b")], sampling=Sampling(), prior=prior)
            assert completion.continues is False
            assert completion.tokens is not None
            assert completion.tokens.prompt == model.tokens.render([*messages, UserMessage(content="b")])
    assert (model.calls, model.forks) == (3, 3)
    assert len(caplog.records) == 1


async def test_a_cancelled_call_leaves_the_sampler_to_the_others(tiny: Path) -> None:
    model = connect_local(str(tiny))
    calls = [
        asyncio.create_task(model.generate([UserMessage(content=str(n))], sampling=Sampling(seed=n))) for n in range(6)
    ]
    await asyncio.sleep(0.01)
    calls[0].cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert not any(isinstance(result, BaseException) for result in results[1:])
