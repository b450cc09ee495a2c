from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.envs.playing import calls, play_tasks

import sandlot as vf
from sandlot.errors import Invalid
from sandlot.models import Endpoint, EndpointModel
from sandlot.records import Rollout, Sampling
from sandlot.testing import Fault, MockServer, ScriptedModel

ROW = {"question": "What is 2 + 2?", "answer": "4"}
ROUTES = ("classify", "pooling", "score")


def served(server: MockServer, route: str, **fields: Any) -> EndpointModel:
    fields = {"retries": {"tries": 3, "base": 0.0}, **fields}
    return EndpointModel(Endpoint(id="rm", url=f"{server.url}/{route}", **fields))


def rated(reward_model: Any, answer: Any = "It is 4.", **options: Any) -> Rollout:
    rubric = vf.JudgeRubric(reward_model=reward_model, **options)
    env = vf.SingleTurnEnv(dataset=[ROW], system_prompt="Be brief.", rubric=rubric)
    return play_tasks(env, answer, scoring_retries=0)[0]


def failure(rollout: Rollout) -> str:
    assert rollout.reward is None
    assert rollout.verdict is not None
    assert rollout.verdict.failure is not None
    return rollout.verdict.failure.message


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("number", ["0.7312", "-12.5", "0", "31.0"])
def test_the_number_of_a_reward_model_is_the_reward(route: str, number: str) -> None:
    with MockServer(number) as server:
        rollout = rated(served(server, route, price={"input": 2.0}), weight=2.0)
        (request,) = server.requests
    assert rollout.reward == 2 * float(number)
    assert rollout.verdict is not None
    assert rollout.verdict.rewards[0].name == "rated"
    assert (rollout.verdict.rewards[0].feedback or "").startswith("rm: ")
    assert rollout.cost is not None
    if route == "score":
        assert (request["text_1"], request["text_2"]) == ("Be brief.\n\nWhat is 2 + 2?", "It is 4.")
    else:
        assert [(each["role"], each["content"]) for each in request["messages"]] == [
            ("system", "Be brief."), ("user", "What is 2 + 2?"), ("assistant", "It is 4.")
        ]  # fmt: skip


def test_fields_of_the_server_are_passed_on_and_its_key_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RM_KEY", "s3cret")
    with MockServer("1.5", key="s3cret") as server:
        model = served(server, "classify", model="Skywork/V2", key="RM_KEY", extra={"use_activation": False})
        assert rated(model).reward == 1.5
        assert server.requests[0]["use_activation"] is False
        assert server.requests[0]["model"] == "Skywork/V2"


def test_a_reward_model_is_found_by_its_name_in_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with MockServer("0.25") as server:
        entry = f'[[endpoint]]\nid = "rm"\nurl = "{server.url}"\ntype = "pooling"\n'
        (tmp_path / "endpoints.toml").write_text(entry)
        assert rated("rm").reward == 0.25
        assert "there is no endpoint 'rn'" in failure(rated("rn"))


@pytest.mark.parametrize("said", ["reward:-3.28", "Reward: 2", " 1e-3 ", "+4"])
def test_a_reward_model_behind_chat_may_say_its_number_with_a_label(said: str) -> None:
    assert rated(ScriptedModel(said)).reward == float(said.lower().removeprefix("reward:"))


@pytest.mark.parametrize("said", ["I rate it 10", "", "nan", "inf", "[[10]]", "1 2", "score: 10"])
def test_a_model_that_gives_no_number_gives_no_verdict(said: str) -> None:
    assert "gave no number and so is no reward model" in failure(rated(ScriptedModel(said)))


@pytest.mark.parametrize("route", ROUTES)
def test_an_answer_without_one_finite_number_is_no_verdict(route: str) -> None:
    with MockServer("well") as server:
        assert "no finite number" in failure(rated(served(server, route)))
        assert len(server.requests) == 3


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("fault", ["429", "500", "html", "reset", "empty"])
def test_what_may_heal_is_asked_again(route: str, fault: str) -> None:
    with MockServer("0.5", faults=[Fault.parse(fault)]) as server:
        assert rated(served(server, route)).reward == 0.5
        assert len(server.requests) == 2


def test_only_what_the_parser_takes_for_the_answer_is_rated_and_no_answer_is_an_empty_one() -> None:
    for said, shown in (("<think>hm</think> 4", "4"), ("<think>hm", "")):
        model = ScriptedModel("1")
        parser = vf.ThinkParser()
        rubric = vf.JudgeRubric(parser=parser, reward_model=model)
        play_tasks(vf.SingleTurnEnv(dataset=[ROW], rubric=rubric, parser=parser), said)
        assert model.calls[0].messages[-1] == {"role": "assistant", "content": shown}


def test_a_conversation_with_tools_is_rated_up_to_its_last_answer() -> None:
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    with MockServer("0.5") as server:
        rubric = vf.JudgeRubric(reward_model=served(server, "classify"))
        env = vf.ToolEnv(dataset=[ROW], tools=[add], rubric=rubric)
        (rollout,) = play_tasks(env, calls(("add", '{"a": 2, "b": 2}')), "It is 4.")
        roles = [message["role"] for message in server.requests[0]["messages"]]
    assert rollout.reward == 0.5
    assert roles == ["user", "assistant", "tool", "assistant"]


def test_criteria_and_a_reward_model_stand_side_by_side() -> None:
    rubric = vf.JudgeRubric(judge_client=ScriptedModel("[[5]]"), criteria="be right", reward_model=ScriptedModel("3"))
    (rollout,) = play_tasks(vf.SingleTurnEnv(dataset=[ROW], rubric=rubric), "4")
    assert rollout.verdict is not None
    assert {each.name: each.value for each in rollout.verdict.rewards} == {"judged": 0.5, "rated": 3.0}


@pytest.mark.parametrize("asked", [{"temperature": 0.0}, {"max_tokens": 5}, {"stop": ["."]}])
def test_a_sampling_makes_no_sense_where_nothing_is_drawn(asked: dict[str, Any]) -> None:
    model = EndpointModel(Endpoint(id="rm", url="http://127.0.0.1:1/score"))
    model.check(Sampling(seed=3))
    with pytest.raises(Invalid, match=f"{next(iter(asked))} has no meaning there"):
        model.check(Sampling(**asked))
