"""Grades a sentence. Pure functions of the text: no model, no dictionary."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

SENTENCE = re.compile(r"[A-Z][A-Za-z'’]*(?:,? [A-Za-z][A-Za-z'’]*)*[.!?]")
WORD = re.compile(r"[a-z0-9'’]+")

_GRAMMAR_WORDS = """
a an the this that these those some every each no my your his her its our their i you he she it we they him me us them
who and or but so while when as because if than then of in on at by to for from with into over under near behind
through after before across up down out off about inside beside around between is are was were be been has have had do
does did will would can could not there
"""
GRAMMAR = frozenset(_GRAMMAR_WORDS.split())
"""Words that hold a sentence together. A list has next to none of them, an empty shell hardly anything else."""
ABOUT_THE_TASK = frozenset(
    {"begins", "sentence", "sentences", "word", "words", "contains", "containing", "write", "example"}
)
APART = 4
"""How far apart the two words must stand, so that 'the A and the B' is only half an answer."""


class Asked(NamedTuple):
    """What the sentence is to be like."""

    first: str
    second: str
    opening: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Grade:
    """The five parts, each from 0 to 1, and what there is to say about each."""

    words: float
    words_why: str
    opening: float
    opening_why: str
    length: float
    length_why: str
    form: float
    form_why: str
    natural: float
    natural_why: str

    @property
    def product(self) -> float:
        """1 exactly when everything that was asked holds."""
        return self.words * self.opening * self.length * self.form * self.natural


def grade(text: str, asked: Asked) -> Grade:
    """How well `text` is the sentence that was asked for."""
    pair, low, high = (asked.first, asked.second), asked.low, asked.high
    stripped = text.strip()
    said = WORD.findall(stripped.lower())
    counts = [said.count(word) for word in pair]
    off = max(low - len(said), len(said) - high, 0)
    if not any(counts):
        return _nothing("it has neither of the two words")
    if ABOUT_THE_TASK & set(said):
        return _nothing("it talks about the task")
    one_sentence = bool(SENTENCE.fullmatch(stripped)) and stripped.count(",") <= 1
    natural, why = _natural(said, pair)
    return Grade(
        words=sum(count == 1 for count in counts) / 2,
        words_why=", ".join(f"{word!r} {count} ×" for word, count in zip(pair, counts, strict=True)),
        opening=float(said[0] == asked.opening.lower()),
        opening_why=f"begins with {said[0]!r}, {asked.opening!r} was asked for",
        length=1 / (1 + off),
        length_why=f"{len(said)} words, {low} to {high} were asked for",
        form=float(one_sentence),
        form_why="one sentence" if one_sentence else "not one plain sentence from a capital to a full stop",
        natural=natural,
        natural_why=why,
    )


def _often(word: str) -> int:
    """How often a word may occur in one sentence."""
    return 3 if word in ("the", "a") else 2


def _nothing(why: str) -> Grade:
    return Grade(0, why, 0, why, 0, why, 0, why, 0, why)


def _natural(said: list[str], pair: tuple[str, str]) -> tuple[float, str]:
    content = [word for word in said if word not in GRAMMAR]
    share = 1 - len(content) / len(said) if said else 0.0
    if len(set(content)) < len(content) or any(said.count(word) > _often(word) for word in said):
        return 0.0, "words are repeated"
    if any(one == other for one, other in pairwise(said)):
        return 0.0, "a word is doubled"
    if not 0.25 <= share <= 0.67:
        return 0.0, f"{share:.0%} of it are grammar words; sentences have 25 % to 67 %"
    if all(word in said for word in pair) and abs(said.index(pair[0]) - said.index(pair[1])) < APART:
        return 0.5, "the two words stand side by side"
    return 1.0, "reads like a sentence"
