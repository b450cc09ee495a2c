"""Tool calls with wrong ids, names and arguments, in each dialect, whole and as a stream, through whole rollouts.

Every call is answered under an id of its own, in a request that the endpoint takes: the mock refuses results that match
no call, calls without a result and ids that are used twice, as the real ones do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.evals.fakes import REF
from tests.unit.evals.test_endpoint_faults import FORMS

import sandlot as sl
from sandlot.evals import EvalConfig, folder_of_eval, plan_eval, run_eval
from sandlot.models import Endpoint, EndpointModel, Retries
from sandlot.records import Message, Rollout, conversation
from sandlot.testing import MockServer


def call(id_: Any, name: Any = "add", arguments: Any = '{"a": 1, "b": 2}') -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


STRANGE: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "one id twice": ([call("same"), call("same", arguments='{"a": 3, "b": 4}')], ["3", "7"]),
    "no ids": ([call(None), call(None, arguments='{"a": 3, "b": 4}')], ["3", "7"]),
    "empty ids": ([call(""), call("", arguments='{"a": 3, "b": 4}')], ["3", "7"]),
    "ids that are numbers": ([call(1), call(2, arguments='{"a": 3, "b": 4}')], ["3", "7"]),
    "ids in other characters": ([call("a:1/é"), call("functions.add:1", arguments='{"a": 3, "b": 4}')], ["3", "7"]),
    "ids that differ only in such characters": ([call("a:1"), call("a/1", arguments='{"a": 3, "b": 4}')], ["3", "7"]),
    "a very long id": ([call("x" * 5000)], ["3"]),
    "a tool that is not there": ([call("c", name="subtract")], ["subtract"]),
    "a tool without a name": ([call("c", name="")], ["tool"]),
    "a good call beside one to a tool that is not there": ([call("c"), call("d", name="oops")], ["3", "oops"]),
    "arguments that are no object": ([call("c", arguments="[1, 2]")], ["object"]),
    "an argument of another kind": ([call("c", arguments='{"a": "x", "b": {}}')], [""]),
    "an argument too many": ([call("c", arguments='{"a": 1, "b": 2, "z": 3}')], ["z"]),
    "no arguments": ([call("c", arguments="{}")], ["a"]),
}


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


async def played(output: Path, form: str, calls: list[dict[str, Any]]) -> Rollout:
    """A rollout in which the model makes `calls` first and says what came of them then."""

    def answer(messages: Sequence[Message]) -> Any:
        results = [message for message in messages if message.get("role") == "tool"]
        return {"content": "done"} if results else {"content": "", "tool_calls": calls}

    type_, stream = FORMS[form]
    rubric = sl.Rubric(funcs=[lambda completion: 1.0])
    environment = sl.ToolEnv(dataset=[{"question": "add"}], tools=[add], rubric=rubric, max_turns=4)
    async with MockServer(answer) as server:
        model = EndpointModel(Endpoint(id="m", url=server.url, type=type_, stream=stream, retries=Retries(tries=1)))
        plan = plan_eval(EvalConfig(output=output, retries=0), playable=environment.playable, model=model, ref=REF)
        try:
            with folder_of_eval(plan) as folder:
                await run_eval(plan, folder=folder)
                (rollout,) = folder.rollouts()
                return rollout
        finally:
            await model.close()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("calls", "results"), STRANGE.values(), ids=STRANGE)
async def test_every_call_is_answered_under_an_id_of_its_own_whatever_the_endpoint_sent(
    tmp_path: Path, form: str, calls: list[dict[str, Any]], results: list[str]
) -> None:
    rollout = await played(tmp_path, form, calls)
    assert rollout.failure is None, rollout.failure
    assert (len(rollout.turns), rollout.reward) == (2, 1.0)
    asked = rollout.turns[0].completion["tool_calls"]
    answers = [message for message in conversation(rollout) if message["role"] == "tool"]
    assert [each["id"] for each in asked] == [answer["tool_call_id"] for answer in answers]
    assert len({each["id"] for each in asked}) == len(calls)
    assert all(words in answer["content"] for words, answer in zip(results, answers, strict=True)), answers
