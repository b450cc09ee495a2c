from __future__ import annotations

import math

import pytest
import torch
from tests.unit.train.rollouts import LIMITS, group, rollout, tiny_llama, turn
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from sandlot.errors import Failed, Invalid
from sandlot.train.algorithms import PRESETS, Algorithm, resolve
from sandlot.train.batch import build_batch
from sandlot.train.config import OptimiserConfig
from sandlot.train.learner import Learner
from sandlot.train.samples import Sample


def batch() -> list[Sample]:
    return build_batch([group([1.0, 0.0, 0.0, 1.0]), group([0.2, 0.9])], algorithm=Algorithm(), limits=LIMITS).samples


def learner(seed: int = 0, **optimiser: object) -> Learner:
    return Learner(tiny_llama(seed), algorithm=Algorithm(), optimiser=OptimiserConfig.model_validate(optimiser))


def weights(model: torch.nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


def test_an_update_moves_every_weight_matrix_and_reports_what_it_did() -> None:
    one = learner(learning_rate=1e-3)
    before = {name: p.detach().clone() for name, p in one.parameters.items()}
    figures = one.update(batch())
    assert all(not torch.equal(before[name], p) for name, p in one.parameters.items())
    assert figures["tokens"] == 18
    assert figures["grad_norm"] > 0
    assert 0 < figures["entropy"] <= math.log(40)
    assert figures["computed_tokens"] < sum(len(s) for s in batch())  # shared prompts were computed once


def test_at_learning_rate_zero_no_bit_of_the_weights_changes() -> None:
    one = learner(learning_rate=0.0)
    before = weights(one.model)
    for _ in range(3):
        one.update(batch())
    assert torch.equal(before, weights(one.model))


def test_equal_runs_give_equal_weights_to_the_last_bit() -> None:
    results = []
    for _ in range(2):
        one = learner(learning_rate=1e-3)
        losses = [one.update(batch())["loss"] for _ in range(3)]
        results.append((losses, weights(one.model)))
    assert results[0][0] == results[1][0]
    assert torch.equal(results[0][1], results[1][1])


def test_a_learner_that_takes_over_state_goes_on_as_the_one_it_came_from() -> None:
    whole = learner(learning_rate=1e-3, warmup_steps=4)
    for _ in range(2):
        whole.update(batch())
    resumed = learner(learning_rate=1e-3, warmup_steps=4)
    resumed.model.load_state_dict(whole.model.state_dict())
    resumed.load_state({name: tensor.clone() for name, tensor in whole.state().items()})
    assert whole.update(batch()) | {"time/learn": 0, "time/optimiser": 0} == resumed.update(batch()) | {
        "time/learn": 0,
        "time/optimiser": 0,
    }
    assert torch.equal(weights(whole.model), weights(resumed.model))


def test_the_state_of_another_model_is_refused() -> None:
    one = learner()
    with pytest.raises(Invalid, match="a parameter 'other' that the model has not"):
        one.load_state({"updates": torch.tensor(1), "exp_avg/other": torch.zeros(1)})


def test_the_rate_rises_evenly_over_the_warm_up_and_stays() -> None:
    one = learner(learning_rate=1.0, warmup_steps=4)
    assert [one.learning_rate(n) for n in range(1, 7)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert learner(learning_rate=1.0).learning_rate(1) == 1.0


def test_a_gradient_that_is_not_finite_is_never_applied() -> None:
    one = learner(learning_rate=1e-3)
    before = weights(one.model)
    broken = [sample.replace(advantage=float("nan")) for sample in batch()]
    with pytest.raises(Failed, match="the gradient of update 1 is nan"):
        one.update(broken)
    assert torch.equal(before, weights(one.model))
    assert one.updates == 0
    assert math.isfinite(one.update(batch())["loss"])


def test_a_long_gradient_is_scaled_down_to_the_limit() -> None:
    one = learner(learning_rate=0.0, max_grad_norm=1e-3)
    assert one.update(batch())["grad_norm"] > 1e-3  # what is reported is the length before


def test_architectures_that_change_their_logits_after_the_head_are_refused() -> None:
    config = LlamaConfig(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1)
    config.final_logit_softcapping = 30.0
    with pytest.raises(Invalid, match="final_logit_softcapping = 30"):
        Learner(LlamaForCausalLM(config), algorithm=Algorithm(), optimiser=OptimiserConfig())


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_with_every_preset_the_policy_learns_which_token_is_rewarded(preset: str) -> None:
    model = tiny_llama(spread=0.02)
    algorithm = Algorithm.model_validate(resolve({"preset": preset}))
    one = Learner(model, algorithm=algorithm, optimiser=OptimiserConfig(learning_rate=3e-3))
    generator = torch.Generator().manual_seed(0)
    share = []
    for _ in range(25):
        with torch.no_grad():
            logprobs = model(input_ids=torch.tensor([[1, 2]])).logits[0, -1].log_softmax(-1)
        drawn = torch.multinomial(logprobs.exp(), 32, replacement=True, generator=generator).tolist()
        rewards = [1.0 if token < 10 else 0.0 for token in drawn]
        rollouts = [
            rollout([turn([1, 2], [token], [float(logprobs[token])])], reward, index=i)
            for i, (token, reward) in enumerate(zip(drawn, rewards, strict=True))
        ]
        figures = one.update(build_batch([rollouts], algorithm=algorithm, limits=LIMITS).samples)
        assert figures["mismatch_kl"] < 1e-9
        share.append(sum(rewards) / 32)
    assert sum(share[:3]) / 3 < 0.4
    assert sum(share[-3:]) / 3 > 0.8, share
