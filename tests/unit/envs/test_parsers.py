from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

import sandlot as vf

ANSWERS = "<answer>44</answer><reasoning>not right</reasoning><answer>45</answer>"


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": "?"}, {"role": "assistant", "content": text}]


@pytest.mark.parametrize("completion", [ANSWERS, said(ANSWERS), [*said("<answer>1</answer>"), *said(ANSWERS)]])
def test_GRAD_15_the_last_answer_counts_in_text_and_in_messages(completion: Any) -> None:
    assert vf.XMLParser(["reasoning", "answer"]).parse_answer(completion) == "45"


@pytest.mark.parametrize("parser", [vf.Parser(), vf.ThinkParser(), vf.MaybeThinkParser(), vf.XMLParser(["answer"])])
@pytest.mark.parametrize("completion", [[], [{"role": "user", "content": "Hello"}], ""])
def test_GRAD_16_where_nothing_was_said_there_is_no_answer(parser: vf.Parser, completion: Any) -> None:
    assert parser.parse_answer(completion) is None
    assert 0.0 <= parser.get_format_reward_func()(completion) <= 1.0


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"<think>try \boxed{5}</think> The answer is \boxed{7}", "7"),
        (r"try \boxed{5}</think> So it is unclear.", ""),
        (r"no thought at all: \boxed{3}", "3"),
    ],
)
def test_GRAD_22_what_was_boxed_while_thinking_is_no_answer(text: str, answer: str) -> None:
    parser = vf.MaybeThinkParser(lambda rest: vf.extract_boxed_answer(rest, strict=True))
    assert parser.parse_answer(said(text)) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"First I thought \boxed{2}, but actually \boxed{3}", "3"),
        (r"so \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"We get \boxed{3}. Mark your solution with \boxed .", "3"),
        (r"therefore \boxed{840}., but let me explain. **Final Answer** \boxed{840}", "840"),
        (r"nested \boxed{a_{b_{c}}} and open \boxed{", "a_{b_{c}}"),
    ],
)
def test_GRAD_01_02_04_05_the_last_balanced_box_is_the_answer(text: str, answer: str) -> None:
    assert vf.extract_boxed_answer(text) == answer


@given(st.text(alphabet=r"\boxed{} 12<>/answerthink", max_size=60))
def test_parsers_never_raise_on_what_a_model_wrote(text: str) -> None:
    vf.extract_boxed_answer(text)
    for parser in (vf.Parser(), vf.ThinkParser(), vf.MaybeThinkParser(), vf.XMLParser(["think", ("a", "answer")])):
        assert parser.parse_answer(text) == parser.parse_answer([{"role": "assistant", "content": text}]) or not text
        assert 0.0 <= parser.get_format_reward_func()(said(text)) <= 1.0


@given(st.text(alphabet="abc {}", max_size=20).filter(lambda text: text.count("{") == text.count("}") == 0))
def test_what_is_boxed_comes_out_again(content: str) -> None:
    assert vf.extract_boxed_answer(rf"so \boxed{{{content}}} it is") == content


def test_the_thought_is_cut_off() -> None:
    assert vf.ThinkParser().parse_answer(said("<think>hm</think> 42")) == "42"
    assert vf.ThinkParser().parse_answer(said("42 without thinking")) == ""
    assert vf.ThinkParser().get_format_reward_func()(said("<think>hm</think> 42")) == 1.0
    assert vf.ThinkParser().get_format_reward_func()(said("42")) == 0.0


def test_fields_may_have_alternatives_and_are_written_back_in_order() -> None:
    parser = vf.XMLParser(["think", ("code", "answer")])
    assert parser.get_fields() == ["think", "code"]
    assert parser.format(think="hm", answer="42") == "<think>\nhm\n</think>\n<answer>\n42\n</answer>"
    assert parser.parse("<answer> 42 </answer>").answer == "42"
    assert parser.parse("<answer> 42 </answer>").think is None
    assert parser.get_format_reward_func()(said(parser.format(think="hm", answer="42"))) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="code or answer"):
        parser.format(think="hm")


def test_hash_answers() -> None:
    assert vf.extract_hash_answer("because 6 * 7\n#### 42") == "42"
    assert vf.extract_hash_answer("no mark") == "no mark"
