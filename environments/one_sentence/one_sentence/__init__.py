"""Write one sentence of a given length, with a given opening and two given words: easy to check, graded in parts.

Invariants: the tasks depend on the arguments alone; no word, length or opening of a held-out task occurs in training;
the reward is 1 exactly when everything that was asked holds.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from importlib import resources
from typing import Any

import sandlot as vf
from one_sentence.grading import Asked, Grade, grade

PROMPT = (
    'Write one sentence of {low} to {high} words that begins with "{opening}" and contains the words "{first}" '
    'and "{second}".'
)
TRAIN_LENGTHS = ((6, 9), (8, 11), (10, 14))
HELD_OUT_LENGTHS = ((7, 10), (9, 12))
TRAIN_OPENINGS = ("The", "A", "My", "When", "Every", "In", "One", "Our", "She", "Yesterday", "Because", "I")
HELD_OUT_OPENINGS = ("After", "They", "His", "Sometimes")
"""No sentence frame fits them all, so that what is learned is to write sentences and not one sentence."""

_ORACLE = {
    "After": "After the {first} came we saw the {second}",
    "Because": "Because of the {first} nobody saw the {second}",
    "Every": "Every {first} was right beside a {second}",
    "I": "I put the {first} right beside the {second}",
    "In": "In the {first} we found an old {second}",
    "She": "She put the {first} right beside the {second}",
    "Sometimes": "Sometimes the {first} was right beside the {second}",
    "They": "They put the {first} right beside the {second}",
    "When": "When the {first} came we saw the {second}",
    "Yesterday": "Yesterday the {first} was right beside the {second}",
}
_PLAIN = "{opening} {first} was right beside the {second}"
"""A right answer to all other openings."""
_LONGER = ("", " again", " before lunch", " long before lunch")
"""By how many words are missing."""

Row = dict[str, Any]


class OneSentence(vf.SingleTurnEnv):
    """One sentence for each pair of words."""

    async def oracle(self, task: vf.Task) -> str:
        """A plain sentence of the shortest length that is allowed, or of 7 words."""
        fields = task.fields
        said = _ORACLE.get(fields["opening"], _PLAIN).format(**fields)
        return said + _LONGER[max(0, fields["low"] - len(said.split()))] + "."


def load_environment(num_train: int = 2000, num_eval: int = 200, seed: int = 0) -> vf.Environment:
    """The environment with `num_train` training tasks and `num_eval` held-out ones, drawn by `seed`."""
    rubric = vf.Rubric()
    for part, weight in ((words, 0.1), (opening, 0.1), (length, 0.1), (form, 0.1), (natural, 0.1), (everything, 0.5)):
        rubric.add_reward_func(part, weight)
    return OneSentence(
        dataset=_rows("train.txt", TRAIN_LENGTHS, TRAIN_OPENINGS, count=num_train, seed=seed),
        eval_dataset=_rows("held_out.txt", HELD_OUT_LENGTHS, HELD_OUT_OPENINGS, count=num_eval, seed=seed),
        rubric=rubric,
        sampling_args={"max_tokens": 40},
        pass_threshold=1.0,
    )


def words(completion: vf.Messages, task: Row) -> vf.Score:
    """The share of the two words that occur exactly once."""
    found = _graded(completion, task)
    return vf.Score(found.words, feedback=found.words_why)


def opening(completion: vf.Messages, task: Row) -> vf.Score:
    """Whether the sentence begins with the asked word."""
    found = _graded(completion, task)
    return vf.Score(found.opening, feedback=found.opening_why)


def length(completion: vf.Messages, task: Row) -> vf.Score:
    """1 within the asked length, else 1 / (1 + words too few or too many)."""
    found = _graded(completion, task)
    return vf.Score(found.length, feedback=found.length_why)


def form(completion: vf.Messages, task: Row) -> vf.Score:
    """Whether it is one sentence and nothing else: a capital, words, at most one comma, one full stop."""
    found = _graded(completion, task)
    return vf.Score(found.form, feedback=found.form_why)


def natural(completion: vf.Messages, task: Row) -> vf.Score:
    """Whether it reads like a sentence, by signs that a list or an echo of the question does not have."""
    found = _graded(completion, task)
    return vf.Score(found.natural, feedback=found.natural_why)


def everything(completion: vf.Messages, task: Row) -> float:
    """The product of the five parts: all of the task at once."""
    return _graded(completion, task).product


def _graded(completion: vf.Messages, task: Row) -> Grade:
    text = str(completion[-1]["content"] or "") if completion else ""
    return grade(text, Asked(task["first"], task["second"], task["opening"], task["low"], task["high"]))


def _rows(
    file: str, lengths: Sequence[tuple[int, int]], openings: Sequence[str], *, count: int, seed: int
) -> list[Row]:
    vocabulary = resources.files(__package__).joinpath(file).read_text(encoding="utf-8").split()
    draw = random.Random(f"{seed} {file}")
    rows: list[Row] = []
    for number in range(count):
        first, second = draw.sample(vocabulary, 2)
        low, high = lengths[number % len(lengths)]
        row: Row = {"first": first, "second": second, "opening": draw.choice(openings), "low": low, "high": high}
        rows.append({"question": PROMPT.format(**row), **row})
    return rows
