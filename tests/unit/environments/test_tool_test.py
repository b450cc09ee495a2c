"""The reward of tool-test on exact, incomplete, wrong and stuffed calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.environments.first_party import environment, play, play_oracle, reward, some

import sandlot as vf
from sandlot.records import Task

ENV = environment("tool_test")
TASKS = some(ENV, 60)
Call = dict[str, Any]


def message(*calls: Call) -> vf.Message:
    return vf.AssistantMessage(
        content=None,
        tool_calls=[
            vf.ToolCall(id=f"c{number}", name=call["name"], arguments=json.dumps(call["arguments"]))
            for number, call in enumerate(calls, start=1)
        ],
    )


def asked(task: Task) -> list[Call]:
    return list(task.info["calls"])


def task_with(name: str, count: int = 1) -> Task:
    return next(task for task in TASKS if len(asked(task)) == count and asked(task)[0]["name"] == name)


def worth(task: Task, *calls: Call) -> float:
    return reward(ENV, task, message(*calls), "Done.")


def changed(call: Call, **arguments: Any) -> Call:
    return {"name": call["name"], "arguments": {**call["arguments"], **arguments}}


def test_every_tool_is_asked_for_and_so_are_one_to_three_calls() -> None:
    assert {call["name"] for task in TASKS for call in asked(task)} == set(ENV.toolbox.functions)
    assert {len(asked(task)) for task in TASKS} == {1, 2, 3}


def test_the_calls_count_in_any_order_and_over_any_number_of_turns() -> None:
    task = next(task for task in TASKS if len(asked(task)) == 3)
    assert worth(task, *reversed(asked(task))) == 1.0
    assert reward(ENV, task, *(message(call) for call in asked(task)), "Done.") == 1.0


def test_a_default_may_be_written_out_and_a_whole_number_may_have_a_point() -> None:
    task = task_with("make_list")
    (call,) = asked(task)
    assert worth(task, changed(call, numbered=call["arguments"].get("numbered", False))) == 1.0
    added = task_with("add_numbers")
    assert worth(added, changed(asked(added)[0], first=float(asked(added)[0]["arguments"]["first"]))) == 1.0


def test_a_call_too_few_and_a_call_too_many_both_cost() -> None:
    task = next(task for task in TASKS if len(asked(task)) == 2)
    first, second = asked(task)
    assert worth(task, first) == pytest.approx(2 / 3)
    assert worth(task, first, second, changed(first)) == pytest.approx(4 / 5)
    assert worth(task, *[first, second] * 10) == pytest.approx(4 / 22)


def test_calling_every_tool_with_anything_is_worth_nothing() -> None:
    noise = [
        {"name": "add_numbers", "arguments": {"first": 0, "second": 0}},
        {"name": "convert_temperature", "arguments": {"degrees": 0, "to": "celsius"}},
        {"name": "make_list", "arguments": {"items": []}},
        {"name": "send_message", "arguments": {"to": "", "text": ""}},
    ]
    assert {worth(task, *noise) for task in TASKS} == {0.0}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda call: changed(call, first=str(call["arguments"]["first"])),
        lambda call: changed(call, first=call["arguments"]["first"] + 1),
        lambda call: changed(call, first=True),
        lambda call: changed(call, extra=1),
        lambda call: {"name": call["name"], "arguments": {"first": call["arguments"]["first"]}},
        lambda call: {"name": "add", "arguments": call["arguments"]},
        lambda call: {"name": call["name"], "arguments": list(call["arguments"].values())},
        lambda call: {"name": call["name"], "arguments": None},
    ],
    ids=["text for a number", "another number", "bool", "one more", "one less", "no such tool", "a list", "null"],
)
def test_a_call_that_is_not_exactly_the_asked_one_is_worth_nothing(wrong: Any) -> None:
    task = task_with("add_numbers")
    rollout = play(ENV, task, [message(wrong(asked(task)[0])), "Done."])
    assert (rollout.reward, rollout.status) == (0.0, "scored")
    assert rollout.verdict is not None
    assert "missing: add_numbers" in (rollout.verdict.rewards[0].feedback or "")


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "NaN", '{"first": NaN, "second": Infinity}'])
def test_arguments_that_are_no_json_object_are_scored_as_wrong(text: str) -> None:
    task = task_with("add_numbers")
    broken = vf.AssistantMessage(content=None, tool_calls=[vf.ToolCall(id="c1", name="add_numbers", arguments=text)])
    assert reward(ENV, task, broken, "Done.") == 0.0


def test_a_call_that_is_only_written_as_text_is_no_call() -> None:
    task = task_with("add_numbers")
    (call,) = asked(task)
    for said in (json.dumps(call), f"<tool_call>{json.dumps(call)}</tool_call>", "Done."):
        assert reward(ENV, task, said) == 0.0


def test_a_model_that_never_stops_calling_is_stopped_and_scored() -> None:
    task = task_with("send_message")
    rollout = play(ENV, task, [message(*asked(task))])
    assert (len(rollout.turns), rollout.stop) == (5, "max_turns_reached")
    assert rollout.reward == pytest.approx(2 / 6)


def test_the_results_of_the_calls_are_told_to_the_model() -> None:
    task = task_with("add_numbers")
    rollout = play_oracle(ENV, task)
    (call,) = asked(task)
    assert rollout.turns[1].prompt[-1]["content"] == str(sum(call["arguments"].values()))


def test_the_model_sees_typed_tools() -> None:
    schema = {tool.name: tool.parameters for tool in ENV.toolbox.tools.values()}
    assert schema["convert_temperature"]["properties"]["to"]["enum"] == ["celsius", "fahrenheit"]
    assert schema["make_list"]["required"] == ["items"]
    assert schema["add_numbers"]["properties"]["first"] == {"type": "integer", "description": "the first number"}
