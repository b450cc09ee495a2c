"""Conversations as tokens and sampled tokens as messages."""

import threading
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from tests.tiny import CHATML, make_tiny_tokenizer

from sandlot.errors import Invalid
from sandlot.inference import ChatTokens, load_tokenizer
from sandlot.models import Prior
from sandlot.records import AssistantMessage, Message, SystemMessage, Tool, ToolCall, ToolMessage, UserMessage

ADD = Tool(name="add", description="Adds.", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})
TEXT = st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126) | st.just("\n"), max_size=30)


def chat(folder: Path, template: str = CHATML) -> ChatTokens:
    return ChatTokens(load_tokenizer(make_tiny_tokenizer(folder, chat_template=template)))


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> ChatTokens:
    return chat(tmp_path_factory.mktemp("tokenizer"))


@given(question=TEXT, answer=TEXT, ended=st.booleans(), more=TEXT)
def test_what_was_sampled_is_continued_to_the_character(
    tokens: ChatTokens, question: str, answer: str, ended: bool, more: str
) -> None:
    messages: list[Message] = [UserMessage(content=question)]
    prompt = tokens.render(messages)
    sampled = tokens.encode(answer) + ([2] if ended else [])
    messages += [tokens.message(tokens.said(sampled)), UserMessage(content=more)]
    assert messages[1].content == answer
    rendered = tokens.extend(Prior(messages=2, ids=prompt + sampled), messages)
    assert rendered.continues
    assert prompt + sampled + rendered.ids == tokens.render(messages)
    assert rendered.length == len(prompt + sampled + rendered.ids)


@given(calls=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4), spaces=st.sampled_from(["", " ", "\n"]))
def test_tool_calls_are_read_in_order_and_continued_as_they_were_written(
    tokens: ChatTokens, calls: list[tuple[str, str]], spaces: str
) -> None:
    import json

    written = spaces.join(
        f"<tool_call>{spaces}{json.dumps({'name': name, 'arguments': {'x': value}})}</tool_call>"
        for name, value in calls
    )
    prompt = [UserMessage(content="go")]
    ids = tokens.render(prompt, [ADD])
    sampled = [*tokens.encode(written), 2]
    said = tokens.message(tokens.said(sampled), tools=[ADD])
    assert said.content == ""
    assert [(call.name, json.loads(call.arguments)) for call in said.tool_calls] == [
        (name, {"x": value}) for name, value in calls
    ]
    messages = [*prompt, said, *(ToolMessage(content="3", tool_call_id=call.id) for call in said.tool_calls)]
    rendered = tokens.extend(Prior(messages=2, ids=ids + sampled), messages, [ADD])
    assert rendered.continues
    assert tokens.decode(rendered.ids).endswith("3<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.parametrize(
    ("text", "content", "name", "arguments"),
    [
        ('<tool_call>{"name": "add", "arguments": "{\\"a\\": 1}"}</tool_call>', "", "add", '{"a": 1}'),
        ('<tool_call>{"name": "add"}</tool_call>', "", "add", "{}"),
        ("<tool_call>{not json</tool_call>", "", "", "{not json"),
        ('<tool_call>["add"]</tool_call>', "", "", '["add"]'),
        ('<tool_call>{"name": 3}</tool_call>', "", "", '{"name": 3}'),
        ('<tool_call>{"name": "add", "argu', "", "", '{"name": "add", "argu'),
        (' Well. <tool_call>{"name": "add"}</tool_call> ', " Well.  ", "add", "{}"),
    ],
)
def test_a_call_that_cannot_be_read_goes_on_as_it_was_written(
    tokens: ChatTokens, text: str, content: str, name: str, arguments: str
) -> None:
    said = tokens.message(text, tools=[ADD], call_prefix="t")
    (call,) = said.tool_calls
    assert (said.content, call.name, call.arguments, call.id) == (content, name, arguments, "t-0")


def test_without_tools_a_tool_call_is_text(tokens: ChatTokens) -> None:
    text = '<tool_call>{"name": "add"}</tool_call>'
    assert tokens.message(text) == AssistantMessage(content=text)


def test_arguments_reach_the_template_as_the_object_they_are(tokens: ChatTokens) -> None:
    call = ToolCall(id="c", name="add", arguments='{"a": 1, "b": [2]}')
    text = tokens.text([UserMessage(content="q"), AssistantMessage(content=None, tool_calls=[call])], [ADD])
    assert '<tool_call>{"name": "add", "arguments": {"a": 1, "b": [2]}}</tool_call>' in text
    broken = ToolCall(id="c", name="add", arguments="{broken")
    assert "{broken" in tokens.text(
        [UserMessage(content="q"), AssistantMessage(content="", tool_calls=[broken])], [ADD]
    )


def test_text_parts_are_joined_and_other_parts_refused_by_kind(tokens: ChatTokens) -> None:
    parts = [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]
    assert tokens.text([UserMessage(content=parts)]) == tokens.text([UserMessage(content="a b")])
    with pytest.raises(Invalid, match="image_url"):
        tokens.text([UserMessage(content=[*parts, {"type": "image_url", "image_url": {"url": "x"}}])])


def test_a_template_that_refuses_a_conversation_says_so_with_its_roles(tmp_path: Path) -> None:
    template = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role here') }}{% endif %}x"
    with pytest.raises(Invalid, match=r"system, user.*no system role here"):
        chat(tmp_path, template).render([SystemMessage(content="s"), UserMessage(content="u")])


def test_a_tokenizer_without_a_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="no chat template"):
        chat(tmp_path, "")


def test_many_threads_tokenise_at_once(tokens: ChatTokens) -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            for index in range(200):
                text = f"{number}:{index}" * (1 + index % 7)
                if tokens.decode(tokens.encode_prompt(text)) != text:
                    wrong.append(text)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
