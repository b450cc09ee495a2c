"""Rollouts written by hand, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from sandlot.records import Rollout, Task, Tokens, Turn, Verdict
from sandlot.train.batch import BatchLimits

# Tiny models are faster on one thread, and do not fight over cores with whatever else runs.
torch.set_num_threads(1)

LIMITS = BatchLimits(sample_tokens=512, completion_tokens=16)


def turn(
    prompt: Sequence[int],
    sampled: Sequence[int],
    logprobs: Sequence[float | None] | None = None,
    *,
    parent: int = -1,
    version: int = 0,
) -> Turn:
    return Turn(
        prompt=[],
        completion={"role": "assistant", "content": "…"},
        parent=parent,
        tokens=Tokens(
            prompt=list(prompt),
            sampled=list(sampled),
            logprobs=list(logprobs) if logprobs is not None else [-1.0] * len(sampled),
            versions=[version] * len(sampled),
        ),
    )


def rollout(
    turns: Sequence[Turn], reward: float | None = 0.0, *, index: int = 0, task: str = "t", **more: object
) -> Rollout:
    return Rollout(
        id=f"{task}-{index}",
        task=Task(id=task),
        index=index,
        environment="env",
        model="policy",
        turns=list(turns),
        verdict=Verdict(reward=reward),
        **more,  # type: ignore[arg-type]
    )


def group(rewards: Sequence[float | None], *, task: str = "t", length: int = 3) -> list[Rollout]:
    return [rollout([turn([1, 2], range(3, 3 + length))], r, index=i, task=task) for i, r in enumerate(rewards)]


def tiny_llama(seed: int = 0, *, vocabulary: int = 40, spread: float = 0.15) -> LlamaForCausalLM:
    """A Llama of some 30 thousand weights with grouped-query attention, wide enough that errors show."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=spread,
    )
    return LlamaForCausalLM(config).to(torch.float32).eval()
