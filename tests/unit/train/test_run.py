"""Whole runs, from a config to a folder, on a tiny model."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.tiny import make_tiny_model
from tests.unit.train.games import Game, Watcher, settings, share_of_digits, train

import sandlot as vf
from sandlot.errors import Conflict, Failed, Invalid
from sandlot.inference import load_module, load_tokenizer
from sandlot.records import EnvironmentRef, Run
from sandlot.store import RunFolder
from sandlot.train import run_training
from sandlot.train.checkpoints import newest_checkpoint
from sandlot.train.controller import Controller
from sandlot.train.run import build_roles


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return make_tiny_model(tmp_path_factory.mktemp("model"))


def rewards(folder: Path) -> list[float]:
    return [event.values["reward"] for event in RunFolder.open(folder).metrics() if "reward" in event.values]


@pytest.mark.parametrize("algorithm", ["dppo", "grpo"])
def test_the_reward_rises_and_sampler_and_learner_agree_to_the_seventh_digit(
    model: Path, tmp_path: Path, algorithm: str
) -> None:
    config = settings(
        model,
        algorithm=algorithm,
        steps=16,
        tasks_per_step=4,
        optimiser={"learning_rate": 3e-3},
        eval={"num_tasks": 8, "rollouts_per_task": 4},
    )
    run = train(config, tmp_path / "run", Game(share_of_digits))
    curve = rewards(tmp_path / "run")
    metrics = RunFolder.open(tmp_path / "run").metrics()
    assert len(curve) == 16
    assert sum(curve[:3]) / 3 < 0.3
    assert sum(curve[-3:]) / 3 > 0.7, curve
    assert max(event.values.get("mismatch_kl", 0.0) for event in metrics) < 1e-7
    assert run.status == "done"
    assert run.summary["before"]["eval/game/high"] < run.summary["after"]["eval/game/low"]


def test_at_learning_rate_zero_no_bit_of_the_exported_weights_differs(model: Path, tmp_path: Path) -> None:
    config = settings(model, optimiser={"learning_rate": 0.0}, export="merged")
    train(config, tmp_path / "run", Game(share_of_digits))
    before, after = (load_file(folder / "model.safetensors") for folder in (model, tmp_path / "run" / "merged"))
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_exported_folder_loads_like_any_other_and_holds_the_trained_policy(model: Path, tmp_path: Path) -> None:
    config = settings(model, export="merged", checkpoint={"at_end": True})
    train(config, tmp_path / "run", Game(share_of_digits))
    merged = load_module(tmp_path / "run" / "merged")
    trained = load_file(tmp_path / "run" / "checkpoints" / "step_2" / "model.safetensors")
    assert all(torch.equal(parameter, trained[name]) for name, parameter in merged.named_parameters())
    chat: list[Any] = [{"role": "user", "content": "hi"}]
    texts = [load_tokenizer(f).apply_chat_template(chat, tokenize=False) for f in (model, tmp_path / "run" / "merged")]
    assert texts[0] == texts[1]


def test_every_rollout_is_in_the_folder_with_its_step_split_and_versions(model: Path, tmp_path: Path) -> None:
    config = settings(model, eval={"num_tasks": 3, "interval": 1})
    train(config, tmp_path / "run", Game(share_of_digits))
    folder = RunFolder.open(tmp_path / "run")
    trained = [r for r in folder.rollouts() if r.split == "train"]
    held_out = [r for r in folder.rollouts() if r.split == "eval"]
    assert sorted({(r.step, r.task.id) for r in held_out}) == [(s, f"eval-{i}") for s in (0, 1, 2) for i in range(3)]
    played = sum(event.values.get("rollouts/played", 0) for event in folder.metrics())
    assert len(trained) == played >= 32
    for rollout in trained + held_out:
        versions = {v for turn in rollout.turns if turn.tokens for v in turn.tokens.versions}
        assert versions == {rollout.step - 1 if rollout.split == "train" else rollout.step}  # type: ignore[operator]


def test_a_run_tells_its_watcher_what_begins_and_what_came_out(model: Path, tmp_path: Path) -> None:
    watcher = Watcher()
    train(settings(model, eval={"num_tasks": 2}), tmp_path / "run", Game(share_of_digits), progress=watcher)
    assert [name for name, _ in watcher.phases][1:] == [
        "evaluation after step 0",
        "step 1 of 2",
        "step 2 of 2",
        "evaluation after step 2",
    ]
    assert [seconds is None for _, seconds in watcher.phases] == [True, True, True, False, False]
    assert watcher.steps == [0, 1, 2, 2]


def test_several_environments_are_trained_together_and_counted_apart(model: Path, tmp_path: Path) -> None:
    config = settings(model, env=[{"id": "a"}, {"id": "b", "weight": 3}], steps=3, tasks_per_step=4)
    games = [Game(share_of_digits, name="a"), Game(lambda text: sum(c.isupper() for c in text) / 4, name="b")]
    train(config, tmp_path / "run", *games)
    names = {name for event in RunFolder.open(tmp_path / "run").metrics() for name in event.values}
    assert {"reward/a", "reward/b"} <= names
    environments = [r.environment for r in RunFolder.open(tmp_path / "run").rollouts()]
    assert environments.count("b") > environments.count("a") > 0


def test_truncated_rollouts_can_be_withheld_and_still_count_for_the_baseline(model: Path, tmp_path: Path) -> None:
    config = settings(model, train_on_truncated=False, sampling={"max_tokens": 30}, group_size=16)
    train(config, tmp_path / "run", Game(share_of_digits))
    for event in RunFolder.open(tmp_path / "run").metrics():
        values = event.values
        assert values["samples/withheld"] > 0
        assert values["samples"] + values["samples/withheld"] == 16 * values["groups/learned"]


def final_weights(folder: Path) -> dict[str, torch.Tensor]:
    checkpoint = newest_checkpoint(folder)
    assert checkpoint is not None
    return load_file(checkpoint.path / "model.safetensors")


def distance(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    return float(torch.stack([(tensor - other[name]).norm() for name, tensor in one.items()]).norm())


def test_a_run_cancelled_at_any_moment_and_taken_up_ends_with_the_weights_of_one_that_was_not(
    model: Path, tmp_path: Path
) -> None:
    config = settings(model, steps=4, eval={"num_tasks": 4, "interval": 2}, checkpoint={"interval": 2, "at_end": True})
    game = Game(share_of_digits)
    begun = time.perf_counter()
    train(config, tmp_path / "whole", game)
    whole = time.perf_counter() - begun
    moved = distance(final_weights(tmp_path / "whole"), load_file(model / "model.safetensors"))

    async def cancelled(folder: Path, after: float) -> bool:
        running = asyncio.create_task(run_training(config, {"game": game}, folder=folder))
        await asyncio.sleep(after)
        running.cancel()
        await asyncio.wait([running])
        return running.cancelled()

    for part in range(1, 8):
        folder = tmp_path / f"parts-{part}"
        stopped = asyncio.run(cancelled(folder, whole * part / 8))
        if stopped and (folder / "events.jsonl").exists():
            # Done, if all was on record before the last thing, closing the sampler, was cancelled.
            assert RunFolder.open(folder).run.status in ("interrupted", "done")
        assert train(config, folder, game).status == "done"
        # Which calls share a forward pass is a matter of timing, and rounds the last digits of log-probabilities.
        assert distance(final_weights(folder), final_weights(tmp_path / "whole")) < 1e-3 * moved
        evaluated = {r.step for r in RunFolder.open(folder).rollouts() if r.split == "eval"}
        assert evaluated == {0, 2, 4}


@pytest.mark.parametrize("staleness", [1, 2])
def test_asynchronous_training_learns_from_tokens_that_are_not_older_than_allowed(
    model: Path, tmp_path: Path, staleness: int
) -> None:
    config = settings(
        model,
        steps=18,
        tasks_per_step=4,
        limits={"max_staleness": staleness},
        optimiser={"learning_rate": 3e-3},
    )
    train(config, tmp_path / "run", Game(share_of_digits))
    metrics = [event.values for event in RunFolder.open(tmp_path / "run").metrics()]
    assert 0 < sum(values["staleness"] for values in metrics) / 18 <= staleness
    assert sum(values["reward"] for values in metrics[-3:]) / 3 > 0.6


def test_a_context_that_the_model_has_not_is_refused(model: Path, tmp_path: Path) -> None:
    config = settings(model, limits={"context_length": 1000, "sample_tokens": 1000})
    with pytest.raises(Invalid, match="must be between 2 and the model's 512"):
        train(config, tmp_path / "run", Game(share_of_digits))


def test_an_environment_without_held_out_tasks_is_refused_before_anything_is_played(
    model: Path, tmp_path: Path
) -> None:
    class Bare(Game):
        def tasks(self, split: str = "train") -> Any:
            return super().tasks(split) if split == "train" else []

    game = Bare(share_of_digits)
    with pytest.raises(Invalid, match="game has no held-out tasks"):
        train(settings(model, eval={"num_tasks": 4}), tmp_path / "run", game)
    assert game.seen == []
    assert RunFolder.open(tmp_path / "run").run.status == "failed"


def test_a_folder_of_a_run_with_other_settings_is_refused_by_name_and_left_as_it_was(
    model: Path, tmp_path: Path
) -> None:
    train(settings(model), tmp_path / "run", Game(share_of_digits))
    before = (tmp_path / "run" / "events.jsonl").read_bytes()
    with pytest.raises(Conflict, match=r"group_size was 8 and is 4; algorithm was .*'dppo'.* and is .*'grpo'"):
        train(settings(model, group_size=4, algorithm="grpo"), tmp_path / "run", Game(share_of_digits))
    assert (tmp_path / "run" / "events.jsonl").read_bytes() == before


def test_a_run_is_not_taken_up_with_another_release_or_an_environment_that_was_edited(
    model: Path, tmp_path: Path
) -> None:
    def go(steps: int, **code: str) -> Run:
        refs = [EnvironmentRef(id="game", **{"version": "0.1.0", "digest": "sha256:one", **code})]
        return train(settings(model, steps=steps), tmp_path / "run", Game(share_of_digits), refs=refs)

    go(2)
    before = (tmp_path / "run" / "events.jsonl").read_bytes()
    for code, said in (
        ({"version": "0.2.0"}, "game had version 0.1.0 and has 0.2.0"),
        ({"digest": "sha256:two"}, "game had digest sha256:one and has sha256:two"),
        ({"owner": "bob"}, "game had owner None and has bob"),
    ):
        with pytest.raises(Conflict, match=said):
            go(3, **code)
    assert (tmp_path / "run" / "events.jsonl").read_bytes() == before
    assert go(3).summary["steps"] == 3


def test_a_disk_that_refuses_a_checkpoint_ends_the_run_with_the_reason(model: Path, tmp_path: Path) -> None:
    config = settings(model, checkpoint={"at_end": True})
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "checkpoints").write_text("a file where a folder should be")
    with pytest.raises(Failed, match="checkpoints/step_2 cannot be written"):
        train(config, folder, Game(share_of_digits))
    assert "cannot be written" in str(RunFolder.open(folder).run.message)


def test_the_newest_checkpoints_are_kept_and_one_that_is_damaged_does_not_exist(model: Path, tmp_path: Path) -> None:
    config = settings(model, steps=4, checkpoint={"interval": 1, "keep_last": 2, "at_end": True})
    train(config, tmp_path / "run", Game(share_of_digits))
    checkpoints = tmp_path / "run" / "checkpoints"
    assert sorted(path.name for path in checkpoints.iterdir()) == ["step_3", "step_4"]
    for damage in ("model.safetensors", "controller.json"):
        file = checkpoints / "step_4" / damage
        content = file.read_bytes()
        file.write_bytes(content[:-1] + b"x")
        found = newest_checkpoint(tmp_path / "run")
        assert found is not None
        assert found.step == 3
        file.write_bytes(content)
    manifest = checkpoints / "step_4" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"schema": 9}))
    assert newest_checkpoint(tmp_path / "run").step == 3  # type: ignore[union-attr]


def test_a_policy_that_has_learned_everything_ends_early_evaluated_exported_and_done(
    model: Path, tmp_path: Path
) -> None:
    config = settings(
        model,
        steps=60,
        optimiser={"learning_rate": 1e-2},
        eval={"num_tasks": 2},
        export="merged",
        sampling={"max_tokens": 1},
    )
    run = train(config, tmp_path / "run", Game(share_of_digits))
    assert run.status == "done"
    assert "nothing is left to learn" in str(run.message)
    assert run.summary["steps"] < 60
    assert run.summary["after"]["eval/game/reward"] == 1.0
    assert (tmp_path / "run" / "merged" / "model.safetensors").is_file()


class Talk(vf.MultiTurnEnv):
    """Asks again until there were three answers."""

    async def env_response(self, messages: Any, state: Any, **kwargs: Any) -> Any:
        return [{"role": "user", "content": "again"}]

    async def is_completed(self, messages: Any, state: Any, **kwargs: Any) -> bool:
        return sum(message["role"] == "assistant" for message in messages) >= 3


FORGETFUL = """\
{%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\n' }}
{%- if message['role'] != 'assistant' or loop.last %}{{ message['content'] or '' }}{% endif %}
{{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""
"""Leaves out what the assistant said in earlier turns, as templates do with reasoning."""


@pytest.mark.parametrize("forgetful", [False, True])
def test_conversations_are_trained_on_as_they_were_sampled_also_where_the_template_rewrites_history(
    model: Path, tmp_path: Path, forgetful: bool
) -> None:
    if forgetful:
        model = make_tiny_model(tmp_path / "model", chat_template=FORGETFUL)

    def digits(completion: Any, **kwargs: Any) -> float:
        return share_of_digits("".join(m["content"] or "" for m in completion if m["role"] == "assistant"))

    rows = [{"question": letter} for letter in "abcd"]
    env = Talk(dataset=rows, rubric=vf.Rubric(funcs=[digits]))
    config = settings(model, sampling={"temperature": 0.7}, env={"id": "talk"})
    train(config, tmp_path / "run", env.playable)
    folder = RunFolder.open(tmp_path / "run")
    first = folder.metrics()[0].values
    assert first["rollouts/turns"] == 3
    assert first["mismatch_kl"] < 1e-7
    learned = first["groups/learned"] * 8
    assert first["samples"] == learned * (3 if forgetful else 1)
    assert first["rollouts/forked"] == (first["rollouts/played"] if forgetful else 0)
    drawn = [r for r in folder.rollouts() if r.step == 1]
    assert first["tokens"] <= sum(len(t.tokens.sampled) for r in drawn for t in r.turns if t.tokens)
    assert first["tokens"] > 8 * learned


def test_a_long_evaluation_says_how_far_it_is_and_how_long_the_rest_takes(model: Path, tmp_path: Path) -> None:
    config = settings(model, steps=1, eval={"num_tasks": 2, "rollouts_per_task": 2, "at_start": False})
    watcher = Watcher()
    record = RunFolder.create(tmp_path / "run", Run(id="r", kind="train", name="t"))
    controller = Controller(
        config, build_roles(config, model), playables={"game": Game(share_of_digits)}, folder=record, progress=watcher
    )
    controller.tell_every = 0.0
    asyncio.run(controller.run())
    told = [(name, seconds) for name, seconds in watcher.phases if "rollouts" in name]
    assert [name for name, _ in told] == [f"evaluation after step 1, {n} of 4 rollouts" for n in (1, 2, 3)]
    assert all(seconds is not None and seconds > 0 for _, seconds in told)
