"""Wordle: find a five-letter word in six guesses.

Invariants: the same arguments give the same tasks on every machine; no held-out word is a training word; a message
makes at most one guess, and a message without one costs a guess, so nothing is gained by naming many words; a game that
is not won is worth less than any that is.
"""

from __future__ import annotations

import random
import re
from importlib import resources
from typing import Any

import sandlot as vf

LETTERS = 5

SYSTEM_PROMPT = """\
You play Wordle. Find the secret English word of five letters in at most {max_guesses} guesses.
After each guess you are shown five marks, one for each letter of your guess:
G  the letter is in the word, and in this place
Y  the letter is in the word, in another place
-  the letter is not in the word, or not once more
Make one guess in each message, between tags: <guess>…</guess>"""

_TAG = re.compile(r"<guess>(.*?)</guess>", re.DOTALL | re.IGNORECASE)
_WORD = re.compile(r"[a-z]{5}")


def load_environment(
    num_train: int = -1,
    num_eval: int = -1,
    max_guesses: int = 6,
    seed: int = 0,
) -> vf.Environment:
    """Builds the environment.

    Args:
        num_train: how many training words there are; -1 is all, about five hundred.
        num_eval: how many held-out words there are; -1 is all, about one hundred and twenty.
        max_guesses: how many guesses the model has.
        seed: orders the words. It does not change which words are held out.
    """
    if max_guesses < 1:
        raise ValueError(f"max_guesses is {max_guesses}; it must be at least 1")
    train, held_out = split_words()
    rubric = vf.Rubric(funcs=[won, fewer_guesses, letters, valid], weights=[0.6, 0.2, 0.2, 0.0])
    return Wordle(
        max_guesses=max_guesses,
        dataset=tasks_of(train, num_train, seed=f"wordle/train/{seed}"),
        eval_dataset=tasks_of(held_out, num_eval, seed=f"wordle/eval/{seed}"),
        system_prompt=SYSTEM_PROMPT.format(max_guesses=max_guesses),
        rubric=rubric,
    )


class Wordle(vf.MultiTurnEnv):
    """The environment marks a guess and says how many are left."""

    def __init__(self, max_guesses: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_guesses = max_guesses

    async def setup_state(self, state: vf.State) -> None:
        """No guess has been made."""
        state["history"] = []
        state["max_guesses"] = self.max_guesses

    async def env_response(self, messages: list[vf.Message], state: vf.State) -> str:
        """The marks of the guess."""
        guess = read_guess(messages[-1]["content"])
        state["history"].append({"guess": guess, "marks": mark(guess, state["answer"]) if guess else None})
        left = self.max_guesses - len(state["history"])
        if is_won(state):
            return f"{guess}: {'G' * LETTERS}. You found it."
        if guess is None:
            said = "That is not a guess: write one English word of five letters, as in <guess>…</guess>."
        else:
            said = f"{guess}: {state['history'][-1]['marks']}"
        return f"{said}\nGuesses left: {left}"

    async def is_completed(self, messages: list[vf.Message], state: vf.State) -> bool:
        """The word is found, or there is no guess left."""
        return is_won(state) or len(state["history"]) >= self.max_guesses

    async def oracle(self, task: vf.Task) -> list[str]:
        """The secret word as the first guess."""
        return [f"<guess>{task.answer}</guess>"]


def won(state: vf.State) -> vf.Score:
    """Whether the word was found."""
    if is_won(state):
        return vf.Score(1.0, feedback=f"found at guess {len(state['history'])} of {state['max_guesses']}")
    return vf.Score(0.0, feedback=f"the word was {state['answer']!r}")


def fewer_guesses(state: vf.State) -> float:
    """For a word that was found: the share of the further guesses that were not needed. 1 at the first guess."""
    if not is_won(state):
        return 0.0
    further = state["max_guesses"] - 1
    return 1.0 - (len(state["history"]) - 1) / further if further else 1.0


def letters(state: vf.State) -> float:
    """The best guess by its marks: each green letter counts 1/5, each yellow one 1/10."""
    marks = [entry["marks"] for entry in state["history"] if entry["marks"]]
    return max(((each.count("G") + 0.5 * each.count("Y")) / LETTERS for each in marks), default=0.0)


def valid(state: vf.State) -> float:
    """The share of messages that made a guess."""
    history = state["history"]
    return sum(entry["guess"] is not None for entry in history) / len(history) if history else 0.0


def is_won(state: vf.State) -> bool:
    """Whether the last guess is the word."""
    return bool(state["history"]) and state["history"][-1]["guess"] == state["answer"]


def read_guess(content: Any) -> str | None:
    """The guess in a message: what its last tag holds, or, without a tag, a message that is one word by itself."""
    text = str(content or "")
    tagged = _TAG.findall(text)
    said = (tagged[-1] if tagged else text).strip().strip("\"'`*[].,:;!?").lower()
    return said if _WORD.fullmatch(said) else None


def mark(guess: str, word: str) -> str:
    """The marks of `guess`. A letter is marked as often as the word has it: greens first, then yellows from the left.

    >>> mark("geese", "those")
    '---GG'
    """
    marks = ["G" if one == other else "-" for one, other in zip(guess, word, strict=True)]
    left = [other for one, other in zip(guess, word, strict=True) if one != other]
    for index, letter in enumerate(guess):
        if marks[index] == "-" and letter in left:
            marks[index] = "Y"
            left.remove(letter)
    return "".join(marks)


def split_words() -> tuple[list[str], list[str]]:
    """The training words, and every fifth word, which is held out."""
    words = resources.files(__name__).joinpath("words.txt").read_text(encoding="utf-8").split()
    return [word for number, word in enumerate(words) if number % 5], words[::5]


def tasks_of(words: list[str], count: int, *, seed: str) -> list[dict[str, Any]]:
    """The first `count` (-1: all) of the words in an order that `seed` decides."""
    if not -1 <= count <= len(words):
        raise ValueError(f"{count} words were asked for; there are {len(words)} (-1 takes them all)")
    order = random.Random(seed).sample(words, len(words))
    return [{"question": "Make your first guess.", "answer": word} for word in order[: count if count >= 0 else None]]
