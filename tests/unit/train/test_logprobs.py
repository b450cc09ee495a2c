from __future__ import annotations

import pytest
import torch

from sandlot.train.logprobs import CHUNK_BYTES, selective_logprobs

VOCABULARY = CHUNK_BYTES // (4 * 256)
"""256 tokens make a chunk, so 300 make two."""


@pytest.mark.parametrize(("temperature", "biased"), [(1.0, False), (0.5, True), (1.7, True)])
def test_chunks_give_the_values_and_gradients_of_the_plain_softmax(temperature: float, biased: bool) -> None:
    torch.manual_seed(0)
    hidden, weight, bias = torch.randn(300, 8), torch.randn(VOCABULARY, 8), torch.randn(VOCABULARY)
    targets, upstream = torch.randint(0, VOCABULARY, (300,)), torch.randn(300)
    ours = [x.clone().requires_grad_() for x in (hidden, weight, bias)]
    plain = [x.double().requires_grad_() for x in (hidden, weight, bias)]

    scores = selective_logprobs(
        ours[0], ours[1], targets_N=targets, temperature=temperature, bias_V=ours[2] if biased else None
    )
    logits = (plain[0] @ plain[1].t() + (plain[2] if biased else 0)) / temperature
    distribution = logits.log_softmax(-1)
    expected = distribution.gather(1, targets[:, None])[:, 0]
    entropy = -(distribution.exp() * distribution).sum(-1)

    assert torch.allclose(scores.logprobs_N.double(), expected, atol=1e-5)
    assert torch.allclose(scores.entropies_N.double(), entropy, atol=1e-5)
    (scores.logprobs_N * upstream).sum().backward()
    (expected * upstream).sum().backward()
    for mine, theirs in list(zip(ours, plain, strict=True))[: 3 if biased else 2]:
        assert mine.grad is not None
        assert theirs.grad is not None
        assert float((mine.grad - theirs.grad).norm()) < 3e-5 * float(theirs.grad.norm())


def test_a_gradient_from_probabilities_that_were_kept_is_that_from_probabilities_made_again() -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(9, 8, requires_grad=True), torch.randn(50, 8, requires_grad=True)
    scores = selective_logprobs(hidden, weight, targets_N=torch.arange(9), temperature=0.6)
    # The first pass uses up what was kept, so the second has to make it again.
    kept, again = [torch.autograd.grad(scores.logprobs_N.sum(), (hidden, weight), retain_graph=True) for _ in range(2)]
    for one, other in zip(kept, again, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_no_token_gives_no_entry_and_a_gradient_of_zero() -> None:
    hidden, weight = torch.randn(0, 8, requires_grad=True), torch.randn(5, 8, requires_grad=True)
    scores = selective_logprobs(hidden, weight, targets_N=torch.zeros(0, dtype=torch.long))
    scores.logprobs_N.sum().backward()
    assert scores.logprobs_N.numel() == 0
    assert weight.grad is not None
    assert float(weight.grad.abs().sum()) == 0.0


def test_logits_far_apart_do_not_overflow() -> None:
    scores = selective_logprobs(
        torch.tensor([[1.0]]), torch.tensor([[1e4], [-1e4], [0.0]]), targets_N=torch.tensor([1])
    )
    assert scores.logprobs_N.tolist() == [-2e4]
    assert scores.entropies_N.tolist() == [0.0]


def test_a_temperature_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        selective_logprobs(torch.ones(1, 1), torch.ones(2, 1), targets_N=torch.tensor([0]), temperature=0.0)
