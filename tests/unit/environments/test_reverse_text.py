"""The reward of reverse-text on right, wrong and tricky answers."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies as st
from tests.unit.environments.first_party import environment, mean, play, reward, some

ENV = environment("reverse_text")
TASKS = some(ENV, 50)


def tagged(text: str) -> str:
    return f"<reversed_text>{text}</reversed_text>"


def rewards(answer) -> list[float]:  # type: ignore[no-untyped-def]
    return [reward(ENV, task, tagged(answer(task.answer))) for task in TASKS]


def test_the_closer_answer_is_worth_more() -> None:
    (task,) = [task for task in TASKS if len(task.answer) > 10][:1]
    worth = [reward(ENV, task, tagged(task.answer[:length])) for length in range(3, len(task.answer) + 1)]
    assert worth == sorted(worth)
    assert worth[-1] == 1.0
    assert 0.3 < worth[-2] < 1.0


def test_the_text_itself_is_worth_nothing_though_it_has_the_same_letters() -> None:
    assert rewards(lambda answer: answer[::-1]) == [0.0] * len(TASKS)


@pytest.mark.parametrize(
    "trick",
    [
        lambda answer: answer[::-1] * 2,
        lambda answer: (answer[::-1] + " ") * 20,
        lambda answer: "".join(sorted(answer)),
        lambda answer: "etaoin shrdlu",
        lambda answer: "abcdefghijklmnopqrstuvwxyz " * 20,
        lambda answer: answer[0] * len(answer),
        lambda answer: " ".join(word for word in reversed(answer[::-1].split())),
    ],
    ids=["twice", "many times", "sorted", "common letters", "alphabets", "one letter", "words in reverse order"],
)
def test_answers_made_without_reversing_are_worth_little(trick) -> None:  # type: ignore[no-untyped-def]
    worth = rewards(trick)
    assert mean(worth) < 0.25


def test_the_answer_between_much_other_text_does_not_pass_as_exact() -> None:
    task = TASKS[0]
    inside = play(ENV, task, [tagged(f"the answer is {task.answer} and that is all of it")])
    assert inside.verdict is not None
    assert inside.verdict.metrics["exact"] == 0.0
    assert inside.reward is not None
    assert inside.reward < 0.5


def test_an_answer_without_tags_is_worth_nothing_and_the_feedback_says_why() -> None:
    task = TASKS[0]
    rollout = play(ENV, task, [task.answer])
    assert rollout.verdict is not None
    assert rollout.reward == 0.0
    assert "reversed_text" in (rollout.verdict.rewards[0].feedback or "")


def test_the_form_is_a_metric_and_does_not_count() -> None:
    task = TASKS[0]
    neat, chatty = (play(ENV, task, [before + tagged(task.answer)]) for before in ("", "Here it is: "))
    assert neat.verdict is not None
    assert chatty.verdict is not None
    assert (neat.reward, chatty.reward) == (1.0, 1.0)
    assert (neat.verdict.metrics["tagged"], chatty.verdict.metrics["tagged"]) == (1.0, 0.0)


def test_no_word_of_a_held_out_text_occurs_in_training() -> None:
    words = {
        split: {word for task in ENV.playable.tasks(split) for word in task.answer[::-1].split()}
        for split in ("train", "eval")
    }
    assert len(words["eval"]) > 40
    assert not words["train"] & words["eval"]


def test_the_first_tasks_do_not_depend_on_how_many_there_are() -> None:
    short, long = (environment("reverse_text", num_train=count) for count in (10, 200))
    assert [task.id for task in some(short, 10, "train")] == [task.id for task in some(long, 10, "train")]
    assert [task.id for task in some(short, 10)] == [task.id for task in some(long, 10)]


def test_texts_are_as_long_as_asked() -> None:
    env = environment("reverse_text", min_words=2, max_words=2)
    assert {len(task.answer.split()) for task in itertools.islice(env.playable.tasks("train"), 100)} == {2}


@given(st.text(max_size=60))
def test_any_answer_is_worth_something_from_0_to_1_and_1_only_if_it_is_right(said: str) -> None:
    task = TASKS[1]
    worth = reward(ENV, task, tagged(said))
    assert 0.0 <= worth <= 1.0
    assert (worth == 1.0) == (said.strip() == task.answer)
