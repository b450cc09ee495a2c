"""Read an answer out of what the model said.

Invariants: a parser never raises on what a model wrote; an empty completion, or one without an assistant message, has
no answer; text and a conversation that ends in the same text give the same answer.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from sandlot.records import JsonObject, Message, text_of

Completion = str | Sequence[Mapping[str, Any]]


def _identity(text: str) -> Any:
    return text


class Parser:
    """Takes the last assistant message as the answer, through `extract_fn`."""

    def __init__(self, extract_fn: Callable[[str], Any] = _identity) -> None:
        self.extract_fn = extract_fn
        self.logger = logging.getLogger(f"sandlot.envs.{type(self).__name__}")

    def parse(self, text: str) -> Any:
        """What `text` says."""
        return self.extract_fn(text)

    def parse_answer(self, completion: Completion) -> Any:
        """The answer in a completion: text, or messages of which the last assistant message counts. None if none."""
        text = self._last_text(completion)
        return None if text is None else self.parse(text)

    def get_assistant_messages(self, completion: Sequence[Mapping[str, Any]]) -> list[JsonObject]:
        """The assistant's messages."""
        return self._by_role(completion, "assistant")

    def get_system_messages(self, completion: Sequence[Mapping[str, Any]]) -> list[JsonObject]:
        """The system messages."""
        return self._by_role(completion, "system")

    def get_user_messages(self, completion: Sequence[Mapping[str, Any]]) -> list[JsonObject]:
        """The user's messages."""
        return self._by_role(completion, "user")

    def get_tool_messages(self, completion: Sequence[Mapping[str, Any]]) -> list[JsonObject]:
        """The tools' messages."""
        return self._by_role(completion, "tool")

    def get_format_reward_func(self) -> Callable[..., float]:
        """A reward for the form alone; here every form is right."""

        def format_reward_func(completion: Completion, **_: Any) -> float:
            return 1.0

        return format_reward_func

    def _by_role(self, completion: Sequence[Mapping[str, Any]], role: str) -> list[Any]:
        if isinstance(completion, str):
            return [Message(role="assistant", content=completion)] if role == "assistant" else []
        return [message for message in completion if message.get("role") == role]

    def _last_text(self, completion: Completion) -> str | None:
        if isinstance(completion, str):
            return completion or None
        messages = self.get_assistant_messages(completion)
        return text_of(messages[-1].get("content")) if messages else None


class ThinkParser(Parser):
    """Takes what follows the last `</think>`; without one there is no answer, only thought."""

    def parse(self, text: str) -> Any:
        """`extract_fn` of what follows the last `</think>`."""
        _, tag, rest = text.rpartition("</think>")
        return self.extract_fn(rest.strip() if tag else "")

    def get_format_reward_func(self) -> Callable[..., float]:
        """1 if every assistant message begins with one closed thought and says something after it."""

        def format_reward_func(completion: Completion, **_: Any) -> float:
            messages = self.get_assistant_messages(completion)  # type: ignore[arg-type]
            return _share(_thinks(text_of(message.get("content"))) for message in messages)

        return format_reward_func


class MaybeThinkParser(Parser):
    """Takes what follows the last `</think>` if there is one, else everything."""

    def parse(self, text: str) -> Any:
        """`extract_fn` of what follows the last `</think>`, or of the whole text."""
        return self.extract_fn(text.rpartition("</think>")[2].strip())


class XMLParser(Parser):
    """Takes fields from tags: `XMLParser(["think", ("code", "answer")])` reads `<think>…</think>` and either tag."""

    def __init__(
        self,
        fields: Sequence[str | tuple[str, ...]],
        answer_field: str = "answer",
        extract_fn: Callable[[str], Any] = _identity,
    ) -> None:
        super().__init__(extract_fn)
        self.answer_field = answer_field
        self._fields = [(field,) if isinstance(field, str) else tuple(field) for field in fields]
        names = [name for field in self._fields for name in field]
        if not self._fields or len(set(names)) != len(names):
            raise ValueError(f"an XMLParser needs fields with different names, found {list(fields)!r}")

    def get_fields(self) -> list[str]:
        """The first name of every field."""
        return [field[0] for field in self._fields]

    def parse(self, text: str, strip: bool = True, last: bool = False) -> SimpleNamespace:
        """Every field name as an attribute: the first occurrence (or, with `last`, the last) of its tag, else None."""
        found: dict[str, str | None] = {}
        for field in self._fields:
            for name in field:
                matches = re.findall(rf"<{re.escape(name)}>(.*?)</{re.escape(name)}>", text, re.DOTALL)
                value = (matches[-1] if last else matches[0]) if matches else None
                found[name] = value.strip() if strip and value is not None else value
        return SimpleNamespace(**found)

    def parse_answer(self, completion: Completion) -> Any:
        """The answer field of the last assistant message that has it: its last occurrence there. None if none has."""
        for message in reversed(self.get_assistant_messages(completion)):  # type: ignore[arg-type]
            answer = getattr(self.parse(text_of(message.get("content")), last=True), self.answer_field, None)
            if answer is not None:
                return self.extract_fn(answer)
        return None

    def format(self, **values: Any) -> str:
        """The fields as tagged text, in their order. `ValueError` if a field is missing."""
        parts = []
        for field in self._fields:
            name = next((name for name in field if name in values), None)
            if name is None:
                raise ValueError(f"a value is missing for {' or '.join(field)}")
            parts.append(f"<{name}>\n{values[name]}\n</{name}>")
        return "\n".join(parts)

    def get_format_str(self) -> str:
        """What the format looks like, to be put into a prompt."""
        return "\n".join(f"<{'|'.join(field)}>\n...\n</{'|'.join(field)}>" for field in self._fields)

    def get_format_reward_func(self) -> Callable[..., float]:
        """The mean over assistant messages of: 0.4 × share of fields present, 0.2 for text without stray spaces
        around fields, 0.2 for beginning with the first field, 0.2 for ending with the last."""

        def format_reward_func(completion: Completion, **_: Any) -> float:
            messages = self.get_assistant_messages(completion)  # type: ignore[arg-type]
            return _share(self._form(text_of(message.get("content"))) for message in messages)

        return format_reward_func

    def _form(self, text: str) -> float:
        parsed, exact = self.parse(text.strip()), self.parse(text.strip(), strip=False)
        present = [name for field in self._fields for name in field if getattr(parsed, name) is not None]
        if not present:
            return 0.0
        score = 0.4 * sum(any(name in present for name in field) for field in self._fields) / len(self._fields)
        if all(getattr(exact, name) is not None for name in present):
            score += 0.2
        if any(text.strip().startswith(f"<{name}>") for name in self._fields[0]):
            score += 0.2
        if any(text.strip().endswith(f"</{name}>") for name in self._fields[-1]):
            score += 0.2
        return score


def extract_boxed_answer(text: str, strict: bool = False) -> str:
    r"""The content of the last `\boxed{…}` whose braces are balanced; `text` itself if there is none, or `""` if
    `strict`. A later mention of `\boxed` without braces does not count."""
    found: str | None = None
    for start in (match.end() for match in re.finditer(r"\\boxed\s*\{", text)):
        depth, position = 1, start
        while position < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[position], 0)
            position += 1
        if not depth:
            found = text[start : position - 1]
    return found if found is not None else ("" if strict else text)


def extract_hash_answer(text: str) -> str:
    """What follows the last `####`, as GSM8K writes its answers; `text` itself if there is none."""
    return text.rpartition("####")[2].strip() if "####" in text else text


def _thinks(text: str) -> float:
    stripped = text.strip()
    closed = stripped.startswith("<think>") and stripped.count("<think>") == stripped.count("</think>") == 1
    return float(closed and bool(stripped.partition("</think>")[2].strip()))


def _share(scores: Any) -> float:
    values = list(scores)
    return sum(values) / len(values) if values else 0.0
