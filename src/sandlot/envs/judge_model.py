"""The model behind a judge, what is shown to it and what its reply says.

Invariants: nothing is connected and no key is read before the first question; what a candidate wrote cannot close the
tags that it stands in nor look like a verdict; of several verdicts in a reply the last one counts, and none that the
judge quotes or only thinks of.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from sandlot.engine import State
from sandlot.envs.sampling import check_sampling, sampling_of
from sandlot.errors import Invalid, NotFound
from sandlot.models import PROVIDERS, Completion, Model, connect, from_client
from sandlot.records import AssistantMessage, Message, Sampling, Usage, UserMessage, as_messages, text_of

POLICY = "policy"
"""The name of a judge that is the model whose rollout is judged."""

_LABELLED = re.compile(
    r"\[\[\s*(?P<boxed>[^\[\]]+?)\s*\]\]"
    r"|\b(?:grade|rating|verdict|score)\s*:\s*[*_`]*(?P<label>[A-Za-z]+|[-+]?\d+(?:\.\d+)?)\b",
    re.IGNORECASE,
)
_BOXED = re.compile(r"\[\[\s*[*_`]*([^\[\]]+?)[*_`]*\s*\]\]")
_QUOTATION = re.compile(r"^[ \t]*>.*$|(?<!\w)\"(?=\S)[^\"\n]*\"(?!\w)|“[^”\n]*”|«[^»\n]*»", re.MULTILINE)
_TAG = re.compile(r"<(?=[A-Za-z/!])")
_BRACKETS = re.compile(r"\[(?=\[)|\](?=\])")


class JudgeModel:
    """A model that is connected when it is first asked, with the interface of an OpenAI client beside its own.

    `client` may be a `Model`, an `AsyncOpenAI` or something like it, or None: then `name` is connected as `sandlot eval
    -m` does, and a name that leads nowhere is taken for one of OpenAI's (or of `OPENAI_BASE_URL`), unless `connecting`
    has other ways. The name `policy` is the model that is played, which each rollout's state knows.
    """

    def __init__(
        self,
        client: Any,
        name: str,
        sampling_args: Mapping[str, Any] | None = None,
        *,
        connecting: Callable[[str], Model] | None = None,
    ) -> None:
        self.client = client
        self.name = name
        self.sampling_args = dict(sampling_args or {})
        check_sampling(self.sampling_args, where="judge_sampling_args")
        self._connecting = connecting or _connected
        self._model: Model | None = None
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    @property
    def is_policy(self) -> bool:
        """Whether the model that is played judges itself."""
        return self.client is None and self.name == POLICY

    def connected(self, state: Any = None) -> Model:
        """The model. Whatever `connect` raises, such as `MissingKeyError`; `Invalid` for `policy` without a rollout's
        state, or with one that was saved."""
        if self.is_policy:
            return _played(state)
        if self._model is None:
            self._model = self._connecting(self.name) if self.client is None else from_client(self.client, self.name)
        return self._model

    async def ask(self, messages: Sequence[Mapping[str, Any]], state: Any = None) -> Completion:
        """The completion of `messages`. What it cost is counted in `state`, the rollout that it was asked for; its
        tokens too where they are those of the model that is played."""
        completion = await self._generated(messages, state)
        if isinstance(state, State):
            state.spend(completion.usage if self.is_policy else Usage(), completion.cost)
        return completion

    async def ask_for_all(self, messages: Sequence[Mapping[str, Any]], states: Sequence[State]) -> Completion:
        """The completion of `messages`, which ask about all of `states`. What it cost is shared evenly; its tokens,
        where they are those of the model that is played, are whole numbers and count in the first."""
        completion = await self._generated(messages, states[0])
        share = None if completion.cost is None else completion.cost / len(states)
        for number, state in enumerate(state for state in states if isinstance(state, State)):
            state.spend(completion.usage if self.is_policy and number == 0 else Usage(), share)
        return completion

    async def _generated(self, messages: Sequence[Mapping[str, Any]], state: Any) -> Completion:
        sampling = Sampling(**sampling_of(self.sampling_args))
        return await self.connected(state).generate(as_messages(messages), sampling=sampling)

    async def close(self) -> None:
        """Gives back the connections that were made here; a model or client that was given stays as it is."""
        if self._model is not None and self.client is None:
            await self._model.close()
            self._model = None

    async def _create(self, *, messages: Sequence[Mapping[str, Any]], model: str = "", **sampling: Any) -> Any:
        """A call as OpenAI's client takes it, for reward functions that are written for one."""
        asked = self if model in ("", self.name) else JudgeModel(self.client, model)
        completion = await asked.connected().generate(as_messages(messages), sampling=Sampling(**sampling_of(sampling)))
        choice = SimpleNamespace(index=0, message=completion.message, finish_reason=completion.finish)
        return SimpleNamespace(choices=[choice], model=asked.name, usage=completion.usage)


def escaped(text: str) -> str:
    """`text` such that it closes no tag that it stands in and holds no verdict: `<answer>` as `&lt;answer>` and
    `[[5]]` as `[ [5] ]`. A plain `a < b` stays."""
    return _BRACKETS.sub(r"\g<0> ", _TAG.sub("&lt;", text))


def concluded(reply: str) -> str:
    """What a judge says after thinking: a verdict that it only considered is none."""
    _, _, said = reply.rpartition("</think>")
    return "" if "<think>" in said else said


def boxed_verdicts(said: str) -> list[str]:
    """Every `[[X]]` that stands in no quotation, in its order. A label such as `score: 10` is none: an answer may hold
    one, and so may whatever a judge says about it."""
    return [found.strip() for found in _BOXED.findall(_QUOTATION.sub(" ", said))]


def corrected(messages: Sequence[Message], reply: str, correction: str) -> list[Message]:
    """The conversation in which a judge is told what is wrong with its reply."""
    # Some endpoints refuse an assistant's message without a text.
    said = AssistantMessage(content=reply if reply.strip() else "(nothing)")
    return [*messages, said, UserMessage(content=correction)]


def last_verdict(reply: str, choices: Sequence[str] = ()) -> str | None:
    """The last verdict in a judge's reply: `[[X]]`, or X after `grade:`, `rating:`, `verdict:` or `score:`.

    With `choices` only those count, in any case, and are returned as they are written there; where the reply has none
    with a label, the last word that is a choice counts. None if there is none.
    """
    known = {choice.lower(): choice for choice in choices}
    found = [match.group("boxed") or match.group("label") for match in _LABELLED.finditer(reply)]
    if not choices:
        return found[-1].strip() if found else None
    labelled = [known[each.strip().lower()] for each in found if each.strip().lower() in known]
    if labelled:
        return labelled[-1]
    words = re.findall(r"[^\W_]+", reply.lower())
    return next((known[word] for word in reversed(words) if word in known), None)


def last_question(prompt: Any) -> str:
    """The text of the last user message of a prompt, or the prompt itself."""
    if isinstance(prompt, str):
        return prompt
    asked = [message for message in prompt or [] if message.get("role") == "user"]
    return text_of(asked[-1].get("content")) if asked else ""


def _played(state: Any) -> Model:
    client = (state or {}).get("client")
    if client is None:
        raise Invalid(
            f"the judge {POLICY!r} is the model that is played, and there is none at hand",
            hint="pass the rollout's state to judge(…); to score saved rollouts, name a model",
        )
    return from_client(client, str(state.get("model", "")))


def _connected(name: str) -> Model:
    try:
        return connect(name)
    except NotFound:
        if ":" in name:
            raise
    address, variable, _ = PROVIDERS["openai"]
    return connect(name, base_url=os.environ.get("OPENAI_BASE_URL") or address, key_var=variable)
