from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import sandlot as vf
from sandlot.errors import Invalid
from sandlot.store import RunFolder
from sandlot.testing import ScriptedModel

ROWS = [{"question": f"Say {word}.", "answer": word} for word in ("one", "two", "three")]


def right(completion, answer):  # type: ignore[no-untyped-def]
    return float(completion[-1].content == answer)


def environment() -> vf.SingleTurnEnv:
    return vf.SingleTurnEnv(dataset=ROWS, rubric=vf.Rubric([right]))


def model() -> ScriptedModel:
    return ScriptedModel({"Say one.": "one", "Say two.": "no", "Say three.": "three"})


def test_evaluate_blocks_outside_a_loop_and_reads_as_rows_and_columns() -> None:
    results = environment().evaluate(model=model(), num_examples=-1, rollouts_per_example=2)
    assert results.reward == [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]
    assert results.answer == ["one", "one", "two", "two", "three", "three"]
    assert [row["completion"][0].content for row in results["outputs"]][::2] == ["one", "no", "three"]
    assert results["metadata"]["num_examples"] == 3
    assert results.metrics["num_turns"] == [1.0] * 6
    assert results.summary.reward == pytest.approx(2 / 3)
    assert "6 scored" in repr(results)
    assert "<table>" in results._repr_html_()


def test_the_results_may_be_awaited_and_inside_a_loop_it_is_a_coroutine() -> None:
    async def awaited() -> list[float]:
        return list((await environment().evaluate(model=model())).reward)

    assert asyncio.run(awaited()) == [1.0, 0.0, 1.0]
    results = environment().evaluate(model=model())

    async def await_results() -> object:
        return await results

    assert asyncio.run(await_results()) is results


def test_evaluate_sync_refuses_to_block_a_running_loop() -> None:
    async def inside() -> None:
        environment().evaluate_sync(model=model())

    with pytest.raises(Invalid, match="block"):
        asyncio.run(inside())


def test_a_clients_chat_completions_are_used() -> None:
    class Completions:
        async def create(self, **body):  # type: ignore[no-untyped-def]
            text = body["messages"][-1]["content"].removeprefix("Say ").removesuffix(".")
            return {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}

    class Chat:
        completions = Completions()

    class Client:
        chat = Chat()

    results = environment().evaluate(client=Client(), model="gpt-4.1-mini", num_examples=2)
    assert results.reward == [1.0, 1.0]


@pytest.mark.parametrize(("asked", "played"), [(-1, 3), (2, 2), (1000, 3), (0, 0)])
def test_CLI_06_12_as_many_tasks_as_asked_for(asked: int, played: int) -> None:
    results = environment().evaluate(model=model(), num_examples=asked)
    assert (len(results), results["metadata"]["num_examples"]) == (played, played)


def test_a_saved_evaluation_is_a_run_folder(tmp_path: Path) -> None:
    results = environment().evaluate(model=model(), results_path=tmp_path)
    saved = RunFolder.open(Path(results["metadata"]["path"]))
    assert sorted(rollout.reward or 0.0 for rollout in saved.rollouts()) == [0.0, 1.0, 1.0]
    assert saved.run.status == "done"


def test_no_model_says_how_to_give_one() -> None:
    with pytest.raises(Invalid, match="no model was given"):
        environment().evaluate()


def test_playing_one_rollout_needs_no_http_client_and_nothing_heavy() -> None:
    code = (
        "import sandlot as vf, sys\nfrom sandlot.testing import ScriptedModel\n"
        "env = vf.SingleTurnEnv(dataset=[{'question': '?', 'answer': 'a'}], rubric=vf.Rubric([lambda answer: 1.0]))\n"
        "print(env.evaluate(model=ScriptedModel('a')).reward)\n"
        "print([name for name in ('numpy', 'torch', 'httpx', 'rich', 'datasets') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[1.0]", "[]"]
