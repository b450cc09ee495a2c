from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st
from tests.unit.environments.first_party import environment, mean, play_oracle, reward, some

import sandlot as vf

ENV = environment("one_sentence")
TASK = vf.Task(
    id="t",
    prompt=[{"role": "user", "content": "?"}],
    fields={"first": "dog", "second": "river", "opening": "The", "low": 8, "high": 11},
)


@pytest.mark.parametrize(
    ("opening", "sentence"),
    [
        ("The", "The dog swam across the cold river before lunch."),
        ("My", "My old dog never went near the river again."),
        ("Did", "Did the little dog walk along the river alone?"),
        ("When", "When the dog barked, we ran down to the river."),
    ],
)
def test_a_sentence_that_does_what_was_asked_scores_1(opening: str, sentence: str) -> None:
    task = vf.Task(id="t", prompt=TASK.prompt, fields={**TASK.fields, "opening": opening})
    assert reward(ENV, task, sentence) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("sentence", "part", "value"),
    [
        ("The dog swam across the cold lake before lunch.", "words", 0.5),
        ("The dog saw the dog beside the cold river.", "words", 0.5),
        ("My dog swam across the cold river before lunch.", "opening", 0.0),
        ("The dog swam across the river.", "length", 1 / 3),
        ("The dog swam across the cold river before lunch", "form", 0.0),
        ("The dog swam across the cold river. It was lunch.", "form", 0.0),
        ("the dog swam across the cold river before lunch.", "form", 0.0),
        ("1. The dog swam across the cold river today.", "form", 0.0),
        ("Dog, river, lunch, tree, house, car, road, hill.", "form", 0.0),
        ("Dog river lunch tree house car road hill.", "natural", 0.0),
        ("The dog is the river is the very one it is.", "natural", 0.0),
        ("The dog the the a a an of the river.", "natural", 0.0),
        ("The dog and river and lunch and lunch here.", "natural", 0.0),
        ("The cold dog and river were there before lunch.", "natural", 0.5),
    ],
)
def test_each_part_is_graded_by_itself_and_the_whole_is_then_not_right(sentence: str, part: str, value: float) -> None:
    from sandlot.testing import ScriptedModel

    env = vf.SingleTurnEnv(
        dataset=[{"question": "?", **TASK.fields}], rubric=ENV.rubric, sampling_args={"max_tokens": 40}
    )
    (rollout,) = env.evaluate(model=ScriptedModel([sentence])).rollouts
    assert rollout.verdict is not None
    scores = {each.name: each for each in rollout.verdict.rewards}
    assert scores[part].value == pytest.approx(value)
    assert scores[part].feedback
    assert scores["everything"].value < 1.0
    assert 0.0 < (rollout.reward or 0.0) < 0.9


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I am sorry, I cannot do that.",
        'Write one sentence of 8 to 11 words that contains the words "dog" and "river".',
        'A sentence that contains the words "dog" and "river".',
        "Here is a sentence with the words dog and river.",
    ],
)
def test_echoes_refusals_and_talk_about_the_task_are_worth_nothing(text: str) -> None:
    assert reward(ENV, TASK, text) == 0.0


@given(st.text(max_size=80))
def test_whatever_is_said_the_reward_is_between_0_and_1_and_1_only_where_all_holds(text: str) -> None:
    from one_sentence.grading import Asked, grade

    found = grade(text, Asked("dog", "river", "The", 8, 11))
    parts = found.words + found.opening + found.length + found.form + found.natural
    total = 0.1 * parts + 0.5 * found.product
    assert 0.0 <= total <= 1.0
    assert (total > 0.999) == (found.product == 1.0)


def test_no_word_length_or_opening_of_a_held_out_task_occurs_in_training() -> None:
    splits = {}
    for split in ("train", "eval"):
        tasks = list(ENV.playable.tasks(split))
        words = {str(task.fields[key]) for task in tasks for key in ("first", "second")}
        lengths = {(task.fields["low"], task.fields["high"]) for task in tasks}
        openings = {task.fields["opening"] for task in tasks}
        splits[split] = (words, lengths, openings)
        assert all(re.search(rf'"{task.fields["first"]}"', task.prompt[-1]["content"]) for task in tasks)
    for train, held_out in zip(splits["train"], splits["eval"], strict=True):
        assert train
        assert held_out
        assert not train & held_out


def test_the_oracle_is_right_on_every_held_out_task() -> None:
    assert mean([play_oracle(ENV, task).reward or 0.0 for task in some(ENV, 200)]) == 1.0
