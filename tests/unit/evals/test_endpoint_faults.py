"""Everything that an endpoint can do, in each dialect, whole and as a stream, through a whole evaluation over HTTP.

What heals costs nothing but a further try; what does not becomes the rollout's failure, says so in words, and leaves
the others alone.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.unit.evals.fakes import REF, Quiz

from sandlot.errors import Failed
from sandlot.evals import EvalConfig, folder_of_eval, plan_eval, run_eval
from sandlot.models import Endpoint, EndpointModel, Retries
from sandlot.records import JsonObject, Rollout, Run
from sandlot.testing import Fault, MockServer

DIALECTS = ("openai_chat_completions", "openai_responses", "anthropic_messages")
FORMS = {
    f"{dialect}-{'stream' if stream else 'whole'}": (dialect, stream)
    for dialect, stream in itertools.product(DIALECTS, (False, True))
}
STRANGE_PAGE = "a page of a café: <ok>".encode("latin-1")

PASSING: dict[str, Fault] = {
    **{str(status): Fault(status=status) for status in (408, 409, 425, 429, 500, 502, 503, 504, 529)},
    "429 with a date that is past": Fault(status=429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),
    "429 with a wait that is no number": Fault(status=429, retry_after="soon"),
    "a page under 200": Fault(kind="html"),
    "a page under 502": Fault(kind="html", status=502),
    "a page under 429": Fault(kind="html", status=429),
    "half a body": Fault(kind="half"),
    "half a body and a lost connection": Fault(kind="cut"),
    "half a stream": Fault(kind="broken"),
    "half a stream and a lost connection": Fault(kind="snapped"),
    "half a stream and silence": Fault(kind="stalled"),
    "no answer": Fault(kind="reset"),
    "no choice": Fault(kind="empty"),
    "no body": Fault(kind="raw"),
    "no body under 503": Fault(kind="raw", status=503),
    "text that is no UTF-8": Fault(kind="raw", body=STRANGE_PAGE, content_type="text/plain"),
    "an error in JSON that is no object": Fault(kind="raw", status=500, body=b'["broken"]'),
    "JSON that is no object": Fault(kind="raw", body=b"[1, 2]"),
    "null": Fault(kind="raw", body=b"null"),
    "a stream without events": Fault(kind="raw", content_type="text/event-stream"),
    "a stream of events that are no JSON": Fault(kind="raw", body=b"data: oops\n\n", content_type="text/event-stream"),
    "JSON too deep to read": Fault(kind="raw", body=b"[" * 100_000),
    "an error in JSON too deep to read": Fault(kind="raw", status=500, body=b'{"error":' * 100_000),
    "an error of another shape under 200": Fault(kind="raw", body=b'{"error": {"code": {}, "type": []}}'),
    "silence": Fault(kind="hang"),
    "a byte now and then": Fault(kind="drip"),
}
"""What a further try heals."""

LASTING: dict[str, tuple[Fault, str]] = {
    "429": (Fault(status=429), "gets too many requests (429)"),
    "500": (Fault(status=500, message="on fire"), "failed (500): on fire"),
    "529": (Fault(status=529), "gets too many requests (529)"),
    "400": (Fault(status=400, message="no such parameter"), "refused the request (400): no such parameter"),
    "422": (Fault(status=422, message="no such parameter"), "refused the request (422): no such parameter"),
    "a page under 200": (Fault(kind="html"), "answered with no completion"),
    "a page under 503": (Fault(kind="html", status=503), "an HTML page titled 'Bad gateway'"),
    "half a body": (Fault(kind="half"), "answered with no completion"),
    "half a body and a lost connection": (Fault(kind="cut"), "connection"),
    "half a stream": (Fault(kind="broken"), "broke off after"),
    "half a stream and a lost connection": (Fault(kind="snapped"), "connection"),
    "no answer": (Fault(kind="reset"), "connection"),
    "no choice": (Fault(kind="empty"), "without a choice"),
    "no body": (Fault(kind="raw"), "an empty body"),
    "an answer without end": (Fault(kind="huge"), "sent more than max_bytes, 200,000"),
    "a stream without end": (Fault(kind="flood"), "sent more than max_bytes, 200,000"),
    "403": (Fault(status=403, message="not for you"), "does not allow this (403): not for you"),
    "silence": (Fault(kind="hang"), "did not answer within 0.4 s|sent nothing for 0.2 s, its idle_timeout"),
    "half a stream and silence": (Fault(kind="stalled"), "did not answer within 0.4 s|its idle_timeout"),
    "a byte now and then": (Fault(kind="drip"), "did not answer within 0.4 s"),
}
"""What no try heals, and what the rollout's failure says."""


class Asked:
    """Which fault a request meets: `fault`, for the first `times` requests of each form."""

    def __init__(self, fault: Fault, times: int) -> None:
        self._fault = fault
        self._times = times
        self.requests: Counter[str] = Counter()

    def __call__(self, body: JsonObject) -> Fault | None:
        self.requests[body["model"]] += 1
        return self._fault if self.requests[body["model"]] <= self._times else None


class Played(NamedTuple):
    """A run of three tasks in one form, as its folder has it."""

    run: Run
    rollouts: list[Rollout]
    attempts: int

    def counts(self) -> dict[str, int]:
        """The run's counts, seen to be those of its rollouts, of which each that was asked for is there once."""
        assert sorted((each.task.id, each.index) for each in self.rollouts) == [("t0", 0), ("t1", 0), ("t2", 0)]
        counts = Counter(rollout.status for rollout in self.rollouts)
        assert {name: number for name, number in self.run.summary["counts"].items() if number} == dict(counts)
        assert self.run.status == "done"
        return dict(counts)


async def evaluate(output: Path, url: str, form: str) -> Played:
    """Plays the three tasks, one after another, with an endpoint of that form."""
    type_, stream = FORMS[form]
    endpoint = Endpoint(
        id=form,
        url=url,
        type=type_,
        stream=stream,
        timeout=0.4,
        idle_timeout=0.2,
        max_bytes=200_000,
        retries=Retries(base=0.001, tries=3),
    )
    model = EndpointModel(endpoint)
    config = EvalConfig(output=output / form, retries=1)
    plan = plan_eval(config, playable=Quiz(3), model=model, ref=REF)
    try:
        with folder_of_eval(plan) as folder:
            run = await asyncio.wait_for(run_eval(plan, folder=folder), 30)
            return Played(run, list(folder.rollouts()), len(folder.attempts()))
    finally:
        await model.close()


async def in_every_form(output: Path, asked: Asked) -> dict[str, Played]:
    """The same in each form, at the same time."""
    async with MockServer("1.0", faults=asked) as server:
        every = await asyncio.gather(*(evaluate(output, server.url, form) for form in FORMS))
    return dict(zip(FORMS, every, strict=True))


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
async def test_what_passes_costs_another_try_and_no_rollout(tmp_path: Path, fault: Fault) -> None:
    asked = Asked(fault, times=1)
    for form, played in (await in_every_form(tmp_path, asked)).items():
        assert played.counts() == {"scored": 3}, form
        assert [rollout.reward for rollout in played.rollouts] == [1.0, 1.0, 1.0]
        assert (asked.requests[form], played.attempts) == (4, 0)


@pytest.mark.parametrize(("fault", "words"), LASTING.values(), ids=LASTING)
async def test_what_lasts_is_the_rollouts_failure_in_words_and_never_a_reward(
    tmp_path: Path, fault: Fault, words: str
) -> None:
    for form, played in (await in_every_form(tmp_path, Asked(fault, times=10**9))).items():
        assert played.counts() == {"errored": 3}, form
        assert (played.run.summary["reward"], played.run.summary["scored"], played.attempts) == (None, 0, 3)
        for rollout in played.rollouts:
            assert (rollout.stop, rollout.reward, rollout.attempt) == ("error", None, 2)
            assert rollout.failure is not None
            said = rollout.failure.message
            assert rollout.failure.boundary == "model"
            assert f"{form} at http://127.0.0.1" in said
            assert any(each in said for each in words.split("|")), said
            assert len(said) < 1000


async def test_a_prompt_that_does_not_fit_is_the_agents_doing(tmp_path: Path) -> None:
    for played in (await in_every_form(tmp_path, Asked(Fault(kind="overlong"), times=2))).values():
        stops = Counter((rollout.stop, rollout.truncated) for rollout in played.rollouts)
        assert stops == {("context_length", True): 2, ("answered", False): 1}
        assert all(rollout.failure is None for rollout in played.rollouts)
        assert played.attempts == 0


@pytest.mark.parametrize("status", [301, 401, 402, 404, 405, 501])
async def test_what_is_refused_for_good_ends_the_run_after_a_few_tries(tmp_path: Path, status: int) -> None:
    asked = Asked(Fault(status=status, message="the server's words"), times=10**9)
    async with MockServer(faults=asked) as server:
        for form in FORMS:
            with pytest.raises(Failed, match=rf"stopped after .* tries.*\({status}\)") as caught:
                await evaluate(tmp_path, server.url, form)
            assert "resume the run" in str(caught.value.hint)
            assert 3 <= asked.requests[form] <= 6
