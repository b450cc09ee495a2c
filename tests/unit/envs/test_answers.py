from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.unit.envs.playing import play_tasks

import sandlot as vf
from sandlot.envs import extract_choices, final_number
from sandlot.envs.answers import as_number
from sandlot.errors import MissingDependency


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("42", "42"), ("$29.00.", "29"), (r"\$70,000", "70000"), ("1{,}000", "1000"), ("−3", "-3"), ("**7**", "7"),
        ("-3.50", "-3.5"), ("1,23", None), ("3 apples", None), ("1/2", None), ("", None), ("x", None), ("2^3", None),
    ],
)  # fmt: skip
def test_a_number_is_read_whole_or_not_at_all(text: str, wanted: str | None) -> None:
    assert as_number(text) == (None if wanted is None else Decimal(wanted))


@given(st.integers(-(10**12), 10**12))
def test_any_grouping_of_an_integer_is_that_integer(number: int) -> None:
    for written in (str(number), f"{number:,}", f"{number}.00", f"**{number:,}**", f"the answer is {number:,}."):
        assert final_number(written) == number


@given(st.text(max_size=200))
def test_nothing_that_a_model_writes_raises(text: str) -> None:
    final_number(text)
    extract_choices(text)
    vf.exact_match(text, text)
    vf.last_verdict(text)
    vf.last_verdict(text, ["yes", "no"])


@pytest.mark.parametrize(
    ("reply", "choices", "wanted"),
    [
        ("[[5]]", [], "5"), ("Rating: 3", [], "3"), ("nothing", [], None), ("", [], None),
        ("Yes, though no one would mind. Yes.", ["yes", "no"], "yes"), ("nonsense", ["yes", "no"], None),
        ("VERDICT: **No**", ["yes", "no"], "no"), ("[[A]] [[B]]", ["A", "B"], "B"), ("[[C]] [[Z]]", ["C", "I"], "C"),
    ],
)  # fmt: skip
def test_the_last_verdict_of_a_reply_is_found(reply: str, choices: list[str], wanted: str | None) -> None:
    assert vf.last_verdict(reply, choices) == wanted


@pytest.mark.parametrize("text", ["ANSWER: A B C D E F G words", "ANSWER: E", "ANSWER:", "no letter", "ANSWER: AB"])
def test_what_is_no_list_of_offered_letters_is_no_choice(text: str) -> None:
    assert extract_choices(text, "ABCD") == []


def test_a_math_rubric_without_its_comparer_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "math_verify" else real(name, *rest)
    )
    with pytest.raises(MissingDependency) as caught:
        vf.MathRubric()
    assert caught.value.hint == "pip install 'sandlot[math]'"


def test_an_answer_longer_than_the_limit_is_zero_and_flagged() -> None:
    env = vf.SingleTurnEnv(dataset=[{"question": "?", "answer": "x"}], rubric=vf.MathRubric(max_verify_chars=100))
    (rollout,) = play_tasks(env, r"\boxed{" + "x" * 200 + "}")
    assert rollout.reward == 0.0
    assert rollout.verdict is not None
    assert rollout.verdict.metrics["math_limit"] == 1.0


@pytest.mark.parametrize("completion", ["", "I do not know.", "<think>\\boxed{4}</think> It is unclear."])
def test_no_answer_is_a_wrong_answer_with_a_reason(completion: Any) -> None:
    env = vf.SingleTurnEnv(dataset=[{"question": "?", "answer": "4"}], rubric=vf.MathRubric())
    (rollout,) = play_tasks(env, completion)
    assert rollout.reward == 0.0
    assert rollout.verdict is not None
    assert rollout.verdict.rewards[0].feedback == "no answer was found"
