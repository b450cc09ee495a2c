"""Small things that authors of the original API call while they load an environment or look at its results."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sandlot.envs.parsers import extract_boxed_answer, extract_hash_answer
from sandlot.errors import Invalid, MissingDependency, MissingKeyError
from sandlot.records import text_of

_EXAMPLES: dict[str, tuple[str, str | None, str, str, str]] = {
    "gsm8k": ("openai/gsm8k", "main", "test", "question", "answer"),
    "math": ("DigitalLearningGmbH/MATH-lighteval", None, "train", "problem", "solution"),
    "math500": ("HuggingFaceH4/MATH-500", None, "test", "problem", "answer"),
    "aime2024": ("HuggingFaceH4/aime_2024", None, "train", "problem", "answer"),
    "aime2025": ("opencompass/AIME2025", "AIME2025-I", "test", "question", "answer"),
    "amc2023": ("AI-MO/aimo-validation-amc", None, "train", "problem", "answer"),
}
"""Data sets by name: where they are, which part, their usual split, and the columns of question and answer."""

_CHOICES: dict[str, tuple[str, str | None, str]] = {
    "gpqa_diamond": ("Idavidrein/gpqa", "gpqa_diamond", "train"),
    "gpqa_main": ("Idavidrein/gpqa", "gpqa_main", "train"),
}
"""Data sets of questions with one right and three wrong answers: the answer is the letter of the right one."""

THINK_BOXED_SYSTEM_PROMPT = (
    "Think step by step inside <think>...</think> tags. "
    r"Then put your final answer inside \boxed{} and say nothing after it."
)
BOXED_SYSTEM_PROMPT = r"Reason step by step, then put your final answer inside \boxed{}."


def ensure_keys(keys: Sequence[str]) -> None:
    """`MissingKeyError` names every environment variable of `keys` that is not set."""
    missing = [key for key in keys if not os.environ.get(key)]
    if missing:
        raise MissingKeyError(
            f"this environment needs {', '.join(missing)}, not set here",
            hint="; ".join(f"export {key}=…" for key in missing),
        )


def setup_logging(level: str | int = "INFO", **_: Any) -> None:
    """Shows what sandlot logs from `level` on, on the standard error."""
    logger = logging.getLogger("sandlot")
    logger.setLevel(level.upper() if isinstance(level, str) else level)
    if not any(isinstance(handler, logging.StreamHandler) for handler in logger.handlers):
        shown = logging.StreamHandler()
        shown.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
        logger.addHandler(shown)


@contextlib.contextmanager
def log_level(level: str | int) -> Iterator[None]:
    """Within it, sandlot logs from `level` on."""
    logger = logging.getLogger("sandlot")
    before = logger.level
    logger.setLevel(level.upper() if isinstance(level, str) else level)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextlib.contextmanager
def quiet_verifiers(level: str | int = "WARNING") -> Iterator[None]:
    """Within it, sandlot logs warnings and worse alone."""
    with log_level(level):
        yield


def load_example_dataset(name: str = "gsm8k", split: str | None = None, n: int | None = None, seed: int = 0) -> Any:
    """A well-known data set as a `datasets.Dataset` with `question` and `answer`; `n` rows drawn by `seed` (-1: all).

    `Invalid` for a name that is not known, `MissingDependency` without the package `datasets`.
    """
    if name not in _EXAMPLES and name not in _CHOICES:
        raise Invalid(f"there is no example data set {name!r}", hint=f"there are {', '.join((*_EXAMPLES, *_CHOICES))}")
    try:
        import datasets  # heavy: only where an example data set is loaded
    except ImportError:
        raise MissingDependency("loading a data set needs the package datasets", hint="pip install datasets") from None
    path, part, usual = _CHOICES[name] if name in _CHOICES else _EXAMPLES[name][:3]
    rows = datasets.load_dataset(path, part, split=split or usual)
    form = _lettered if name in _CHOICES else functools.partial(_answered, name)
    rows = rows.map(form, remove_columns=rows.column_names)
    return rows if n is None or n < 0 else rows.select(random.Random(seed).sample(range(len(rows)), min(n, len(rows))))


def _answered(name: str, row: Mapping[str, Any]) -> dict[str, str]:
    *_, question, answer = _EXAMPLES[name]
    read = {"gsm8k": extract_hash_answer, "math": extract_boxed_answer}.get(name, str)
    return {"question": row[question], "answer": read(str(row[answer]))}


def _lettered(row: Mapping[str, Any]) -> dict[str, str]:
    """A question with its choices, in an order that depends on the question alone."""
    right = row["Correct Answer"]
    choices = [right, *(row[f"Incorrect Answer {number}"] for number in (1, 2, 3))]
    random.Random(row["Question"]).shuffle(choices)
    listed = [f"{letter}. {choice}" for letter, choice in zip("ABCD", choices, strict=True)]
    return {"question": "\n".join([row["Question"], "", *listed]), "answer": "ABCD"[choices.index(right)]}


def print_prompt_completions_sample(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    errors: Sequence[Any] = (),
    rewards: Sequence[float | None] = (),
    step: int = 0,
    num_samples: int = 1,
) -> None:
    """Prints the first `num_samples` prompts with what was said, how it failed and what it was worth."""
    from rich.console import Console  # heavy: a tenth of a second, only where something is printed
    from rich.table import Table

    table = Table(title=f"step {step}", show_lines=True)
    for heading in ("prompt", "completion", "reward"):
        table.add_column(heading)
    for number in range(min(num_samples, len(prompts))):
        error = errors[number] if number < len(errors) else None
        reward = rewards[number] if number < len(rewards) else None
        said = _spoken(completions[number]) + (f"\n\n{error}" if error else "")
        table.add_row(_spoken(prompts[number]), said, "" if reward is None else f"{reward:.3f}")
    Console().print(table)


def _spoken(messages: Any) -> str:
    if isinstance(messages, str):
        return messages
    return "\n\n".join(f"{message.get('role')}: {text_of(message.get('content'))}" for message in messages or [])
