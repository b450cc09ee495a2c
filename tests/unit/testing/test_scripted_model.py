"""The scripted model says what was written down, and nothing else."""

import asyncio
import random

import pytest

from sandlot.errors import ModelError
from sandlot.models import Completion
from sandlot.records import AssistantMessage, Message, Sampling, SystemMessage, Tool, ToolCall, Usage, UserMessage
from sandlot.testing import OutOfAnswers, ScriptedModel


async def ask(model: ScriptedModel, text: str = "hi") -> Completion:
    return await model.generate([SystemMessage(content="s"), UserMessage(content=text)], sampling=Sampling())


async def test_one_answer_is_for_every_call() -> None:
    model = ScriptedModel("yes")
    assert [(await ask(model)).message.content for _ in range(3)] == ["yes"] * 3


async def test_a_list_is_said_in_order_and_then_it_is_an_error_that_counts() -> None:
    call = AssistantMessage(content="", tool_calls=[ToolCall(id="c", name="f", arguments="{}")])
    model = ScriptedModel(["one", call, ModelError("down"), Completion(message=call, finish="length")])
    assert (await ask(model)).message.content == "one"
    assert (await ask(model)).finish == "tool_calls"
    with pytest.raises(ModelError, match="down"):
        await ask(model)
    assert (await ask(model)).finish == "length"
    with pytest.raises(OutOfAnswers, match="4 answers and this is call 5"):
        await ask(model)


async def test_a_list_is_used_up_once_by_many_calls_at_once() -> None:
    model = ScriptedModel([str(n) for n in range(300)], delay=lambda: random.random() / 100)
    completions = await asyncio.gather(*(ask(model) for _ in range(300)))
    assert sorted(int(completion.message.content) for completion in completions) == list(range(300))
    assert model.most_at_once == 300


async def test_a_table_answers_by_the_last_user_message() -> None:
    model = ScriptedModel({"a": "A", "b": {"role": "assistant", "content": "B"}})
    assert (await ask(model, "b")).message.content == "B"
    assert (await ask(model, "a")).message.content == "A"
    with pytest.raises(OutOfAnswers, match=r"no answer to 'c'; it has answers to \['a', 'b'\]"):
        await ask(model, "c")
    assert (await ask(ScriptedModel({"a": "A", "*": "other"}), "c")).message.content == "other"


async def test_a_function_gets_the_messages_and_may_wait() -> None:
    async def answer(messages: list[Message]) -> str:
        await asyncio.sleep(0)
        return messages[0].content + messages[-1].content

    assert (await ask(ScriptedModel(answer), "x")).message.content == "sx"
    assert (await ask(ScriptedModel(lambda messages: messages[-1].content.upper()), "x")).message.content == "X"


async def test_a_script_that_is_not_the_models_to_say_is_refused() -> None:
    with pytest.raises(TypeError, match="'user' message"):
        await ask(ScriptedModel(UserMessage(content="hi")))


async def test_calls_are_kept_as_they_were_even_if_the_caller_goes_on_writing() -> None:
    model = ScriptedModel("ok")
    prompt = [UserMessage(content="first")]
    await model.generate(prompt, tools=[Tool(name="f")], sampling=Sampling(seed=3))
    prompt[0]["content"] = "changed"
    prompt.append(UserMessage(content="more"))
    (call,) = model.calls
    assert call.messages == [{"role": "user", "content": "first"}]
    assert (call.tools[0].name, call.sampling.seed) == ("f", 3)


async def test_usage_is_counted_in_words_or_as_given() -> None:
    assert (await ask(ScriptedModel("one two"), "a b c")).usage == Usage(prompt_tokens=4, completion_tokens=2)
    assert (await ask(ScriptedModel("x", usage=Usage(prompt_tokens=9)))).usage == Usage(prompt_tokens=9)
