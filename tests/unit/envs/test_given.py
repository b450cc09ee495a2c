from __future__ import annotations

import asyncio
from typing import Any

import pytest

import sandlot as vf
from sandlot.errors import Invalid
from sandlot.testing import ScriptedModel


def echo() -> ScriptedModel:
    """A model that repeats the last message."""
    return ScriptedModel(lambda messages: messages[-1]["content"])


def right(completion: Any, answer: str) -> float:
    return float(completion[-1]["content"] == answer)


def environment(**options: Any) -> vf.SingleTurnEnv:
    return vf.SingleTurnEnv(rubric=vf.Rubric([right]), **options)


ROWS = [{"question": "a", "answer": "a"}, {"question": "b", "answer": "x"}, {"question": "c", "answer": "c"}]


def test_rows_are_played_in_their_order_without_being_the_environments_tasks() -> None:
    env = environment(system_prompt="Repeat.")
    results = env.generate_sync(ROWS, None, echo())
    assert results.reward == [1.0, 0.0, 1.0]
    assert [row["completion"][0]["content"] for row in results["outputs"]] == ["a", "b", "c"]
    assert results.prompt[0][0] == {"role": "system", "content": "Repeat."}


def test_rows_of_one_example_are_scored_together() -> None:
    def best(completions: list[Any]) -> list[float]:
        return [float(len(completions))] * len(completions)

    env = vf.SingleTurnEnv(rubric=vf.Rubric([best]))
    rows = [{"question": "a", "example_id": 0}, {"question": "b", "example_id": 1}, {"question": "a", "example_id": 0}]
    assert env.generate_sync(rows, None, echo()).reward == [2.0, 1.0, 2.0]


async def test_one_row_one_group_and_one_state() -> None:
    env, model = environment(), echo()
    one = await env.run_rollout(ROWS[0], model, "m", {"temperature": 0.5})
    assert (one["reward"], one["stop_condition"]) == (1.0, "max_turns_reached")
    group = await env.run_group([ROWS[0], ROWS[0]], model, "m", {}, max_retries=1)
    assert [row["reward"] for row in group] == [1.0, 1.0]
    state = await env.rollout(ROWS[1], model, "m")
    assert state["completion"][0]["content"] == "b"
    assert (state["reward"], state["error"]) == (None, None)


async def test_an_authors_fault_is_in_the_state_not_raised() -> None:
    class Broken(vf.SingleTurnEnv):
        async def setup_state(self, state: vf.State) -> None:
            raise KeyError("lost")

    state = await Broken().rollout(ROWS[0], echo(), "m")
    assert isinstance(state["error"], KeyError)


def test_a_row_is_routed_to_the_member_it_names() -> None:
    group = vf.EnvGroup([environment(dataset=ROWS), vf.SingleTurnEnv(dataset=ROWS)], env_names=["a", "b"])
    rows = [{**row, "info": {"env_id": name}} for row, name in zip(ROWS, ["a", "b", "a"], strict=True)]
    assert group.generate_sync(rows, None, echo()).reward == [1.0, 0.0, 1.0]
    with pytest.raises(Invalid, match="no environment"):
        group.generate_sync(ROWS, None, echo())


def test_a_model_can_be_asked_beside_the_rollout() -> None:
    class Asking(vf.SingleTurnEnv):
        async def setup_state(self, state: vf.State) -> None:
            response = await self.get_model_response(state, [{"role": "user", "content": "beside"}])
            state["heard"] = response.message.content

    (output,) = Asking(rubric=vf.Rubric()).generate_sync(ROWS[:1], None, echo(), sampling_args={"top_k": 3}).outputs
    assert output["heard"] == "beside"
    assert len(output["completion"]) == 1


def test_what_has_no_effect_is_said_and_what_never_existed_is_refused() -> None:
    env = environment()
    with pytest.warns(UserWarning, match="state_columns"):
        env.generate_sync(ROWS, None, echo(), state_columns=["x"])
    with pytest.raises(Invalid, match="max_concurent"):
        env.generate_sync(ROWS, None, echo(), max_concurent=3)
    with pytest.raises(Invalid, match="no row"):
        env.generate_sync([], None, echo())
    with pytest.warns(UserWarning, match="independent_scoring"):
        environment(dataset=ROWS).evaluate(model=echo(), independent_scoring=True)


async def test_generate_sync_inside_a_loop_says_what_to_call() -> None:
    with pytest.raises(Invalid, match="block"):
        environment().generate_sync(ROWS, None, echo())
    await asyncio.sleep(0)


def test_attributes_are_set_through_their_setters() -> None:
    class Counting(vf.SingleTurnEnv):
        def set_limit(self, value: int) -> None:
            self.limit = value + 1

    env = Counting(dataset=ROWS)
    env.set_kwargs(limit=3, colour="red", max_turns=2)
    assert (env.limit, env.colour, env.max_turns) == (4, "red", 2)  # type: ignore[attr-defined]


def test_older_arguments_are_taken() -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    with pytest.warns(DeprecationWarning, match="completion"):
        env = vf.SingleTurnEnv(dataset=ROWS, message_type="completion", oai_tools=[tool])
    assert env.tool_defs[0].name == "look"
    results = env.evaluate(model=echo(), num_examples=1)
    assert results.rollouts[0].tools[0].name == "look"
