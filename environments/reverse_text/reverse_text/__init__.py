"""Reverse a short text, character by character.

Invariants: the same arguments give the same tasks on every machine; no word of a held-out task occurs in a training
task; answering with the text itself, or with nothing, is worth 0, and only the exact reversal is worth 1.
"""

from __future__ import annotations

import random
from importlib import resources
from typing import Any

import sandlot as vf

SYSTEM_PROMPT = """\
Reverse the text that the user gives you, character by character. Spaces count as characters.
Answer with the reversed text between tags, and nothing else: <reversed_text>…</reversed_text>"""

PARSER = vf.XMLParser(["reversed_text"], answer_field="reversed_text")


def load_environment(
    num_train: int = 1000,
    num_eval: int = 100,
    min_words: int = 1,
    max_words: int = 3,
    seed: int = 0,
) -> vf.Environment:
    """Builds the environment.

    Args:
        num_train: how many training tasks there are.
        num_eval: how many held-out tasks there are. Their words do not occur in training.
        min_words: the fewest words of a text.
        max_words: the most words of a text.
        seed: draws the tasks. Each split is drawn by itself, so its first tasks do not depend on its size.
    """
    if not 1 <= min_words <= max_words:
        raise ValueError(f"min_words {min_words} and max_words {max_words}: 1 <= min_words <= max_words must hold")
    known, unseen = split_words()
    lengths = range(min_words, max_words + 1)
    return ReverseText(
        dataset=draw_tasks(known, num_train, lengths=lengths, seed=f"reverse-text/train/{seed}"),
        eval_dataset=draw_tasks(unseen, num_eval, lengths=lengths, seed=f"reverse-text/eval/{seed}"),
        system_prompt=SYSTEM_PROMPT,
        parser=PARSER,
        rubric=vf.Rubric(funcs=[similarity, exact, tagged], weights=[1.0, 0.0, 0.0], parser=PARSER),
    )


class ReverseText(vf.SingleTurnEnv):
    """One text, one answer."""

    async def oracle(self, task: vf.Task) -> str:
        """The right answer in the asked form."""
        return f"<reversed_text>{task.answer}</reversed_text>"


def similarity(completion: list[vf.Message], answer: str, parser: vf.XMLParser) -> vf.Score:
    """How close the answer is to the reversal: 1 for the very text, 0 for what the unreversed text would get."""
    said = parser.parse_answer(completion)
    if not said:
        return vf.Score(0.0, feedback="there is no <reversed_text>…</reversed_text> with a text in it")
    unreversed = ratio(answer[::-1], answer)
    value = max(0.0, (ratio(said, answer) - unreversed) / (1.0 - unreversed))
    return vf.Score(value, feedback="right" if said == answer else f"{said[:200]!r} is not {answer!r}")


def exact(completion: list[vf.Message], answer: str, parser: vf.XMLParser) -> float:
    """Whether the answer is the reversal to the last character."""
    return float(parser.parse_answer(completion) == answer)


def tagged(completion: list[vf.Message]) -> float:
    """Whether the reply is one tag with the answer and nothing else."""
    text = str(completion[-1]["content"] or "").strip() if completion else ""
    is_whole = text.startswith("<reversed_text>") and text.endswith("</reversed_text>")
    return float(is_whole and text.count("<reversed_text>") == 1)


def ratio(one: str, other: str) -> float:
    """2 × (length of the longest common subsequence) / (sum of both lengths): 1 for equal texts, 0 for disjoint ones.

    An answer much longer than the text is cut before it is compared, and its whole length counts against it.
    """
    if not one or not other:
        return 0.0
    row = [0] * (len(other) + 1)
    for character in one[: 4 * len(other)]:
        diagonal = 0
        for index, wanted in enumerate(other, start=1):
            above = row[index]
            row[index] = diagonal + 1 if character == wanted else max(above, row[index - 1])
            diagonal = above
    return 2.0 * row[-1] / (len(one) + len(other))


def split_words() -> tuple[list[str], list[str]]:
    """The words of training, and every fifth word, which only held-out tasks use."""
    words = resources.files(__name__).joinpath("words.txt").read_text(encoding="utf-8").split()
    return [word for number, word in enumerate(words) if number % 5], words[::5]


def draw_tasks(words: list[str], count: int, *, lengths: range, seed: str) -> list[dict[str, Any]]:
    """`count` different texts of as many words as `lengths` says. `ValueError` if there are not so many."""
    possible = sum(len(words) ** length for length in lengths)
    # Texts are drawn until they are all different, which takes for ever where nearly every one is wanted.
    if count > possible // 2:
        raise ValueError(
            f"{count} different texts of {lengths.start} to {lengths.stop - 1} words cannot be drawn; "
            f"the most is {possible // 2}: raise max_words or ask for fewer"
        )
    draw = random.Random(seed)
    texts: dict[str, None] = {}
    while len(texts) < count:
        text = " ".join(draw.choice(words) for _ in range(draw.choice(lengths)))
        if text != text[::-1]:
            texts[text] = None
    return [{"question": text, "answer": text[::-1]} for text in texts]
