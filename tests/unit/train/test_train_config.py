from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandlot.config import build, describe, load
from sandlot.errors import Invalid
from sandlot.train import PRESETS, TrainConfig

MINIMAL: dict[str, Any] = {"model": "smollm2-135m", "env": {"id": "ada/wordle@0.1.0"}}


def test_five_lines_are_a_whole_config_and_every_default_is_printed(tmp_path: Path) -> None:
    file = tmp_path / "rl.toml"
    file.write_text('model = "smollm2-135m"\nsteps = 3\n[env]\nid = "ada/wordle@0.1.0"\n')
    config = load(TrainConfig, [file], [("optimiser.learning-rate", "1e-5")])
    shown = json.loads(config.resolved())
    assert [env["id"] for env in shown["env"]] == ["ada/wordle@0.1.0"]
    assert (shown["steps"], shown["optimiser"]["learning_rate"], shown["algorithm"]["trust"]) == (3, 1e-5, "tv")
    assert build(TrainConfig, shown) == config  # what is printed is a config again


def test_several_environments_stand_as_a_list_with_weights() -> None:
    config = build(TrainConfig, MINIMAL | {"env": [{"id": "a"}, {"id": "b", "weight": 3}]})
    assert [env.weight for env in config.env] == [1.0, 3.0]


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_a_preset_sets_its_row_and_any_key_can_be_set_beside_it(preset: str) -> None:
    config = build(TrainConfig, MINIMAL | {"algorithm": {"preset": preset, "high": 0.07}})
    for key, value in PRESETS[preset].items():
        assert key == "high" or getattr(config.algorithm, key) == value
    assert config.algorithm.high == 0.07
    assert build(TrainConfig, MINIMAL | {"algorithm": preset}).algorithm.preset == preset


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"group_size": 1}, "every advantage would be 0; set group_size to 2 or more"),
        ({"limits": {"context_length": 4096}}, "context_length = 4096 is more than limits.sample_tokens = 2048"),
        ({"sampling": {"max_tokens": 2048}}, "leaves no room for a prompt in 2048 tokens"),
        ({"sampling": {"top_p": 0.9}}, "top_p must be 1.0, found 0.9"),
        ({"sampling": {"top_k": 40}}, "top_k must be -1, found 40"),
        ({"sampling": {"min_p": 0.1}}, "min_p must be 0.0, found 0.1"),
        ({"sampling": {"temperature": 0}}, "sampling.temperature"),
        ({"learning_rate": 1e-5}, "unknown key 'learning_rate'"),
        ({"optimiser": {"learning_rte": 1e-5}}, "did you mean 'learning_rate'?"),
        ({"algorithm": "gpro"}, "there is no algorithm 'gpro'; choose one of cispo"),
        ({"group_size": 128}, "more than limits.max_concurrent = 64"),
        ({"env": []}, "env"),
        ({"env": [{"id": "a"}, {"id": "a"}]}, "the environment a is listed twice"),
        ({"steps": 0}, "steps"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(table: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid) as caught:
        build(TrainConfig, MINIMAL | table)
    assert message in caught.value.message
    assert ": :" not in caught.value.message


def test_a_group_of_one_is_fine_where_nothing_is_compared() -> None:
    assert build(TrainConfig, MINIMAL | {"group_size": 1, "algorithm": {"advantage": "reward"}}).group_size == 1


def test_every_key_has_a_sentence() -> None:
    assert [name for name, _, _, text in describe(TrainConfig) if not text.strip().endswith(".")] == []


def test_a_config_is_read_without_torch_or_numpy() -> None:
    code = (
        "import sys; from sandlot.train import TrainConfig; "
        "print([m for m in ('torch', 'numpy', 'transformers') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
