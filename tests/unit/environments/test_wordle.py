"""Wordle's marks, its end and its reward on games that are won, lost and cheated at."""

from __future__ import annotations

import sys
from collections import Counter

import pytest
from hypothesis import given, strategies as st
from tests.unit.environments.first_party import FOLDER, environment, play, reward, some

from sandlot.envs import find
from sandlot.records import Task

ENV = environment("wordle")
TASK = some(ENV, 1)[0]
wordle = sys.modules[find(str(FOLDER / "wordle")).module]
WORDS = wordle.split_words()[0]


def game(*guesses: str, task: Task = TASK):  # type: ignore[no-untyped-def]
    return play(ENV, task, [f"<guess>{guess}</guess>" for guess in guesses])


@pytest.mark.parametrize(
    ("guess", "word", "marks"),
    [
        ("crane", "crane", "GGGGG"),
        ("slate", "crane", "--G-G"),
        ("speed", "abide", "--Y-Y"),
        ("geese", "those", "---GG"),
        ("allow", "llama", "YGY--"),
        ("eerie", "there", "Y-Y-G"),
        ("mamma", "magma", "GG-GG"),
        ("fuzzy", "fuzzy", "GGGGG"),
    ],
)
def test_a_letter_is_marked_as_often_as_the_word_has_it(guess: str, word: str, marks: str) -> None:
    assert wordle.mark(guess, word) == marks


@given(st.sampled_from(WORDS), st.text("abcde", min_size=5, max_size=5) | st.sampled_from(WORDS))
def test_marks_never_show_more_of_a_letter_than_there_is(word: str, guess: str) -> None:
    marks = wordle.mark(guess, word)
    for letter, marked in Counter(one for one, mark in zip(guess, marks, strict=True) if mark != "-").items():
        assert marked == min(word.count(letter), guess.count(letter))
    assert [mark == "G" for mark in marks] == [one == other for one, other in zip(guess, word, strict=True)]


def test_each_further_guess_costs_and_a_word_found_at_the_last_guess_is_still_won() -> None:
    worth = [
        reward(ENV, TASK, *["<guess>zzzzz</guess>"] * before, f"<guess>{TASK.answer}</guess>") for before in range(6)
    ]
    assert worth == pytest.approx([1.0, 0.96, 0.92, 0.88, 0.84, 0.8])


def test_a_lost_game_ends_after_six_guesses_and_is_worth_less_than_any_won_one() -> None:
    other = TASK.answer[:4] + ("x" if TASK.answer[4] != "x" else "y")
    rollout = game(other)
    assert (len(rollout.turns), rollout.status) == (6, "scored")
    assert rollout.reward == pytest.approx(0.2 * 0.8)
    assert rollout.verdict is not None
    assert TASK.answer in (rollout.verdict.rewards[0].feedback or "")


def test_the_game_ends_with_the_right_guess_and_no_further_call() -> None:
    rollout = game("zzzzz", TASK.answer, "never")
    assert len(rollout.turns) == 2
    assert rollout.tail[-1]["content"] == f"{TASK.answer}: GGGGG. You found it."


def test_the_model_sees_the_marks_and_what_is_left() -> None:
    rollout = game("zzzzz", TASK.answer)
    assert rollout.turns[1].prompt[-1]["content"] == "zzzzz: -----\nGuesses left: 5"


@pytest.mark.parametrize(
    "said",
    [
        "{}",
        "{}.",
        "  {}\n",
        "[{}]",
        "**{}**",
        "<guess>{}</guess>",
        "<GUESS> {} </GUESS>",
        "I think: <guess>{}</guess>!",
    ],
)
def test_a_guess_may_be_tagged_or_one_word_by_itself_in_any_case(said: str) -> None:
    assert reward(ENV, TASK, said.format(TASK.answer)) == 1.0
    assert reward(ENV, TASK, said.format(TASK.answer.upper())) == 1.0


@pytest.mark.parametrize("said", ["my guess is {}", "{} zzzzz", "<guess>{} zzzzz</guess>", "<guess>{}", "{0}{0}"])
def test_a_word_among_others_is_no_guess_and_costs_one(said: str) -> None:
    rollout = play(ENV, TASK, [said.format(TASK.answer)])
    assert (rollout.reward, len(rollout.turns)) == (0.0, 6)
    assert "not a guess" in rollout.turns[1].prompt[-1]["content"]
    assert rollout.verdict is not None
    assert rollout.verdict.metrics["valid"] == 0.0


def test_naming_many_words_in_one_message_makes_only_the_last_guess() -> None:
    stuffed = "".join(f"<guess>{word}</guess>" for word in [*WORDS, TASK.answer, "zzzzz"])
    assert reward(ENV, TASK, stuffed) == 0.0
    assert reward(ENV, TASK, " ".join(WORDS)) == 0.0


def test_the_word_is_in_nothing_that_the_model_sees_before_it_finds_it() -> None:
    for task in some(ENV, 20):
        rollout = game("zzzzz", task=task)
        seen = " ".join(str(message["content"]) for turn in rollout.turns for message in turn.prompt)
        assert task.answer not in seen.replace("guess", "") or task.answer in str(ENV.system_prompt)


def test_one_guess_only_can_be_asked_for() -> None:
    env = environment("wordle", max_guesses=1)
    assert reward(env, TASK, f"<guess>{TASK.answer}</guess>") == 1.0
    assert len(play(env, TASK, ["zzzzz"]).turns) == 1


def test_a_held_out_word_is_no_training_word() -> None:
    train, held_out = ({task.answer for task in ENV.playable.tasks(split)} for split in ("train", "eval"))
    assert not train & held_out
    assert (len(train), len(held_out)) == (503, 126)
