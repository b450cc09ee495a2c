from __future__ import annotations

import asyncio
import functools
import threading
import time
from typing import Any

import pytest
from tests.unit.envs.playing import play_tasks

import sandlot as vf
from sandlot.errors import Invalid

ROW = {"question": "?", "answer": "yes", "level": 3}


def environment(*funcs: Any, weights: list[float] | None = None, **options: Any) -> vf.Environment:
    rows = options.pop("rows", [ROW])
    return vf.SingleTurnEnv(dataset=rows, rubric=vf.Rubric(list(funcs), weights, **options))


def test_a_reward_receives_by_name_whatever_it_asks_for() -> None:
    seen: dict[str, Any] = {}

    def everything(prompt, completion, answer, info, state, task, parser, rollout, level, question):  # type: ignore[no-untyped-def]
        seen.update(locals())
        return 1

    (rollout,) = play_tasks(environment(everything), "yes")
    assert rollout.reward == 1.0
    assert (seen["answer"], seen["level"], seen["question"], seen["info"]) == ("yes", 3, "?", {})
    assert seen["prompt"][0].content == "?"
    assert seen["completion"] == [{"role": "assistant", "content": "yes"}]
    assert isinstance(seen["rollout"], vf.Rollout)
    assert seen["rollout"].verdict is None
    assert isinstance(seen["parser"], vf.Parser)


def test_keyword_arguments_receive_all_of_it() -> None:
    def greedy(completion: Any, **kwargs: Any) -> float:
        assert {"prompt", "answer", "info", "state", "task", "parser", "level"} <= kwargs.keys()
        return 1.0

    assert play_tasks(environment(greedy), "yes")[0].reward == 1.0


@pytest.mark.parametrize("name", ["anwser", "completions_", "foo"])
def test_a_misspelt_parameter_is_an_error_when_the_environment_is_built(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def wrong({name}): return 1.0", namespace)
    with pytest.raises(Invalid, match=name) as caught:
        environment(namespace["wrong"])
    assert "answer" in (caught.value.hint or "")


def test_a_misspelt_parameter_of_a_lazy_dataset_is_an_error_when_it_first_loads() -> None:
    def wrong(levle: int) -> float:
        return 1.0

    env = vf.SingleTurnEnv(dataset=lambda: [ROW], rubric=vf.Rubric([wrong]))
    with pytest.raises(Invalid, match="levle"):
        list(env.playable.tasks("train"))


@pytest.mark.parametrize(
    ("weights", "values", "reward"), [([0.7, 0.3], (1.0, 0.0), 0.7), ([0.5, -1], (1.0, 0.25), 0.25)]
)
def test_SCOR_02_the_stored_reward_is_the_weighted_sum(
    weights: list[float], values: tuple[float, float], reward: float
) -> None:
    (rollout,) = play_tasks(
        environment(lambda completion: values[0], lambda completion: values[1], weights=weights), "yes"
    )
    assert rollout.reward == pytest.approx(reward)
    assert rollout.verdict is not None
    assert [each.value for each in rollout.verdict.rewards] == list(values)


def test_SCOR_06_callables_of_every_kind_run_under_stable_names_that_are_told_apart() -> None:
    def close(completion: Any, threshold: float) -> float:
        return threshold

    class Strict:
        def __call__(self, completion: Any) -> float:
            return 0.25

    class Slow:
        async def __call__(self, completion: Any) -> float:
            await asyncio.sleep(0)
            return 0.125

    partial = functools.partial(close, threshold=0.5)
    env = environment(partial, functools.partial(partial, threshold=1.0), Strict(), Slow(), lambda completion: 2.0)
    (rollout,) = play_tasks(env, "yes")
    assert rollout.verdict is not None
    assert {each.name: each.value for each in rollout.verdict.rewards} == {
        "close": 0.5,
        "close_2": 1.0,
        "Strict": 0.25,
        "Slow": 0.125,
        "reward": 2.0,
    }


@pytest.mark.parametrize("returned", [None, "1.0", float("nan"), [1.0]])
def test_what_is_no_number_is_no_reward(returned: Any) -> None:
    (rollout,) = play_tasks(environment(lambda completion: returned), "yes", scoring_retries=0)
    assert (rollout.reward, rollout.status) == (None, "unscored")
    assert rollout.verdict is not None
    assert rollout.verdict.failure is not None
    assert "number" in rollout.verdict.failure.message


def test_SCOR_01_a_reward_that_raises_is_one_rollouts_missing_verdict() -> None:
    def fragile(completion: Any, answer: str) -> float:
        if completion[-1].content == "odd":
            raise ValueError("cannot parse")
        return 1.0

    def fine(completion: Any) -> float:
        return 0.5

    rollouts = play_tasks(environment(fragile, fine), "odd", "yes", count=2, scoring_retries=0)
    assert [rollout.reward for rollout in rollouts] == [None, 1.5]
    verdict = rollouts[0].verdict
    assert verdict is not None
    assert verdict.failure is not None
    assert verdict.failure.message == "fragile: cannot parse"
    assert [each.name for each in verdict.rewards] == ["fine"], "what could be scored is kept"


def test_a_metric_that_raises_leaves_the_reward_as_it_is() -> None:
    def broken(completion: Any) -> float:
        raise ValueError("no")

    env = environment(lambda completion: 1.0)
    env.rubric.add_metric(broken)
    (rollout,) = play_tasks(env, "yes")
    assert rollout.reward == 1.0
    assert rollout.verdict is not None
    assert rollout.verdict.failure is not None
    assert "broken" not in rollout.verdict.metrics


def test_scores_carry_feedback_and_metrics() -> None:
    def graded(completion: Any) -> vf.Score:
        return vf.Score(0.5, feedback="half of it", metrics={"words": 3})

    (rollout,) = play_tasks(environment(graded), "yes")
    assert rollout.verdict is not None
    assert rollout.verdict.rewards[0].feedback == "half of it"
    assert rollout.verdict.metrics == {"num_turns": 1.0, "words": 3.0}


def test_functions_run_in_list_order_so_that_a_later_one_reads_what_an_earlier_one_wrote() -> None:
    async def first(state: Any) -> float:
        await asyncio.sleep(0.01)
        state["seen"] = 0.25
        return 0.0

    def second(state: Any) -> float:
        return float(state["seen"])

    assert play_tasks(environment(first, second), "yes")[0].reward == 0.25


def test_a_group_function_judges_the_rollouts_of_a_task_together() -> None:
    def longest(completions: Any) -> list[float]:
        lengths = [len(completion[-1].content) for completion in completions]
        return [float(length == max(lengths)) for length in lengths]

    rollouts = play_tasks(environment(longest), "a", "abc", "ab", count=3)
    assert [rollout.reward for rollout in rollouts] == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("size", [1, 5])
def test_a_group_function_with_the_wrong_number_of_scores_gives_no_rewards(size: int) -> None:
    def wrong(completions: Any) -> list[float]:
        return [1.0] * size

    rollouts = play_tasks(environment(wrong), "a", count=3, scoring_retries=0)
    assert [rollout.reward for rollout in rollouts] == [None, None, None]


def test_a_blocking_reward_holds_up_nobody() -> None:
    threads = set()

    def slow(completion: Any) -> float:
        threads.add(threading.current_thread())
        time.sleep(0.2)
        return 1.0

    begin = time.perf_counter()
    rollouts = play_tasks(environment(slow), "yes", count=8, max_concurrent=8)
    assert time.perf_counter() - begin < 1.0
    assert len(rollouts) == 8
    assert threading.main_thread() not in threads


def test_as_many_weights_as_functions_are_needed() -> None:
    with pytest.raises(Invalid, match="2 reward functions but 1 weights"):
        vf.Rubric([lambda completion: 1, lambda completion: 2], [1.0])


def test_marked_methods_are_rewards_metrics_stops_and_clean_ups() -> None:
    class Marked(vf.MultiTurnEnv):
        def __init__(self) -> None:
            self.cleaned: list[str] = []
            super().__init__(dataset=[ROW])

        async def env_response(self, messages: Any, state: Any, **kwargs: Any) -> Any:
            return "again"

        @vf.stop(priority=10)
        async def enough(self, state: Any) -> bool:
            return bool(state["turn"] == 2)

        @vf.reward(weight=2.0)
        def right(self, completion: Any, answer: str) -> float:
            return float(completion[-1].content == answer)

        @vf.metric
        def words(self, completion: Any) -> int:
            return len(completion)

        @vf.cleanup
        async def tidy(self, state: Any) -> None:
            self.cleaned.append(state["trajectory_id"])

    env = Marked()
    (rollout,) = play_tasks(env, "no", "yes")
    assert (rollout.reward, rollout.stop) == (2.0, "enough")
    assert rollout.verdict is not None
    assert rollout.verdict.metrics["words"] == 3
    assert env.cleaned == [rollout.id]


def test_a_rubric_that_two_environments_share_does_not_collect_their_methods() -> None:
    class Scored(vf.SingleTurnEnv):
        @vf.reward(weight=0.5)
        def spoken(self, completion: Any) -> float:
            return float(bool(completion))

    shared = vf.Rubric([lambda answer: 1.0])
    rewards = [play_tasks(Scored(dataset=[ROW], rubric=shared), "yes")[0].reward for _ in range(3)]
    assert rewards == [1.5, 1.5, 1.5]
    assert len(shared.functions) == 1


def test_a_rubrics_clean_up_runs_behind_its_scoring_and_an_environments_before() -> None:
    order: list[str] = []

    class Tidy(vf.Rubric):
        @vf.cleanup
        async def put_away(self, state: Any) -> None:
            order.append("rubric")

    class Opened(vf.SingleTurnEnv):
        @vf.cleanup
        async def shut(self, state: Any) -> None:
            order.append("environment")

    class Broken(Opened):
        async def setup_state(self, state: Any, **kwargs: Any) -> Any:
            raise ValueError("no place")

    def scored() -> float:
        order.append("scored")
        return 1.0

    env = Opened(dataset=[ROW], rubric=Tidy([scored]))
    play_tasks(env, "yes")
    play_tasks(vf.EnvGroup([env]), "yes")
    assert order == ["environment", "scored", "rubric"] * 2
    order.clear()
    play_tasks(Broken(dataset=[ROW], rubric=Tidy([scored])), "yes", retries=0)
    assert order == ["environment", "rubric"]
