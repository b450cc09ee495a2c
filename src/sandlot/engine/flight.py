"""The record of one rollout while it is open.

Invariants: turns are only ever added; what was recorded is a copy, so an author who edits a message later does not
change the past; a turn's parent is the turn whose messages (and tokens, where there are tokens) it continues exactly.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from sandlot.engine.request import PlayPolicy, Request
from sandlot.engine.state import HELD, State, saved_state
from sandlot.errors import Invalid
from sandlot.models import Completion, Prior
from sandlot.records import (
    Failure,
    JsonObject,
    Message,
    Messages,
    Rollout,
    Sampling,
    Timing,
    Tokens,
    Tool,
    Turn,
    Usage,
    Verdict,
    as_message,
    as_stored,
    storable_text,
)


class Flight:
    """One rollout in flight: its state, its turns, its clock, and how it ended."""

    def __init__(self, request: Request, *, state: State, attempt: int, sampling: Sampling) -> None:
        self.request = request
        self.id, self.model = str(state["trajectory_id"]), str(state["model"])
        self.held: list[Callable[[], Awaitable[None]]] = state.setdefault(HELD, [])
        self.attach(state)
        self.attempt = attempt
        self.sampling = sampling
        self.turns: list[Turn] = []
        self.tools: list[Tool] = []
        self.failure: Failure | None = None
        self.truncated = False
        self.started = time.time()
        self.clock = time.perf_counter()
        self.seconds = {"setup": 0.0, "model": 0.0, "environment": 0.0, "scoring": 0.0}
        self._paths: list[list[JsonObject]] = []
        self._ids: list[list[int] | None] = []

    def attach(self, state: State) -> None:
        """Makes `state` the rollout's state: the one it had, or the one that its set-up returned instead."""
        if isinstance(state, State):
            kept = state.setdefault(HELD, self.held)
            if kept is not self.held:
                self.held += kept
                state[HELD] = self.held
        self.state = state
        state.draft = self.draft

    def draft(self) -> Rollout:
        """The rollout as it stands, for a reward function that wants to read it."""
        return self.close(None, environment="", policy=PlayPolicy())

    def continued(self, messages: Sequence[Message]) -> tuple[int, Prior | None]:
        """Which turn `messages` continues (-1: none), and the tokens that are thereby fixed, if they are known.

        The last turn is tried first: only a fork or a rewritten history goes on to the others.
        """
        for index in range(len(self.turns) - 1, -1, -1):
            path = self._paths[index]
            if len(path) <= len(messages) and all(map(_same, path, messages)):
                ids = self._ids[index]
                return index, None if ids is None else Prior(messages=len(path), ids=ids)
        return -1, None

    def checked(self, messages: Messages, parent: int) -> Messages:
        """`messages` in the form in which they are stored and sent; only what is new after turn `parent` is looked at.
        `Invalid` if one cannot be."""
        known = len(self._paths[parent]) if parent >= 0 else 0
        new = [checked_message(message) for message in messages[known:]]
        if all(map(lambda one, other: one is other, messages[known:], new)):
            return messages
        return [*messages[:known], *map(as_message, new)]

    def record(
        self,
        messages: Sequence[Message],
        completion: Completion,
        *,
        continued: tuple[int, Prior | None],
        start: float,
        seconds: float,
    ) -> None:
        """Puts one call on record. `start` is seconds on the flight's clock, `seconds` how long it took."""
        parent, prior = continued
        tokens = completion.tokens
        if tokens is not None and prior is not None and not completion.continues:
            tokens = _suffix(tokens, prior)
        if completion.tokens is not None and (tokens is None or prior is None):
            # The server's tokens do not continue the parent's: this is a new sequence, whatever the messages say.
            parent, prior, tokens = -1, None, completion.tokens
        known = len(self._paths[parent]) if parent >= 0 else 0
        said = dict(checked_message(completion.message))
        turn = Turn(
            prompt=[dict(message) for message in messages[known:]],
            completion=said,
            parent=parent,
            finish=completion.finish,
            usage=completion.usage,
            tokens=tokens,
            start=start,
            seconds=seconds,
            cost=completion.cost,
        )
        self.turns.append(turn)
        self._paths.append([*(self._paths[parent] if parent >= 0 else []), *turn.prompt, said])
        before = (self._ids[parent] or []) if parent >= 0 else []
        self._ids.append(None if tokens is None else [*before, *tokens.prompt, *tokens.sampled])
        self.truncated = self.truncated or completion.finish == "length"

    def used(self) -> tuple[int, float]:
        """Tokens and US dollars so far, of the turns and of what was called beside them. What no call says is 0."""
        beside = self._beside()
        usages = [turn.usage for turn in self.turns] + [usage for usage, _ in beside]
        costs = [turn.cost for turn in self.turns] + [cost for _, cost in beside]
        tokens = sum((usage.prompt_tokens or 0) + (usage.completion_tokens or 0) for usage in usages)
        return tokens, sum(cost or 0.0 for cost in costs)

    def close(self, verdict: Verdict | None, *, environment: str, policy: PlayPolicy) -> Rollout:
        """The rollout as it is stored."""
        state = self.state
        saved, left_out = saved_state(state, self.request.task)
        total = time.perf_counter() - self.clock
        beside = self._beside()
        costs = [turn.cost for turn in self.turns] + [cost for _, cost in beside]
        known = [cost for cost in costs if cost is not None]
        return Rollout(
            id=self.id,
            task=self.request.task,
            index=self.request.index,
            environment=environment,
            model=self.model,
            turns=self.turns,
            tail=self._tail(),
            tools=self.tools,
            sampling=self.sampling,
            stop=_stop_of(state),
            truncated=self.truncated or state.get("is_truncated") is True,
            failure=self.failure,
            verdict=verdict,
            usage=total_usage([turn.usage for turn in self.turns] + [usage for usage, _ in beside]),
            cost=sum(known) if known else None,
            timing=Timing(total=total, **self.seconds),
            seed=self.request.seed,
            started=self.started,
            attempt=self.attempt,
            state=saved,
            left_out=left_out,
            step=policy.step,
            split=policy.split,
        )

    def _beside(self) -> list[tuple[Usage, float | None]]:
        # An author's set-up may return a plain dict in place of the state; nothing was spent through that.
        return self.state.spent if isinstance(self.state, State) else []

    def _tail(self) -> list[JsonObject]:
        final = self.state.get("final_env_response")
        try:
            return [checked_message(message) for message in final] if final else []
        except (Invalid, TypeError):  # It was no conversation, and the failure that this is stands on record.
            return []


def checked_message(message: Message) -> JsonObject:
    """A message as it is stored and sent. `Invalid` if it is none: its content is text, a list of parts or None."""
    content = message.get("content")
    if not isinstance(message.get("role"), str):
        raise Invalid(f"a message has the role {message.get('role')!r}; a name such as 'user' was expected")
    if not isinstance(content, str | list | None):
        raise Invalid(
            f"a message of the {message['role']} has a {type(content).__name__} as content; text was expected"
        )
    stored: JsonObject = as_stored(message, "a message")
    return stored


def _stop_of(state: State) -> str | None:
    stop = state.get("stop_condition")
    return stop if stop is None else storable_text(stop) if isinstance(stop, str) else f"a {type(stop).__name__}"


def total_usage(usages: Sequence[Usage]) -> Usage:
    """Usages added up. A number that no call reported stays unknown."""

    def add(name: str) -> int | None:
        known = [value for value in (getattr(usage, name) for usage in usages) if value is not None]
        return sum(known) if known else None

    return Usage(**{name: add(name) for name in Usage.__struct_fields__})


def _suffix(tokens: Tokens, prior: Prior) -> Tokens | None:
    """`tokens` of a whole prompt as what follows `prior`, or None where the prompt does not begin with it."""
    length = len(prior.ids)
    if tokens.prompt[:length] != list(prior.ids):
        return None
    return msgspec.structs.replace(tokens, prompt=tokens.prompt[length:])


def _same(one: JsonObject, other: JsonObject) -> bool:
    """Whether two messages are the same to a model. Empty content and none are; a missing key and None are."""
    if one == other:
        return True
    return all((one.get(key) or None) == (other.get(key) or None) for key in one.keys() | other.keys())
