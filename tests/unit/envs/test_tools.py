from __future__ import annotations

import inspect
import time
from typing import Any, Literal

import pytest
from tests.unit.envs.playing import calls, play_tasks

import sandlot as vf
from sandlot.envs import Toolbox
from sandlot.errors import Invalid


def ok(text: str = "fine") -> str:
    """Says that all is well.

    Args:
        text: what to say,
            in a few words
    """
    return text


def boom() -> str:
    """Raises."""
    raise ValueError("boom")


async def later() -> str:
    """Answers later."""
    return "hi"


def tool_env(*tools: Any, **options: Any) -> vf.ToolEnv:
    return vf.ToolEnv(
        tools=list(tools), dataset=[{"question": "?"}], rubric=vf.Rubric([lambda completion: 1.0]), **options
    )


def answers_to(rollout: vf.Rollout) -> list[dict[str, Any]]:
    return [message for turn in rollout.turns for message in turn.prompt if message["role"] == "tool"]


def test_TOOL_01_parallel_calls_are_answered_in_order_with_one_message_each() -> None:
    (rollout,) = play_tasks(tool_env(ok, boom, later), calls(("ok", "{}"), ("boom", "{}"), ("later", "{}")), "done")
    assert [(each["tool_call_id"], each["content"]) for each in answers_to(rollout)] == [
        ("c1", "fine"),
        ("c2", "boom"),
        ("c3", "hi"),
    ]
    assert (len(rollout.turns), rollout.stop) == (2, "no_tools_called")


@pytest.mark.parametrize("arguments", ['{"a": 3, ', "", "[1]", "null", "{'text': 1}"])
def test_TOOL_02_arguments_that_are_no_json_object_are_told_to_the_model(arguments: str) -> None:
    executed = []

    def note(**anything: Any) -> str:
        executed.append(anything)
        return "done"

    (rollout,) = play_tasks(tool_env(note), calls(("note", arguments)), "sorry")
    (message,) = answers_to(rollout)
    assert message["tool_call_id"] == "c1"
    assert "JSON" in message["content"]
    assert not executed


def test_TOOL_04_an_unknown_tool_is_answered_with_the_names_there_are() -> None:
    (rollout,) = play_tasks(tool_env(ok, later), calls(("serch", "{}")), "sorry")
    assert answers_to(rollout)[0]["content"] == "unknown tool 'serch'; there are: ok, later"


def test_TOOL_13_blocking_tools_of_different_rollouts_run_at_once() -> None:
    def sleepy() -> str:
        """Sleeps."""
        time.sleep(0.5)
        return "awake"

    def answer(messages: Any) -> Any:
        return "done" if messages[-1]["role"] == "tool" else calls(("sleepy", "{}"))

    from sandlot.testing import ScriptedModel

    begin = time.perf_counter()
    results = tool_env(sleepy).evaluate(model=ScriptedModel(answer), rollouts_per_example=4)
    assert time.perf_counter() - begin < 1.5
    assert [row["stop_condition"] for row in results["outputs"]] == ["no_tools_called"] * 4


@pytest.mark.parametrize("path", ["a\0b", "\0"])
def test_TOOL_16_a_null_byte_is_told_to_the_model(path: str) -> None:
    import json

    def read_file(path: str) -> str:
        """Reads."""
        return open(path).read()

    (rollout,) = play_tasks(tool_env(read_file), calls(("read_file", json.dumps({"path": path}))), "sorry")
    assert "null" in answers_to(rollout)[0]["content"]


def test_the_schema_comes_from_signature_and_docstring_and_optional_stays_optional() -> None:
    def search(query: str, mode: Literal["fast", "deep"] = "fast", limit: int | None = None) -> str:
        """Finds pages
        about a query.

        :param query: what to look for
        :param limit: at most so many
        """
        return query

    tool = Toolbox([search]).tools["search"]
    assert tool.description == "Finds pages about a query."
    assert tool.parameters["required"] == ["query"]
    assert tool.parameters["properties"]["query"] == {"type": "string", "description": "what to look for"}
    assert tool.parameters["properties"]["mode"] == {"type": "string", "enum": ["fast", "deep"], "default": "fast"}
    assert tool.parameters["properties"]["limit"]["description"] == "at most so many"
    assert Toolbox([ok]).tools["ok"].parameters["properties"]["text"]["description"] == "what to say, in a few words"


def test_TOOL_05_a_hidden_argument_is_not_shown_and_the_function_stays_as_it_was() -> None:
    def run(command: str, state: dict[str, Any] | None = None) -> str:
        """Runs."""
        return f"{command} in {state}"

    before = inspect.signature(run)
    toolbox = Toolbox()
    toolbox.add(run, hidden=["state"])
    assert list(toolbox.tools["run"].parameters["properties"]) == ["command"]
    assert inspect.signature(run) == before


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        (eval("lambda x, /: x"), "tool name|passed by name"),
        (lambda query: query, "reward|tool name|<lambda>"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_when_the_environment_is_built(tool: Any, message: str) -> None:
    if tool.__code__.co_posonlyargcount:
        with pytest.raises(Invalid, match=message):
            Toolbox([tool])
    else:
        with pytest.raises(Invalid, match="two tools named"):
            Toolbox([tool, tool])


def test_an_error_that_is_to_stop_ends_the_rollout_without_a_verdict() -> None:
    (rollout,) = play_tasks(tool_env(boom, stop_errors=[ValueError]), calls(("boom", "{}")), "never")
    assert rollout.failure is not None
    assert (rollout.failure.type, rollout.reward, len(rollout.turns)) == ("ToolCallError", None, 1)


def test_calls_are_counted() -> None:
    (rollout,) = play_tasks(tool_env(ok, later), calls(("ok", "{}"), ("ok", "{}")), "done")
    assert rollout.verdict is not None
    assert rollout.verdict.metrics == {"num_turns": 2, "total_tool_calls": 2, "ok_calls": 2, "later_calls": 0}


def test_tools_may_differ_by_turn() -> None:
    class Staged(vf.ToolEnv):
        async def setup_state(self, state: Any) -> None:
            state["tool_defs"] = [tool for tool in state["tool_defs"] if tool.name == "ok"]

    env = Staged(tools=[ok, later], dataset=[{"question": "?"}], rubric=vf.Rubric([lambda completion: 1.0]))
    (rollout,) = play_tasks(env, "done")
    assert [tool.name for tool in rollout.tools] == ["ok"]
