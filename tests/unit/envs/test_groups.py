from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.envs.playing import calls, play_tasks

import sandlot as vf
from sandlot.errors import Invalid
from sandlot.testing import ScriptedModel

ROW = {"question": "?", "answer": "42"}


def good(**_: Any) -> float:
    return 1.0


def poor(**_: Any) -> float:
    return 0.25


def test_a_group_adds_up_the_rewards_of_its_rubrics() -> None:
    rubric = vf.RubricGroup([vf.Rubric([good], [2.0]), vf.Rubric([poor])])
    (rollout,) = play_tasks(vf.SingleTurnEnv(dataset=[ROW], rubric=rubric), "hi")
    assert rollout.reward == 2.25
    assert rollout.verdict is not None
    assert [(each.name, each.value, each.weight) for each in rollout.verdict.rewards] == [
        ("good", 1.0, 2.0),
        ("poor", 0.25, 1.0),
    ]


def test_what_two_rubrics_report_under_one_name_is_told_apart() -> None:
    one, other = vf.Rubric([good]), vf.Rubric([good], [0.5])
    for rubric, value in ((one, 3.0), (other, 5.0)):

        def depth(value: float = value, **_: Any) -> float:
            return value

        rubric.add_metric(depth)
    (rollout,) = play_tasks(vf.SingleTurnEnv(dataset=[ROW], rubric=vf.RubricGroup([one, other])), "hi")
    assert rollout.reward == 1.5
    assert rollout.verdict is not None
    assert [each.name for each in rollout.verdict.rewards] == ["good", "good_2"]
    assert (rollout.verdict.metrics["depth"], rollout.verdict.metrics["depth_2"]) == (3.0, 5.0)


def test_a_rubric_without_a_verdict_leaves_the_group_without_one() -> None:
    def broken(**_: Any) -> float:
        raise KeyError("lost")

    env = vf.SingleTurnEnv(dataset=[ROW], rubric=vf.RubricGroup([vf.Rubric([good]), vf.Rubric([broken])]))
    (rollout,) = play_tasks(env, "hi", scoring_retries=0)
    assert rollout.reward is None
    assert rollout.verdict is not None
    assert rollout.verdict.failure is not None
    assert "lost" in rollout.verdict.failure.message


def test_a_later_rubric_reads_what_an_earlier_one_wrote() -> None:
    def writes(state: vf.State) -> float:
        state["seen"] = 7
        return 0.0

    def reads(state: vf.State) -> float:
        return float(state["seen"])

    env = vf.SingleTurnEnv(dataset=[ROW], rubric=vf.Rubric([writes]))
    env.add_rubric(vf.Rubric([reads]))
    env.add_rubric(vf.Rubric([good]))
    assert play_tasks(env, "hi")[0].reward == 8.0
    assert isinstance(env.rubric, vf.RubricGroup)
    assert len(env.rubric.rubrics) == 3


def test_a_misspelt_parameter_of_an_added_rubric_is_said_at_once() -> None:
    def wrong(anwser: str) -> float:
        return 1.0

    env = vf.SingleTurnEnv(dataset=[ROW])
    with pytest.raises(Invalid, match="anwser"):
        env.add_rubric(vf.Rubric([wrong]))


def test_clean_up_of_every_rubric_of_a_group_runs() -> None:
    ran: list[str] = []

    class Cleaning(vf.Rubric):
        def __init__(self, name: str) -> None:
            super().__init__([good])
            self.name = name

        @vf.cleanup
        async def tidy(self, state: vf.State) -> None:
            ran.append(self.name)

    rubric = vf.RubricGroup([Cleaning("a"), vf.RubricGroup([Cleaning("b"), vf.Rubric()])])
    play_tasks(vf.SingleTurnEnv(dataset=[ROW], rubric=rubric), "hi")
    assert ran == ["a", "b"]


def test_a_group_function_within_a_group_judges_all_rollouts_of_a_task() -> None:
    def best(completions: list[Any]) -> list[float]:
        longest = max(len(each[0]["content"]) for each in completions)
        return [float(len(each[0]["content"]) == longest) for each in completions]

    env = vf.SingleTurnEnv(dataset=[ROW], rubric=vf.RubricGroup([vf.Rubric([good]), vf.Rubric([best])]))
    rollouts = play_tasks(env, "a", "aaa", count=2)
    assert sorted(rollout.reward or 0.0 for rollout in rollouts) == [1.0, 2.0]


def test_a_group_knows_how_far_each_rollout_is_from_its_mean() -> None:
    seen: list[vf.State] = []

    class Keeping(vf.Rubric):
        async def score_group(self, states: Any) -> Any:
            verdicts = await super().score_group(states)
            seen.extend(states)
            return verdicts

    def length(completions: list[Any]) -> list[float]:
        return [float(len(each[0]["content"])) for each in completions]

    play_tasks(vf.SingleTurnEnv(dataset=[ROW], rubric=Keeping([length])), "a", "aaa", count=2)
    assert sorted(state["advantage"] for state in seen) == [-1.0, 1.0]
    assert all(state["trajectory"][0]["reward"] == state["reward"] for state in seen)


def test_an_authors_own_scoring_of_a_rollout_is_what_counts() -> None:
    class Own(vf.Rubric):
        async def score_rollout(self, state: vf.State) -> Any:
            await super().score_rollout(state)
            state["reward"] = state["reward"] / 4
            state["metrics"]["own"] = 9.0

    (rollout,) = play_tasks(vf.SingleTurnEnv(dataset=[ROW], rubric=Own([good])), "hi")
    assert rollout.reward == 0.25
    assert rollout.verdict is not None
    assert rollout.verdict.metrics["own"] == 9.0


@pytest.mark.parametrize("rubrics", [[], ()])
def test_an_empty_group_is_refused(rubrics: Any) -> None:
    with pytest.raises(Invalid, match="at least one"):
        vf.RubricGroup(rubrics)


# Groups of environments


def member(name: str, reward: Any, rows: int = 2, **options: Any) -> vf.Environment:
    data = [{"question": f"{name} {number}", "answer": "x", "id": number} for number in range(rows)]
    return vf.SingleTurnEnv(dataset=data, rubric=vf.Rubric([reward]), **options)


def test_each_member_plays_by_its_own_rules() -> None:
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    def told(state: vf.State) -> float:
        return float(state["turn"])

    tools = vf.ToolEnv(tools=[add], dataset=[ROW], rubric=vf.Rubric([told]))
    plain = member("plain", good, 1, system_prompt="Be brief.", sampling_args={"temperature": 0.5})
    group = vf.EnvGroup([plain, tools], env_names=["plain", "tools"])
    first, second = play_tasks(group, "hello", calls(("add", '{"a": 1, "b": 2}')), "three")
    assert (first.task.environment, second.task.environment) == ("plain", "tools")
    assert (first.reward, second.reward) == (1.0, 2.0)
    assert first.turns[0].prompt[0] == {"role": "system", "content": "Be brief."}
    assert (first.sampling.temperature, second.sampling.temperature) == (0.5, None)
    assert [tool.name for tool in second.tools] == ["add"]
    assert not first.tools
    assert first.verdict is not None
    assert "add_calls" not in first.verdict.metrics
    assert second.verdict is not None
    assert second.verdict.metrics["add_calls"] == 1.0


def test_a_members_deadline_is_its_own() -> None:
    class Slow(vf.SingleTurnEnv):
        async def get_prompt_messages(self, state: vf.State) -> vf.Messages:
            await asyncio.sleep(5)
            return await super().get_prompt_messages(state)

    slow = Slow(dataset=[ROW], timeout_seconds=0.05, rubric=vf.Rubric([good]))
    rollouts = play_tasks(vf.EnvGroup([slow, member("quick", good, 1)]), "hi")
    assert [rollout.stop for rollout in rollouts] == ["timeout", "max_turns_reached"]


def test_a_group_in_a_group_is_dissolved() -> None:
    inner = vf.EnvGroup([member("a", good, 1), member("b", poor, 1)], env_names=["a", "b"])
    outer = vf.EnvGroup([inner, member("c", good, 1)], env_names=["in", "c"])
    assert outer.env_names == ["in/a", "in/b", "c"]
    assert [rollout.reward for rollout in play_tasks(outer, "hi")] == [1.0, 0.25, 1.0]


def test_a_rubric_added_to_a_group_counts_for_every_member() -> None:
    group = vf.EnvGroup([member("a", good, 1), member("b", poor, 1)])
    group.add_rubric(vf.Rubric([good]))
    assert [rollout.reward for rollout in play_tasks(group, "hi")] == [2.0, 1.25]


@pytest.mark.parametrize(
    ("count", "names", "words"),
    [(0, None, "at least one"), (2, ["a"], "2 environments but 1 names"), (2, ["a", "a"], "different names")],
)
def test_a_group_that_cannot_be_is_refused(count: int, names: Any, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        vf.EnvGroup([member("x", good) for _ in range(count)], env_names=names)


def test_tasks_are_the_members_own() -> None:
    with pytest.raises(Invalid, match="no tasks of its own"):
        vf.EnvGroup([member("a", good)]).with_tasks([ROW])


def test_a_group_is_evaluated_with_the_reward_of_each_member() -> None:
    group = vf.EnvGroup([member("a", good), member("b", poor)], env_names=["a", "b"])
    results = group.evaluate(model=ScriptedModel(lambda _: "hi"), rollouts_per_example=2)
    assert {name: interval.mean for name, interval in results.summary.environments.items()} == {"a": 1.0, "b": 0.25}
