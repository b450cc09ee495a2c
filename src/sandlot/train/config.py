"""What a training run is told. Checked whole before torch or an environment is loaded; torch-free.

Invariants: every key has a default but `model` and the environments; a combination that cannot learn, or that would
give log-probabilities of another distribution than the trainer's, is refused here and not found out at step 10.
"""

from __future__ import annotations

import json
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from sandlot.config import Config
from sandlot.errors import Invalid
from sandlot.train.algorithms import GROUP_RELATIVE, Algorithm, resolve


class EnvironmentConfig(Config):
    """One environment that is trained on."""

    id: str
    """Which: `owner/name@version` on the hub, the name of an installed package, or a path."""
    args: dict[str, Any] = Field(default_factory=dict)
    """What `load_environment` is given."""
    weight: float = Field(default=1.0, gt=0)
    """How often its tasks are drawn, beside the other environments' weights."""


class SamplingConfig(Config):
    """How training rollouts are drawn."""

    max_tokens: int = Field(default=256, ge=1)
    """The most tokens of one completion."""
    temperature: float = Field(default=1.0, gt=0)
    """Of the distribution that is drawn from and trained; the trainer divides its logits by it as well."""
    top_p: float = 1.0
    """Must be 1: below, tokens come from a cut distribution whose log-probabilities the trainer cannot compute."""
    top_k: int = -1
    """Must be -1, for the same reason."""
    min_p: float = 0.0
    """Must be 0, for the same reason."""

    @model_validator(mode="after")
    def _whole_distribution(self) -> Self:
        for name, needed in (("top_p", 1.0), ("top_k", -1), ("min_p", 0.0)):
            found = getattr(self, name)
            if found != needed:
                raise ValueError(
                    f"training rollouts are drawn from the whole distribution: {name} must be {needed}, found {found}"
                )
        return self


class OptimiserConfig(Config):
    """AdamW and how the batch goes through the model."""

    learning_rate: float = Field(default=1e-6, ge=0)
    """The rate after the warm-up. About 1e-6 for models of billions of parameters, 1e-5 for 135 million."""
    warmup_steps: int = Field(default=0, ge=0)
    """Over how many updates the rate rises from 0."""
    weight_decay: float = Field(default=0.0, ge=0)
    """AdamW's decay."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """The gradient is scaled down to this norm where it is longer."""
    row_tokens: int = Field(default=512, ge=1)
    """Tokens of a packed row. Longer rows use a GPU better; on a CPU attention over unrelated samples costs time. A
    longer sample has a row to itself."""


class EvalConfig(Config):
    """Held-out evaluations during training, on the tasks of the `eval` split."""

    interval: int = Field(default=0, ge=0)
    """After how many steps; 0 is at the start and the end alone."""
    num_tasks: int = Field(default=32, ge=0)
    """Tasks of each environment; 0 turns evaluation off."""
    rollouts_per_task: int = Field(default=1, ge=1)
    """Rollouts of each task."""
    temperature: float = Field(default=1.0, ge=0)
    """Of the evaluated policy; 0 takes the likeliest token."""
    max_tokens: int | None = Field(default=None, ge=1)
    """The most tokens of one completion; by default as in training."""
    at_start: bool = True
    """Whether the untrained policy is evaluated first."""
    at_end: bool = True
    """Whether the last policy is evaluated."""


class CheckpointConfig(Config):
    """What is written so that a run can be taken up again."""

    interval: int = Field(default=20, ge=0)
    """After how many steps; 0 is at the end alone."""
    keep_last: int = Field(default=1, ge=1)
    """How many are kept."""
    at_end: bool = True
    """Whether the end, also by Ctrl-C, writes one."""


class LimitsConfig(Config):
    """Waits, bounds and lengths."""

    max_concurrent: int = Field(default=64, ge=1)
    """Rollouts in flight at once."""
    context_length: int | None = Field(default=None, ge=2)
    """Tokens that prompt and completions may have together when sampling; by default as `sample_tokens`."""
    sample_tokens: int = Field(default=2048, ge=2)
    """The longest sample that is trained on; a longer one is dropped and counted."""
    max_staleness: int = Field(default=0, ge=0)
    """How many versions older than the trained policy a token may be. 0 is synchronous."""
    oversample: float = Field(default=3.0, ge=1)
    """Groups that may be played for one step, as a multiple of `tasks_per_step`, to replace those without signal."""
    rollout_retries: int = Field(default=2, ge=0)
    """How often a rollout that infrastructure broke is played again."""
    group_timeout: float = Field(default=1800.0, gt=0)
    """Seconds that the wait for the next finished group may take."""
    apply_timeout: float = Field(default=600.0, gt=0)
    """Seconds that giving new weights to the sampler may take."""


class TrainConfig(Config):
    """One training run."""

    name: str = ""
    """What the run is called; by default the environments' names."""
    model: str
    """The policy that is trained: a name such as smollm2-135m, a folder, or a Hugging Face id."""
    env: list[EnvironmentConfig] = Field(min_length=1)
    """The environments: one `[env]` table, or several `[[env]]`."""
    steps: int = Field(default=100, ge=1)
    """Optimiser steps."""
    tasks_per_step: int = Field(default=8, ge=1)
    """Groups that a step learns from."""
    group_size: int = Field(default=8, ge=1)
    """Rollouts of each task, judged against each other."""
    seed: int = 0
    """Of the order of tasks and of every draw."""
    algorithm: Algorithm = Algorithm()
    """A preset, and what is set otherwise."""
    sampling: SamplingConfig = SamplingConfig()
    """How rollouts are drawn."""
    optimiser: OptimiserConfig = OptimiserConfig()
    """How the policy is moved."""
    eval: EvalConfig = EvalConfig()
    """Held-out evaluations."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """Checkpoints."""
    limits: LimitsConfig = LimitsConfig()
    """Waits, bounds and lengths."""
    train_on_truncated: bool = True
    """Whether rollouts that a limit cut are trained on. Their reward counts for the baseline either way."""
    export: Literal["merged", "none"] = "merged"
    """What is left at the end beside the checkpoint: an ordinary Hugging Face folder, or nothing."""

    @field_validator("env", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return [value] if isinstance(value, dict) else value

    @field_validator("algorithm", mode="before")
    @classmethod
    def _from_preset(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = {"preset": value}
        if not isinstance(value, dict):
            return value
        try:
            return resolve(value)
        except Invalid as error:
            raise ValueError(f"{error.message}; {error.hint}") from None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.group_size == 1 and self.algorithm.advantage in GROUP_RELATIVE:
            raise ValueError(
                f"group_size = 1 with advantage {self.algorithm.advantage!r}: a rollout is compared with its group, so "
                'every advantage would be 0; set group_size to 2 or more, or algorithm.advantage = "reward"'
            )
        if self.context_length > self.limits.sample_tokens:
            raise ValueError(
                f"limits.context_length = {self.context_length} is more than limits.sample_tokens = "
                f"{self.limits.sample_tokens}: what is longer could be sampled but not trained; make them equal"
            )
        if self.sampling.max_tokens >= self.context_length:
            raise ValueError(
                f"sampling.max_tokens = {self.sampling.max_tokens} leaves no room for a prompt in "
                f"{self.context_length} tokens; raise limits.sample_tokens or lower sampling.max_tokens"
            )
        if self.group_size > self.limits.max_concurrent:
            raise ValueError(
                f"group_size = {self.group_size} is more than limits.max_concurrent = {self.limits.max_concurrent}"
            )
        doubled = [env.id for i, env in enumerate(self.env) if env.id in [e.id for e in self.env[:i]]]
        if doubled:
            raise ValueError(f"the environment {doubled[0]} is listed twice; give it one entry with a higher weight")
        return self

    @property
    def context_length(self) -> int:
        """Tokens that a conversation may have while it is sampled."""
        return self.limits.context_length or self.limits.sample_tokens

    def resolved(self) -> str:
        """The whole config with every default, as JSON: what `--dry-run` prints."""
        return json.dumps(self.model_dump(mode="json"), indent=2)
