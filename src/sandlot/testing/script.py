"""What a fake model says: one answer, a list, a table by the last user message, or a function of the messages.

Invariants: a list is used up in the order of the calls, each answer once, however many calls there are at once; a fake
that has nothing to say raises and says so, because a made-up answer would hide a wrong test.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from sandlot.models import Completion
from sandlot.records import AssistantMessage, Message, as_message, text_of

Answer: TypeAlias = str | Mapping[str, Any] | Completion | BaseException
"""Text, a message, a whole completion, or an exception to raise."""
Answers: TypeAlias = (
    Answer | Sequence[Answer] | Mapping[str, Answer] | Callable[[Sequence[Message]], Answer | Awaitable[Answer]]
)
ANY = "*"
"""The key of a table that answers every message that has no row of its own."""


class OutOfAnswers(AssertionError):
    """A scripted model was asked more than its script answers."""


class Script:
    """Gives the answer to a conversation."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._asked = 0

    async def answer(self, messages: Sequence[Message]) -> Answer:
        """The next answer. `OutOfAnswers` where the script has none."""
        answers = self._answers
        if isinstance(answers, str | Message | Completion | BaseException):
            return answers
        if isinstance(answers, Mapping):
            return cast(Answer, answers) if "role" in answers else self._row(answers, messages)
        if callable(answers):
            answer = answers(messages)
            return await answer if inspect.isawaitable(answer) else answer
        self._asked += 1
        if self._asked > len(answers):
            raise OutOfAnswers(f"the script has {len(answers)} answers and this is call {self._asked}")
        return answers[self._asked - 1]

    def _row(self, table: Mapping[str, Answer], messages: Sequence[Message]) -> Answer:
        said = last_user_text(messages)
        if said in table:
            return table[said]
        if ANY in table:
            return table[ANY]
        raise OutOfAnswers(f"the script has no answer to {said!r}; it has answers to {sorted(table)}")


def last_user_text(messages: Sequence[Message]) -> str:
    """The text of the last message that a user wrote, or an empty one."""
    users = (message.get("content") for message in reversed(messages) if message.get("role") == "user")
    return text_of(next(users, None))


def said(answer: str | Mapping[str, Any]) -> AssistantMessage:
    """An answer as the message that it stands for."""
    if isinstance(answer, str):
        return AssistantMessage(content=answer)
    message = as_message({"role": "assistant", **answer})
    if not isinstance(message, AssistantMessage):
        raise TypeError(f"a model says assistant messages; the script has a {message.get('role')!r} message")
    return message
