"""The learner: packed samples in, one optimiser step out. It knows neither environments nor groups.

Invariants: loss and gradient are sums over tokens whose weights hold the batch's denominator, so they do not depend on
how rows are packed or split; weights, optimiser state and every reduction are float32; at learning rate 0 no bit of the
weights changes; a gradient that is not finite is never applied.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from sandlot.errors import Failed, Invalid
from sandlot.train.algorithms import Algorithm
from sandlot.train.config import OptimiserConfig
from sandlot.train.logprobs import TokenScores, selective_logprobs
from sandlot.train.losses import kl_estimate, token_losses
from sandlot.train.packing import MicroBatch, collate, pack
from sandlot.train.samples import Sample

_HEAD_KNOBS = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier")
"""Config keys of architectures that change the logits after the head, which `scores` does not follow."""

Sums: TypeAlias = dict[str, float]
"""Totals over the trained tokens of a batch."""


class Learner:
    """Holds the module that is trained and its AdamW state."""

    def __init__(
        self,
        model: nn.Module,
        *,
        algorithm: Algorithm,
        optimiser: OptimiserConfig,
        temperature: float = 1.0,
        device: torch.device | None = None,
    ) -> None:
        _check_head(model)
        self.model = model
        self.algorithm = algorithm
        self.config = optimiser
        self.temperature = temperature
        self.device = device or torch.device("cpu")
        self.updates = 0
        """Optimiser steps made so far."""
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.adamw = torch.optim.AdamW(
            self.parameters.values(),
            lr=optimiser.learning_rate,
            betas=(0.9, 0.999),
            weight_decay=optimiser.weight_decay,
            fused=True,
        )

    def update(self, samples: Sequence[Sample]) -> dict[str, float]:
        """One optimiser step on `samples`, whose weights are set. The figures of the step; see `_figures`.

        `Failed` if the gradient is not finite; the weights are then as they were.
        """
        started = time.perf_counter()
        sums = self.accumulate(samples)
        learned = time.perf_counter()
        norm = float(nn.utils.clip_grad_norm_(self.parameters.values(), self.config.max_grad_norm))
        if not math.isfinite(norm):
            self.adamw.zero_grad(set_to_none=True)
            raise Failed(
                f"the gradient of update {self.updates + 1} is {norm}",
                hint="lower learning_rate; if it happens at the first step, look at the rewards and log-probabilities",
            )
        rate = self.learning_rate(self.updates + 1)
        for group in self.adamw.param_groups:
            group["lr"] = rate
        self.adamw.step()
        self.adamw.zero_grad(set_to_none=True)
        self.updates += 1
        stepped = time.perf_counter()
        return {
            **_figures(sums),
            "grad_norm": norm,
            "learning_rate": rate,
            "time/learn": learned - started,
            "time/optimiser": stepped - learned,
        }

    def accumulate(self, samples: Sequence[Sample]) -> Sums:
        """Adds the gradient of the batch to the parameters' `grad`. Sums over trained tokens of what is measured."""
        sums: Sums = defaultdict(float)
        for row in pack(samples, capacity=self._capacity(samples)):
            batch = collate([row]).to(self.device)
            loss = self._loss(batch, sums)
            loss.backward()  # type: ignore[no-untyped-call]
        return sums

    def scores(self, batch: MicroBatch) -> TokenScores:
        """Log-probabilities and entropies of the batch's trained tokens, at the sampling temperature."""
        body, head = _parts(self.model)
        hidden_BTD = body(
            input_ids=batch.tokens_BT,
            attention_mask=batch.attention_B1TT,
            position_ids=batch.position_BT,
            use_cache=False,
        ).last_hidden_state
        return selective_logprobs(
            hidden_BTD.flatten(0, 1)[batch.source_N],
            head.weight,
            targets_N=batch.streams_N["tokens"],
            temperature=self.temperature,
            bias_V=head.bias,
        )

    def learning_rate(self, update: int) -> float:
        """The rate of update number `update`, from 1: rises evenly over the warm-up, then stays."""
        return self.config.learning_rate * min(1.0, update / max(1, self.config.warmup_steps))

    def state(self) -> dict[str, Tensor]:
        """The optimiser's state by parameter name, and the number of updates: what `load_state` takes."""
        tensors = {"updates": torch.tensor(self.updates)}
        for name, parameter in self.parameters.items():
            for key, value in self.adamw.state.get(parameter, {}).items():
                tensors[f"{key}/{name}"] = value
        return tensors

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Takes over the optimiser's state. `Invalid` if it is of another model."""
        self.updates = int(tensors["updates"])
        for entry, value in tensors.items():
            key, _, name = entry.partition("/")
            if not name:
                continue
            if name not in self.parameters:
                raise Invalid(f"the optimiser's state has a parameter {name!r} that the model has not")
            self.adamw.state[self.parameters[name]][key] = value.to(self.device)

    def _capacity(self, samples: Sequence[Sample]) -> int:
        return max(self.config.row_tokens, max((len(sample) for sample in samples), default=0))

    def _loss(self, batch: MicroBatch, sums: Sums) -> Tensor:
        streams = batch.streams_N
        scores = self.scores(batch)
        result = token_losses(
            scores.logprobs_N,
            streams["logprob"],
            streams["advantage"],
            samples_N=streams["segment"],
            algorithm=self.algorithm,
        )
        loss = (result.losses_N * streams["weight"]).sum()
        old = streams["logprob"]
        measured: dict[str, Tensor] = {
            "loss": loss.detach(),
            "mismatch": kl_estimate(old, old + result.log_ratios_N, kind="k3").sum(),
            "entropy": scores.entropies_N.sum(),
            "kept": result.kept_N.sum(),
            "log_ratio": result.log_ratios_N.abs().sum(),
        }
        for name, value in measured.items():
            sums[name] += float(value)
        sums["tokens"] += old.numel()
        sums["rows"] += len(batch.tokens_BT)
        sums["computed"] += batch.tokens_BT.numel()
        return loss


def _figures(sums: Sums) -> dict[str, float]:
    """loss; means over trained tokens of mismatch_kl (r − log r − 1), entropy (nats), log_ratio (absolute) and
    kept_share; tokens (trained), computed_tokens (all that went through the model) and rows."""
    tokens = max(1, sums["tokens"])
    return {
        "loss": sums["loss"],
        "mismatch_kl": sums["mismatch"] / tokens,
        "entropy": sums["entropy"] / tokens,
        "log_ratio": sums["log_ratio"] / tokens,
        "kept_share": sums["kept"] / tokens,
        "tokens": sums["tokens"],
        "computed_tokens": sums["computed"],
        "rows": sums["rows"],
    }


def _parts(model: Any) -> tuple[nn.Module, Any]:
    return model.base_model, model.get_output_embeddings()


def _check_head(model: Any) -> None:
    for knob in _HEAD_KNOBS:
        value = getattr(getattr(model, "config", None), knob, None)
        if value not in (None, 1, 1.0):
            raise Invalid(
                f"models of type {model.config.model_type} change their logits after the head ({knob} = {value}), "
                "which the learner does not follow yet",
                hint="train a model whose logits are those of its head, such as Llama, Qwen or SmolLM",
            )
    if model.get_output_embeddings() is None:
        raise Invalid("the model has no language-model head")
