"""Write one sentence of a given length that contains two given words: a verifiable instruction, graded in parts.

Invariants: the tasks depend on the arguments alone; no word and no length of a held-out task occurs in training; the
reward is 1 exactly when everything that was asked holds.
"""

from __future__ import annotations

import random
from importlib import resources

import sandlot as vf
from one_sentence.grading import Grade, grade

PROMPT = 'Write one sentence of {low} to {high} words that contains the words "{first}" and "{second}".'
TRAIN_LENGTHS = ((6, 9), (8, 11), (10, 14))
HELD_OUT_LENGTHS = ((7, 10), (9, 12))

_ORACLE = {
    7: "The {first} was right beside the {second}.",
    8: "The {first} was right beside the old {second}.",
    9: "The {first} was right beside the old {second} yesterday.",
    10: "The {first} was right beside the old {second} before dinner.",
}
"""A right answer by its length; 7 also fits where 6 is the least."""

Row = dict[str, str | int]


class OneSentence(vf.SingleTurnEnv):
    """One sentence for each pair of words."""

    async def oracle(self, task: vf.Task) -> str:
        """A plain sentence of the shortest length that is allowed, or of 7 words."""
        first, second, low = task.fields["first"], task.fields["second"], task.fields["low"]
        fitting = max(length for length in _ORACLE if length <= max(low, min(_ORACLE)))
        return _ORACLE[fitting].format(first=first, second=second)


def load_environment(num_train: int = 2000, num_eval: int = 200, seed: int = 0) -> vf.Environment:
    """The environment with `num_train` training tasks and `num_eval` held-out ones, drawn by `seed`."""
    rubric = vf.Rubric()
    for part, weight in ((words, 0.125), (length, 0.125), (form, 0.125), (natural, 0.125), (everything, 0.5)):
        rubric.add_reward_func(part, weight)
    return OneSentence(
        dataset=_rows("train.txt", TRAIN_LENGTHS, num_train, seed),
        eval_dataset=_rows("held_out.txt", HELD_OUT_LENGTHS, num_eval, seed),
        rubric=rubric,
        sampling_args={"max_tokens": 40},
        pass_threshold=1.0,
    )


def words(completion: vf.Messages, first: str, second: str, low: int, high: int) -> vf.Score:
    """The share of the two words that occur exactly once."""
    found = _graded(completion, first, second, low, high)
    return vf.Score(found.words, feedback=found.words_why)


def length(completion: vf.Messages, first: str, second: str, low: int, high: int) -> vf.Score:
    """1 within the asked length, else 1 / (1 + words too few or too many)."""
    found = _graded(completion, first, second, low, high)
    return vf.Score(found.length, feedback=found.length_why)


def form(completion: vf.Messages, first: str, second: str, low: int, high: int) -> vf.Score:
    """Whether it is one sentence and nothing else: a capital, words, at most one comma, one full stop."""
    found = _graded(completion, first, second, low, high)
    return vf.Score(found.form, feedback=found.form_why)


def natural(completion: vf.Messages, first: str, second: str, low: int, high: int) -> vf.Score:
    """Whether it reads like a sentence, by signs that a list or an echo of the question does not have."""
    found = _graded(completion, first, second, low, high)
    return vf.Score(found.natural, feedback=found.natural_why)


def everything(completion: vf.Messages, first: str, second: str, low: int, high: int) -> float:
    """The product of the four parts: all of the task at once."""
    return _graded(completion, first, second, low, high).product


def _graded(completion: vf.Messages, first: str, second: str, low: int, high: int) -> Grade:
    text = str(completion[-1]["content"] or "") if completion else ""
    return grade(text, (first, second), low=low, high=high)


def _rows(file: str, lengths: tuple[tuple[int, int], ...], count: int, seed: int) -> list[Row]:
    vocabulary = resources.files(__package__).joinpath(file).read_text(encoding="utf-8").split()
    draw = random.Random(f"{seed} {file}")
    rows: list[Row] = []
    for number in range(count):
        first, second = draw.sample(vocabulary, 2)
        low, high = lengths[number % len(lengths)]
        question = PROMPT.format(low=low, high=high, first=first, second=second)
        rows.append({"question": question, "first": first, "second": second, "low": low, "high": high})
    return rows
