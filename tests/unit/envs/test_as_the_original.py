"""What environments of the original API rely on, in small environments of our own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from tests.unit.envs.playing import play_tasks

import sandlot as vf
from sandlot.models import Endpoint, EndpointModel
from sandlot.testing import MockServer, ScriptedModel

ROW = {"question": "?", "answer": "x"}


class Talks(vf.MultiTurnEnv):
    """Says "on" for ever."""

    async def env_response(self, messages: Any, state: vf.State, **_: Any) -> Any:
        return [{"role": "user", "content": "on"}]


def test_a_rubrics_clean_up_runs_after_it_has_scored_and_the_environments_before() -> None:
    happened: list[str] = []

    class Cleans(vf.Rubric):
        @vf.cleanup
        async def give_back(self, state: vf.State) -> None:
            happened.append(f"rubric, reward {state['reward']}")

    class Cleaned(Talks):
        @vf.cleanup
        async def tidy(self, state: vf.State) -> None:
            happened.append(f"environment, reward {state['reward']}")

    def right(answer: str) -> float:
        happened.append("reward")
        return 1.0

    play_tasks(Cleaned(dataset=[ROW], max_turns=1, rubric=vf.RubricGroup([Cleans([right]), vf.Rubric()])), "x")
    assert happened == ["environment, reward None", "reward", "rubric, reward 1.0"]


def test_a_rubrics_own_cleanup_and_teardown_are_called_also_without_a_mark() -> None:
    happened: list[str] = []

    class Cleans(vf.Rubric):
        async def cleanup(self, state: vf.State) -> None:
            happened.append("cleanup")

        def teardown(self) -> Any:
            happened.append("teardown")

    env = vf.EnvGroup([vf.SingleTurnEnv(dataset=[ROW], rubric=vf.RubricGroup([Cleans()]))])
    play_tasks(env, "x")
    asyncio.run(env.playable.close())
    assert happened == ["cleanup", "teardown"]


def test_an_author_may_call_an_attribute_as_a_method_of_ours_is_called() -> None:
    class Named(vf.SingleTurnEnv):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.split = "test"
            self.holds_out = 0.1
            self.tasks_of = "everybody"
            self.monitor = "a screen"
            self.describe = "a description"

    env = Named(dataset=[ROW], rubric=vf.Rubric([lambda answer: 1.0]))
    assert env.evaluate(model=ScriptedModel("x")).reward == [1.0]
    assert env.generate_sync([ROW], model=ScriptedModel("x")).reward == [1.0]
    assert vf.EnvGroup([env]).evaluate(model=ScriptedModel("x")).reward == [1.0]
    assert len(env.get_dataset()) == 1


def test_a_reward_may_name_the_example_it_is_about() -> None:
    seen: list[Any] = []

    def right(example_id: Any, **rest: Any) -> float:
        seen.append(example_id)
        return 1.0

    play_tasks(vf.SingleTurnEnv(dataset=[{**ROW, "example_id": 7}], rubric=vf.Rubric([right])), "x")
    assert seen == [7]


async def test_a_response_reads_as_the_originals_does() -> None:
    seen: list[Any] = []

    class Looks(Talks):
        async def add_model_response(self, state: vf.State, prompt_messages: Any, response: Any) -> None:
            await super().add_model_response(state, prompt_messages, response)
            message = state["trajectory"][-1]["response"].message
            seen.append([response.id, response.created, message.finish_reason, message.is_truncated])
            seen.append([message.tokens, response.usage.total_tokens, dict(message)])

    async with MockServer(["hello"]) as server:
        env = Looks(dataset=[ROW], max_turns=1)
        model = EndpointModel(Endpoint(id="mock", url=server.url))
        await env.evaluate(model=model)
        await model.close()
    assert seen[0] == ["chatcmpl-mock", 0, "stop", False]
    assert seen[1] == [None, 2, {"role": "assistant", "content": "hello"}]


def test_a_rollout_ends_once_the_model_has_said_all_the_tokens_it_may() -> None:
    env = Talks(dataset=[ROW])
    env.set_kwargs(max_total_completion_tokens=5)
    (rollout,) = play_tasks(env, "two words")
    assert (rollout.stop, len(rollout.turns)) == ("max_total_completion_tokens_reached", 3)


def test_conditions_and_counts_of_the_original_can_be_asked_for() -> None:
    class Asks(Talks):
        async def is_completed(self, state: vf.State, **_: Any) -> bool:
            state["asked"] = [await self.prompt_too_long(state), self.get_state_usage(state)["output_tokens"]]
            self.increment_state_usage(state, input_tokens=1, output_tokens=10)
            return await self.max_turns_reached(state)

    (rollout,) = play_tasks(Asks(dataset=[ROW], max_turns=1), "two words")
    assert rollout.state["asked"] == [False, 12.0]
    assert rollout.usage.completion_tokens == 22


def test_rows_that_came_from_a_dataset_are_given_as_one() -> None:
    class Dataset:
        """Looks like a `datasets.Dataset`."""

        def __init__(self, rows: list[dict[str, Any]]) -> None:
            self.rows = rows
            self.column_names = list(rows[0])

        from_list = classmethod(lambda cls, rows: cls(rows))

        def __len__(self) -> int:
            return len(self.rows)

        def __iter__(self) -> Iterator[dict[str, Any]]:
            return iter(self.rows)

    for source in (Dataset([ROW]), lambda: Dataset([ROW])):
        env = vf.SingleTurnEnv(dataset=source)
        for rows in (env.get_dataset(), env.get_eval_dataset(n=1, seed=3), env.build_dataset()):
            assert isinstance(rows, Dataset)
            assert rows.rows[0]["prompt"][0]["content"] == "?"
    assert isinstance(vf.SingleTurnEnv(dataset=[ROW]).get_dataset(), list)


def test_a_members_name_finds_it_under_both_of_the_originals_methods() -> None:
    group = vf.EnvGroup([Talks(dataset=[ROW])], env_names=["one"])
    assert group.get_env_for_name("one") is group.get_env_for_task("one")
