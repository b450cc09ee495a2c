from __future__ import annotations

from typing import Any

import pytest
from tests.unit.envs.playing import calls, play_tasks

import sandlot as vf
from sandlot.errors import Invalid

ROW = {"question": "?", "answer": "x"}


class Shelf(vf.StatefulToolEnv):
    """Keeps a shelf for each rollout."""

    async def setup_state(self, state: vf.State) -> None:
        state["shelf"] = {}

    def update_tool_args(self, tool_name: str, tool_args: Any, messages: Any, state: Any, **_: Any) -> Any:
        return {**tool_args, "shelf": state["shelf"]}


def put(name: str, shelf: dict[str, int]) -> str:
    """Puts something on the shelf."""
    shelf[name] = shelf.get(name, 0) + 1
    return f"{len(shelf)} kinds"


def shelf_env(*tools: Any, **options: Any) -> Shelf:
    env = Shelf(dataset=[ROW], **options)
    for tool in tools:
        env.add_tool(tool, args_to_skip=["shelf"])
    return env


def test_each_rollout_has_its_own_state_behind_the_tools() -> None:
    wanted = calls(("put", '{"name": "a"}'))
    rollouts = play_tasks(shelf_env(put), wanted, "done", wanted, "done", count=2)
    assert [rollout.state["shelf"] for rollout in rollouts] == [{"a": 1}, {"a": 1}]
    assert [rollout.turns[1].prompt[-1]["content"] for rollout in rollouts] == ["1 kinds", "1 kinds"]


def test_a_model_that_guesses_the_hidden_argument_does_not_reach_it() -> None:
    (rollout,) = play_tasks(shelf_env(put), calls(("put", '{"name": "a", "shelf": {"z": 1}}')), "done")
    assert rollout.state["shelf"] == {"a": 1}


def test_an_argument_that_cannot_be_hidden_is_an_error_when_the_tool_is_added() -> None:
    with pytest.raises(Invalid, match="'shelv'"):
        Shelf(dataset=[ROW]).add_tool(put, args_to_skip=["shelv"])


def test_update_tool_args_that_returns_nothing_is_told_to_the_model_not_raised() -> None:
    class Forgetful(vf.StatefulToolEnv):
        def update_tool_args(self, *_: Any, **__: Any) -> Any:
            return None

    env = Forgetful(dataset=[ROW])
    env.add_tool(put, args_to_skip=["shelf"])
    (rollout,) = play_tasks(env, calls(("put", '{"name": "a"}')), "done")
    assert "a dict was expected" in rollout.turns[1].prompt[-1]["content"]


def test_a_tool_whose_hidden_type_is_only_known_to_the_type_checker_has_a_schema() -> None:
    namespace: dict[str, Any] = {}
    exec("def run(command: 'str', client: 'Client') -> 'str':\n    return command", namespace)
    env = Shelf(dataset=[ROW])
    env.add_tool(namespace["run"], args_to_skip=["client"])
    assert env.toolbox.tools["run"].parameters["properties"] == {"command": {"type": "string"}}


def test_an_authors_own_call_tool_answers_the_calls() -> None:
    class Loud(vf.ToolEnv):
        async def call_tool(self, tool_name: str, tool_args: Any, tool_call_id: str, **kwargs: Any) -> Any:
            message = await super().call_tool(tool_name, tool_args, tool_call_id)
            return {**message, "content": message.content.upper()}

    def say(word: str) -> str:
        """Says it."""
        return word

    env = Loud(tools=[say], dataset=[ROW])
    (rollout,) = play_tasks(env, calls(("say", '{"word": "hi"}'), ("say", "{"), ("say", "{}")), "done")
    first, second, third = rollout.turns[1].prompt[-3:]
    assert first == {"role": "tool", "tool_call_id": "c1", "content": "HI"}
    assert "JSON" in second["content"]
    assert third["tool_call_id"] == "c3"
    assert "word" in third["content"]


def test_content_parts_of_a_tool_and_of_a_task_pass_through_as_they_are() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}

    def look() -> list[dict[str, Any]]:
        """Looks."""
        return [{"type": "text", "text": "see"}, image]

    prompt = [{"role": "user", "content": [{"type": "text", "text": "what is it?"}, image]}]
    env = vf.ToolEnv(tools=[look], dataset=[{"prompt": prompt}])
    (rollout,) = play_tasks(env, calls(("look", "{}")), "a cat")
    assert rollout.turns[0].prompt == prompt
    assert rollout.turns[1].prompt[-1]["content"] == look()
