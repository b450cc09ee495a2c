"""Answers that are JSON and no completion, or a completion like no other: each is a completion or the model's failure.

Every value of a good answer is replaced in turn by every kind of value that may stand in its place, in each dialect,
whole and in each event of a stream; one rollout meets one of them.
"""

from __future__ import annotations

import asyncio
import copy
import json
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.evals.fakes import REF, Quiz
from tests.unit.evals.test_endpoint_faults import FORMS

from sandlot.evals import EvalConfig, folder_of_eval, plan_eval, run_eval
from sandlot.models import Completion, Endpoint, EndpointModel, Retries
from sandlot.records import AssistantMessage, Message, Rollout, Sampling, ToolCall, Usage, UserMessage
from sandlot.testing import Fault, MockServer

GONE = object()
"""Stands for a value that is left out."""
INSTEAD = (GONE, None, True, 7, -0.5, "", "x", [], [None], ["x"], {}, {"x": None}, {"type": "x"}, 10**30)
IN_EVENTS = (GONE, None, 7, "x", [None], {"x": None})


def everything(_: Sequence[Message]) -> Completion:
    """An answer that has all there is: reasoning, text, two calls, all counts."""
    calls = [ToolCall(id=f"c{number}", name="add", arguments='{"a": 1}') for number in range(2)]
    message = AssistantMessage(content="one two", reasoning_content="first then", tool_calls=calls)
    usage = Usage(prompt_tokens=9, completion_tokens=7, cached_tokens=4, reasoning_tokens=2)
    return Completion(message=message, finish="tool_calls", usage=usage)


def changed(value: Any, instead: Sequence[Any]) -> Iterator[Any]:
    """`value` once for each place in it and each of `instead`, which stands there."""
    for place in _places(value):
        for other in instead:
            made = copy.deepcopy(value)
            inner = made
            for step in place[:-1]:
                inner = inner[step]
            if other is GONE:
                del inner[place[-1]]
            else:
                inner[place[-1]] = other
            yield made


def _places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in inside:
        yield (*before, step)
        yield from _places(inner, (*before, step))


def good_answer(endpoint: Endpoint, server: MockServer) -> bytes:
    """What the mock endpoint really sends in this form."""

    async def ask() -> None:
        model = EndpointModel(endpoint)
        await model.generate([UserMessage(content="hi")], sampling=Sampling())
        await model.close()

    asyncio.run(ask())
    path = {"openai_responses": "/responses", "anthropic_messages": "/messages"}.get(endpoint.type, "/chat/completions")
    body = json.dumps(server.requests[-1]).encode()
    request = urllib.request.Request(f"{server.url}{path}", data=body, headers={"anthropic-version": "2023-06-01"})
    with urllib.request.urlopen(request, timeout=10) as response:
        return response.read()


def strange_answers(good: bytes, stream: bool) -> Iterator[Fault]:
    """Each answer that differs from `good` in one value."""
    if not stream:
        for body in changed(json.loads(good), INSTEAD):
            yield Fault(kind="raw", body=json.dumps(body).encode())
        return
    events = [line for line in good.decode().split("\n") if line.startswith("data: {")]
    for number, event in enumerate(events):
        for other in changed(json.loads(event.removeprefix("data: ")), IN_EVENTS):
            every = [*events[:number], f"data: {json.dumps(other)}", *events[number + 1 :], "data: [DONE]", ""]
            yield Fault(kind="raw", body="\n\n".join(every).encode(), content_type="text/event-stream")


async def played(output: Path, endpoint: Endpoint, faults: list[Fault]) -> list[Rollout]:
    """A rollout for each of `faults`."""
    left = iter(faults)
    with MockServer(faults=lambda _: next(left)) as server:
        model = EndpointModel(endpoint.model_copy(update={"url": server.url}))
        config = EvalConfig(output=output, retries=0, scoring_retries=0, max_concurrent=64)
        plan = plan_eval(config, playable=Quiz(len(faults)), model=model, ref=REF)
        try:
            with folder_of_eval(plan) as folder:
                await run_eval(plan, folder=folder)
                return list(folder.rollouts())
        finally:
            await model.close()


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_with_a_value_of_another_kind_is_a_completion_or_the_models_failure(
    tmp_path: Path, form: str
) -> None:
    type_, stream = FORMS[form]
    with MockServer(everything) as server:
        endpoint = Endpoint(id="gpt-5", url=server.url, type=type_, stream=stream, retries=Retries(tries=1))
        good = good_answer(endpoint, server)
    faults = list(strange_answers(good, stream))
    rollouts = asyncio.run(played(tmp_path, endpoint, faults))
    assert len(rollouts) == len({rollout.task.id for rollout in rollouts}) == len(faults) > 300
    strangers = [
        f"{rollout.failure.boundary} {rollout.failure.type}: {rollout.failure.message}\n{rollout.failure.traceback}"
        for rollout in rollouts
        if rollout.failure is not None and rollout.failure.boundary != "model"
    ]
    assert not strangers, f"{len(strangers)} of {len(faults)}, such as {strangers[0]}"
    read = [rollout for rollout in rollouts if rollout.failure is None]
    assert len(read) > len(faults) / 3, "what an answer adds or leaves out does no harm"
    for rollout in read:
        said = rollout.turns[-1].completion
        calls = said.get("tool_calls") or []
        assert isinstance(said["content"], str)
        assert len({call["id"] for call in calls}) == len(calls)
        assert all(isinstance(call["function"][name], str) for call in calls for name in ("name", "arguments"))
