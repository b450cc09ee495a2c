from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from tests.unit.train.rollouts import rollout, tiny_llama, turn
from torch import Tensor

from sandlot.errors import Invalid
from sandlot.records import Turn
from sandlot.train.algorithms import Algorithm
from sandlot.train.config import OptimiserConfig
from sandlot.train.learner import Learner
from sandlot.train.packing import collate, pack
from sandlot.train.samples import Sample, samples_of

MODEL = tiny_llama()


def samples_from(*conversations: list[Turn]) -> list[Sample]:
    found = [s for i, turns in enumerate(conversations) for s in samples_of(rollout(turns, index=i), max_length=200)[0]]
    return [s.replace(advantage=0.5 - i, weight=0.25 + i) for i, s in enumerate(found)]


def some_samples() -> list[Sample]:
    draw = np.random.default_rng(0).integers

    def ids(count: int) -> list[int]:
        return draw(5, 40, count).tolist()  # type: ignore[no-any-return]

    prompt, other = ids(7), ids(4)
    shared = [[turn(prompt, ids(count))] for count in (3, 1, 6)]
    alone = [[turn(other, ids(5))]]
    forked = [[turn(prompt, ids(2)), turn(ids(3), ids(2), parent=0), turn(ids(2), ids(3), parent=0)]]
    return samples_from(*shared, *alone, *forked)


def learner(row_tokens: int = 512) -> Learner:
    optimiser = OptimiserConfig(row_tokens=row_tokens)
    return Learner(MODEL, algorithm=Algorithm(), optimiser=optimiser, temperature=0.7)


def alone_logprobs(sample: Sample) -> Tensor:
    tokens = torch.from_numpy(sample.streams["tokens"])
    logits = MODEL(input_ids=tokens[None]).logits[0] / 0.7
    logprobs = logits[:-1].log_softmax(-1).gather(1, tokens[1:, None])[:, 0]
    return logprobs[torch.from_numpy(sample.streams["mask"])[1:]]


def packed_logprobs(samples: list[Sample], capacity: int, *, together: bool) -> dict[int, Tensor]:
    """Log-probabilities of every sample by its number, from packed rows."""
    marked = [s.replace(weight=float(i)) for i, s in enumerate(samples)]
    rows = pack(marked, capacity=capacity)
    found: dict[int, Tensor] = {}
    for part in [rows] if together else [[row] for row in rows]:
        batch = collate(part)
        logprobs = learner().scores(batch).logprobs_N
        for number in batch.streams_N["weight"].unique().tolist():
            found[int(number)] = logprobs[batch.streams_N["weight"] == number]
    return found


@pytest.mark.parametrize("capacity", [16, 24, 64, 200])
@pytest.mark.parametrize("together", [False, True])
def test_a_packed_sample_has_the_logprobs_it_has_alone(capacity: int, together: bool) -> None:
    samples = some_samples()
    found = packed_logprobs(samples, capacity, together=together)
    assert len(found) == len(samples)
    for number, sample in enumerate(samples):
        assert torch.allclose(found[number], alone_logprobs(sample), atol=1e-5)


def gradient(batches: list[list[Sample]], *, row_tokens: int) -> Tensor:
    MODEL.zero_grad()
    for samples in batches:
        learner(row_tokens).accumulate(samples)
    return torch.cat([p.grad.flatten() for p in MODEL.parameters() if p.grad is not None])


def padded_gradient(samples: list[Sample]) -> Tensor:
    """The same loss from one right-padded batch and the model's own mask, written out by hand."""
    width = max(len(s) for s in samples)

    def stack(name: str) -> Tensor:
        return torch.stack([torch.from_numpy(np.pad(s.streams[name], (0, width - len(s)))) for s in samples])

    tokens, mask = stack("tokens"), stack("mask")
    attention = torch.tensor([[1] * len(s) + [0] * (width - len(s)) for s in samples])
    MODEL.zero_grad()
    logits = MODEL(input_ids=tokens, attention_mask=attention).logits[:, :-1] / 0.7
    logprobs = logits.log_softmax(-1).gather(2, tokens[:, 1:, None])[..., 0]
    ratio = (logprobs - stack("logprob")[:, 1:]).exp()
    shift = (logprobs.exp() - stack("logprob")[:, 1:].exp()).detach()
    advantage = stack("advantage")[:, 1:]
    kept = torch.where(advantage > 0, shift <= 0.2, shift >= -0.2).float()
    loss = -kept * advantage * ratio + 1e-3 * (logprobs - stack("logprob")[:, 1:]) ** 2
    (loss * stack("weight")[:, 1:] * mask[:, 1:]).sum().backward()
    return torch.cat([p.grad.flatten() for p in MODEL.parameters() if p.grad is not None])


def test_gradients_of_packed_padded_and_one_by_one_batches_agree() -> None:
    samples = some_samples()
    expected = padded_gradient(samples)
    size = float(expected.norm())
    for found in (
        gradient([samples], row_tokens=200),
        gradient([samples], row_tokens=16),
        gradient([[s] for s in samples], row_tokens=16),
        gradient([samples[::-1]], row_tokens=64),
    ):
        assert float((found - expected).norm()) < 1e-5 * size


def test_a_shared_prompt_stands_in_a_row_once() -> None:
    samples = samples_from([turn([9, 8, 7], [1, 2])], [turn([9, 8, 7], [3])], [turn([9, 8, 7], [4, 5, 6])])
    (row,) = pack(samples, capacity=32)
    assert row.streams["tokens"].tolist() == [9, 8, 7, 4, 5, 6, 1, 2, 3]
    assert row.streams["position"].tolist()[3:] == [3, 4, 5, 3, 4, 3]
    assert row.parents == (-1, 0, 0, 0)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=14), st.integers(12, 40))
def test_rows_hold_every_trained_token_once_and_never_more_than_fits(
    shapes: list[tuple[int, int]], capacity: int
) -> None:
    prompts = [[1], [2, 3], [2, 3, 4]]
    samples = samples_from(*[[turn(prompts[p], range(10, 10 + n))] for p, n in shapes])
    rows = pack(samples, capacity=capacity)
    assert max(len(row) for row in rows) <= capacity
    trained = [t for row in rows for t in row.streams["tokens"][row.streams["mask"]].tolist()]
    assert sorted(trained) == sorted(t for _, n in shapes for t in range(10, 10 + n))
    for row in rows:  # what predicts a token stands just before it in its own sample
        chosen = row.streams["mask"]
        before = row.streams["position"][row.streams["source"][chosen]]
        assert (before + 1 == row.streams["position"][chosen]).all()


def test_a_sample_that_no_row_can_hold_is_refused() -> None:
    with pytest.raises(Invalid, match="5 tokens does not fit into rows of 4"):
        pack(samples_from([turn([1, 2, 3], [4, 5])]), capacity=4)
