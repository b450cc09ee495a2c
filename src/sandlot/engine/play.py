"""Plays one rollout: set-up → play → the author's clean-up → score → release, each stage with its own limit.

Invariants: an exception of an author, an endpoint or a sandbox becomes the rollout's `failure` and goes no further;
`CancelledError` and `KeyboardInterrupt` always propagate; clean-up runs exactly once for a rollout whose set-up began;
what a rollout holds, such as a sandbox, is closed behind its scoring, and also where it is never scored, which a caller
of `fly` owes to every flight that it is given; the outcome rule (who ended it, and is there a verdict) is applied here
and nowhere else.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import msgspec

from sandlot.engine.authors import authors_code, failure_of, raised_by
from sandlot.engine.deadline import Deadline
from sandlot.engine.flight import Flight, checked_message
from sandlot.engine.playable import Playable
from sandlot.engine.request import PlayPolicy, Request
from sandlot.engine.state import new_state
from sandlot.errors import Error, Invalid, OverlongPromptError
from sandlot.ids import new_id
from sandlot.models import Completion, Model
from sandlot.records import AttemptEvent, Failure, Messages, Sampling, Tool, Verdict, as_stored, check_finite

RETRIED = frozenset({"setup", "model", "sandbox", "infrastructure"})
"""Boundaries whose failures are nobody's answer, so that the rollout is played again."""

OnAttempt = Callable[[AttemptEvent], None]


class Player:
    """Plays rollouts of one playable with one model under one policy."""

    def __init__(
        self,
        playable: Playable,
        model: Model,
        *,
        sampling: Sampling,
        policy: PlayPolicy,
        on_attempt: OnAttempt | None = None,
    ) -> None:
        self.playable = playable
        self.model = model
        self.sampling = sampling
        self.policy = policy
        self.on_attempt = on_attempt

    async def fly(self, request: Request) -> Flight:
        """One rollout played to its end, and again where infrastructure failed, but not yet scored."""
        attempt = 1
        while True:
            flight = await self._attempt(request, attempt)
            failure = flight.failure
            if failure is None or failure.boundary not in RETRIED or attempt > self.policy.retries:
                return flight
            await self.release(flight)
            if self.on_attempt is not None:
                self.on_attempt(
                    AttemptEvent(
                        task=request.task.id, index=request.index, attempt=attempt, failure=failure, at=time.time()
                    )
                )
            attempt += 1

    async def verdicts(self, flights: Sequence[Flight]) -> list[Verdict | None]:
        """The verdict of each flight by the outcome rule. One that broke is scored only if that is authoritative."""
        scored = [flight for flight in flights if flight.failure is None or self.playable.authoritative]
        given = dict(zip(map(id, scored), await self._score(scored), strict=True)) if scored else {}
        return [self._ruled(flight, given.get(id(flight))) for flight in flights]

    async def _attempt(self, request: Request, attempt: int) -> Flight:
        sampling = sampling_over(self.sampling, self.playable.sampling_of(request.task))
        state = new_state(
            request.task, rollout_id=new_id(), seed=request.seed, model=self.model.name, sampling=sampling
        )
        state["client"] = self.model
        flight = Flight(request, state=state, attempt=attempt, sampling=sampling)
        try:
            try:
                if await self._setup(flight):
                    await self._play(flight)
            finally:
                await _to_its_end(self._cleaned(flight))
        except BaseException:  # It was cancelled, so that nobody will score it.
            await self.release(flight)
            raise
        _adopt(flight)
        return flight

    async def _setup(self, flight: Flight) -> bool:
        begin = time.perf_counter()
        deadline = asyncio.timeout(self.playable.limits_of(flight.state).setup)
        try:
            async with deadline:
                with authors_code:
                    flight.attach(await self.playable.setup(flight.state))
        except Exception as error:  # boundary: the author's set-up
            _broke(flight, error, "setup", expired=deadline.expired())
            return False
        finally:
            flight.seconds["setup"] = time.perf_counter() - begin
        return True

    async def _play(self, flight: Flight) -> None:
        begin = time.perf_counter()
        deadline = Deadline(_shorter(self.playable.limits_of(flight.state).play, self.policy.max_seconds))
        state = flight.state
        try:
            async with deadline:
                with authors_code:
                    await self._turns(flight)
        except OverlongPromptError:
            state["prompt_too_long"] = True
            flight.truncated = True
            state["stop_condition"] = "context_length"
        except TimeoutError as error:
            if not deadline.expired():
                _broke(flight, error, "environment", expired=False)
            else:
                state["timed_out"] = True
                flight.truncated = True
                state["stop_condition"] = "timeout"
        except Exception as error:  # boundary: the author's environment and the model
            _broke(flight, error, "environment", expired=False)
        finally:
            state["is_completed"] = True
            state["is_truncated"] = flight.truncated or state.get("is_truncated") is True
            flight.seconds["environment"] = max(0.0, time.perf_counter() - begin - flight.seconds["model"])

    async def _turns(self, flight: Flight) -> None:
        playable, state = self.playable, flight.state
        silent = 0
        while True:
            reason = await playable.stop(state) or self._over_limit(flight)
            if reason is not None:
                state["stop_condition"] = reason
                return
            messages = await playable.prompt(state)
            if messages is None:
                silent += 1
                for message in state["final_env_response"] or ():
                    checked_message(message)
                if silent > 1:
                    raise Error("the environment had the last word, but no stop condition holds")
                continue
            silent = 0
            tools = list(playable.tools(state))
            if tools and not flight.tools:
                flight.tools = tools
            messages, completion = await self._asked(flight, messages, tools)
            state["turn"] = len(flight.turns)
            await playable.observe(state, messages, completion)

    async def _asked(self, flight: Flight, messages: Messages, tools: list[Tool]) -> tuple[Messages, Completion]:
        """One turn, put on record: the prompt that the model really saw, and what it said."""
        continued = flight.continued(messages)
        seen = flight.checked(messages, continued[0])

        async def ask(prompt: Messages) -> Completion:
            nonlocal seen, continued
            if prompt is not seen:
                continued = flight.continued(prompt)
                seen = flight.checked(prompt, continued[0])
            return await self.model.generate(seen, tools=tools, sampling=self._sampling(flight), prior=continued[1])

        start = time.perf_counter()
        try:
            completion = await self.playable.generate(flight.state, seen, ask)
        finally:
            # A call that failed, or that the deadline cut off, was the model's time and not the environment's.
            seconds = time.perf_counter() - start
            flight.seconds["model"] += seconds
        flight.record(seen, completion, continued=continued, start=start - flight.clock, seconds=seconds)
        return seen, completion

    def _sampling(self, flight: Flight) -> Sampling:
        """The run's sampling with this call's own seed: the rollout's, moved on by the number of the turn."""
        return msgspec.structs.replace(flight.sampling, seed=(flight.request.seed + len(flight.turns)) & 0x7FFFFFFF)

    def _over_limit(self, flight: Flight) -> str | None:
        most_tokens, most_cost = self.policy.max_tokens, self.policy.max_cost
        if most_tokens is None and most_cost is None:
            return None
        tokens, cost = flight.used()
        if most_tokens is not None and tokens >= most_tokens:
            flight.truncated = True
            return "max_tokens"
        if most_cost is not None and cost >= most_cost:
            flight.truncated = True
            return "max_cost"
        return None

    async def release(self, flight: Flight) -> None:
        """Closes what the rollout holds, what was held last first: once, whatever cancels the rollout meanwhile."""
        if flight.held:
            await _to_its_end(self._released(flight))

    async def _released(self, flight: Flight) -> KeyboardInterrupt | None:
        interrupt = None
        while flight.held:
            interrupt = await self._ended(flight.held.pop(), flight) or interrupt
        return interrupt

    async def _cleaned(self, flight: Flight) -> KeyboardInterrupt | None:
        return await self._ended(functools.partial(self.playable.cleanup, flight.state), flight)

    async def _ended(self, stage: Callable[[], Awaitable[None]], flight: Flight) -> KeyboardInterrupt | None:
        """Runs an ending of the rollout to its end or its limit; a failure in it is recorded. An interrupt is given
        back, because it would stop the loop before the run could put it on record if a task of its own raised it."""
        try:
            async with asyncio.timeout(self.playable.limits_of(flight.state).cleanup):
                with authors_code:
                    await stage()
        except KeyboardInterrupt as interrupt:
            return interrupt
        except Exception as error:  # boundary: the author's clean-up, or the provider of what was held
            if flight.failure is None:
                flight.failure = failure_of(error, "cleanup")
        return None

    async def _score(self, flights: Sequence[Flight]) -> list[Verdict]:
        begin = time.perf_counter()
        tries = 0
        while True:
            verdicts = await self._score_once(flights)
            tries += 1
            if tries > self.policy.scoring_retries or all(verdict.reward is not None for verdict in verdicts):
                break
        seconds = time.perf_counter() - begin
        for flight in flights:
            flight.seconds["scoring"] = seconds
        return verdicts

    async def _score_once(self, flights: Sequence[Flight]) -> list[Verdict]:
        deadline = asyncio.timeout(self.playable.limits.score)
        try:
            async with deadline:
                with authors_code:
                    verdicts = await self.playable.score([flight.state for flight in flights])
            verdicts = _checked(verdicts, len(flights))
        except Exception as error:  # boundary: scoring
            failure = failure_of(error, "scoring")
            if deadline.expired():
                failure = Failure(
                    boundary="scoring",
                    type="timeout",
                    message=f"scoring took longer than its limit of {self.playable.limits.score} s",
                )
            return [Verdict(reward=None, failure=failure) for _ in flights]
        return verdicts

    def _ruled(self, flight: Flight, verdict: Verdict | None) -> Verdict | None:
        """The outcome rule for one flight."""
        if verdict is None or verdict.reward is not None:
            return verdict
        nothing_said = flight.failure is None and not flight.turns
        if nothing_said or self.policy.on_scoring_error == "zero":
            return Verdict(
                reward=0.0, rewards=verdict.rewards, metrics=verdict.metrics, failure=verdict.failure, seconds=0.0
            )
        return verdict


async def _to_its_end(ending: Coroutine[Any, Any, KeyboardInterrupt | None]) -> None:
    """Awaits `ending` whatever cancels the caller meanwhile; an interrupt that it gives is raised here."""
    running = asyncio.ensure_future(ending)
    try:
        interrupt = await asyncio.shield(running)
    except asyncio.CancelledError:
        await running
        raise
    if interrupt is not None:
        raise interrupt


def _adopt(flight: Flight) -> None:
    """An error that the author put into the state is how the rollout broke, as if it had been raised."""
    error = flight.state.get("error")
    if flight.failure is None and isinstance(error, BaseException):
        flight.failure = failure_of(error, "environment")


def _shorter(one: float | None, other: float | None) -> float | None:
    """The limit that is reached first; None is no limit."""
    return min((limit for limit in (one, other) if limit is not None), default=None)


def sampling_over(asked: Sampling, default: Sampling) -> Sampling:
    """`asked`, with `default` where it leaves something to the endpoint."""
    chosen = {name: getattr(asked, name) for name in Sampling.__struct_fields__}
    unsaid = {name: getattr(default, name) for name, value in chosen.items() if value is None or value == []}
    return Sampling(**{**chosen, **unsaid, "extra": {**default.extra, **asked.extra}})


def _checked(verdicts: Sequence[Verdict], count: int) -> list[Verdict]:
    """Verdicts as they will be read again. `Invalid`, or an error of msgspec's, says what cannot be one."""
    if len(verdicts) != count:
        raise Invalid(f"scoring gave {len(verdicts)} verdicts for {count} rollouts")
    check_finite(verdicts, "verdict")
    return [msgspec.convert(as_stored(msgspec.to_builtins(verdict), "verdict"), Verdict) for verdict in verdicts]


def _broke(flight: Flight, error: Exception, boundary: str, *, expired: bool) -> None:
    failure = failure_of(error, boundary)
    if expired:
        failure = Failure(boundary=boundary, type="timeout", message=f"{boundary} took longer than its limit")
    flight.failure = failure
    flight.state["error"] = raised_by(error)
    flight.state["stop_condition"] = "error"
