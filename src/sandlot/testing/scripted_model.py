"""A model that says what a test wrote down, and remembers what it was asked.

Invariants: it keeps the whole `Model` port, so what runs on it runs on a real one; any number of calls at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from sandlot.models import Completion, Model, Prior
from sandlot.records import Message, Messages, Sampling, Tokens, Tool, Usage, as_message, text_of
from sandlot.testing.script import Answers, Script, said

Encode: TypeAlias = Callable[[str], list[int]]
_LOGPROB = -0.5


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call, as it came in."""

    messages: Messages
    tools: list[Tool]
    sampling: Sampling


class ScriptedModel(Model):
    """Answers from `answers`: one for all calls, a list in order, a table by the text of the last user message (the
    key `*` stands for all others), or a function of the messages. An exception among the answers is raised.

    `delay`: seconds each call takes, or a function that gives them. `usage`: what each call reports (default: a token
    for each word). `encode`: text to token ids; with it a completion has tokens, each with log-probability -0.5, and
    continues from a `Prior`.
    """

    def __init__(
        self,
        answers: Answers = "ok",
        *,
        name: str = "scripted",
        delay: float | Callable[[], float] = 0.0,
        usage: Usage | None = None,
        encode: Encode | None = None,
    ) -> None:
        self.name = name
        self.calls: list[Call] = []
        self.most_at_once = 0
        """The most calls that were in flight together."""
        self._in_flight = 0
        self._script = Script(answers)
        self._delay = delay
        self._usage = usage
        self._encode = encode

    async def generate(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        sampling: Sampling,
        prior: Prior | None = None,
    ) -> Completion:
        """The next answer of the script. `OutOfAnswers` where it has none."""
        kept = [as_message(dict(message)) for message in messages]
        self.calls.append(Call(messages=kept, tools=list(tools), sampling=sampling))
        self._in_flight += 1
        self.most_at_once = max(self.most_at_once, self._in_flight)
        try:
            seconds = self._delay() if callable(self._delay) else self._delay
            if seconds:
                await asyncio.sleep(seconds)
            answer = await self._script.answer(kept)
        finally:
            self._in_flight -= 1
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Completion):
            return answer
        message = said(answer)
        tokens, continues = self._tokens(kept, message, prior)
        return Completion(
            message=message,
            finish="tool_calls" if message.get("tool_calls") else "stop",
            usage=self._usage or _usage(kept, message),
            tokens=tokens,
            continues=continues,
        )

    def _tokens(self, messages: Messages, message: Message, prior: Prior | None) -> tuple[Tokens | None, bool]:
        if self._encode is None:
            return None, False
        new = messages if prior is None else messages[prior.messages :]
        prompt = [id for each in new for id in self._encode(_written(each))]
        sampled = self._encode(text_of(message.get("content")))
        tokens = Tokens(prompt=prompt, sampled=sampled, logprobs=[_LOGPROB] * len(sampled))
        return tokens, prior is not None


def _written(message: Message) -> str:
    return f"<{message.get('role')}>{text_of(message.get('content'))}\n"


def _usage(messages: Messages, message: Message) -> Usage:
    words = sum(len(text_of(each.get("content")).split()) for each in messages)
    return Usage(prompt_tokens=words, completion_tokens=len(text_of(message.get("content")).split()))
