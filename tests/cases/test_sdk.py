"""Cases of groups of rubrics and of environments, and of tools with state."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from tests.unit.envs.playing import calls, play_tasks

import sandlot as vf
from sandlot.testing import ScriptedModel


@pytest.mark.parametrize("fields", [["answer"], ["think", "answer"], [("reply", "answer")]])
def test_SCOR_16_each_rubric_of_a_group_keeps_its_own_parser(fields: list[Any]) -> None:
    parser = vf.XMLParser(fields)
    seen: list[Any] = []

    def right(parser: vf.Parser, completion: Any, answer: str) -> float:
        seen.append(parser)
        return float(parser.parse_answer(completion) == answer)

    rubric = vf.RubricGroup([vf.Rubric(), vf.Rubric([right], parser=parser), vf.Rubric(parser=vf.ThinkParser())])
    env = vf.SingleTurnEnv(dataset=[{"question": "?", "answer": "42"}], rubric=rubric)
    (rollout,) = play_tasks(env, "Let me think\n<answer>42</answer>")
    assert rollout.reward == 1.0
    assert seen == [parser]
    assert seen[0] is parser


def labelled(name: str, reward: float, rows: int) -> vf.Environment:
    def scored(**_: Any) -> float:
        return reward

    data = [{"question": f"{name} {number}", "answer": "", "id": number} for number in range(rows)]
    return vf.SingleTurnEnv(dataset=data, rubric=vf.Rubric([scored]))


@pytest.mark.parametrize("names", [["math", "code"], ["b", "a"], ["x", "y"]])
def test_ROLL_12_every_row_of_a_group_is_labelled_with_its_own_environment(names: list[str]) -> None:
    group = vf.EnvGroup([labelled(names[0], 1.0, 2), labelled(names[1], 0.5, 2)], env_names=names)
    wanted = [names[0], names[0], names[1], names[1]]
    late = group.split("train")
    assert [task.environment for task in late] == wanted
    assert [row["info"]["env_id"] for row in group.get_dataset()] == wanted
    rollouts = play_tasks(group, "hi")
    assert [rollout.task.environment for rollout in rollouts] == wanted
    assert [rollout.reward for rollout in rollouts] == [1.0, 1.0, 0.5, 0.5]


def test_EVAL_07_equal_ids_of_two_environments_are_two_problems() -> None:
    group = vf.EnvGroup([labelled("one", 1.0, 1), labelled("two", 0.0, 1)], env_names=["one", "two"])
    results = group.evaluate(model=ScriptedModel(lambda _: "hi"), rollouts_per_example=2)
    by_task: dict[str, list[float]] = {}
    for rollout in results.rollouts:
        by_task.setdefault(rollout.task.id, []).append(rollout.reward)
    assert sorted(by_task.values()) == [[0.0, 0.0], [1.0, 1.0]]
    assert {name: each.mean for name, each in results.summary.environments.items()} == {"one": 1.0, "two": 0.0}
    assert results.summary.reward == 0.5


class Injecting(vf.StatefulToolEnv):
    """Fills in what is hidden."""

    def update_tool_args(self, tool_name: str, tool_args: Any, messages: Any, state: Any, **_: Any) -> Any:
        return {**tool_args, "state": {"secret": 7}}


@pytest.mark.parametrize(
    "annotation", ["dict | None", "dict", "dict[str, object] | None", "vf.State", "list[dict[str, int]] | None"]
)
def test_TOOL_05_hiding_an_argument_leaves_the_function_as_it_is(annotation: str) -> None:
    got: list[Any] = []
    namespace: dict[str, Any] = {"vf": vf, "got": got}
    exec(
        f"def t(command: str, state: {annotation} = None) -> str:\n    got.append((command, state))\n    return 'ok'",
        namespace,
    )
    tool = namespace["t"]
    before = inspect.signature(tool)
    env = Injecting(dataset=[{"question": "?"}])
    env.add_tool(tool, args_to_skip=["state"])
    assert list(env.toolbox.tools["t"].parameters["properties"]) == ["command"]
    assert inspect.signature(tool) == before
    play_tasks(env, calls(("t", '{"command": "ls"}')), "done")
    assert got == [("ls", {"secret": 7})]


async def hi() -> str:
    return "hi"


class Caller:
    async def __call__(self) -> str:
        return "hi"


def eventually() -> Any:
    return hi()


@pytest.mark.parametrize("tool", [hi, Caller(), eventually], ids=["function", "object", "returns an awaitable"])
def test_TOOL_06_an_async_tool_of_a_stateful_environment_is_awaited(tool: Any) -> None:
    env = vf.StatefulToolEnv(dataset=[{"question": "?"}])
    env.add_tool(tool)
    name = next(iter(env.toolbox.tools))
    (rollout,) = play_tasks(env, calls((name, "{}")), "done")
    assert rollout.turns[1].prompt[-1]["content"] == "hi"
