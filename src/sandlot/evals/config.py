"""What an evaluation can be told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from sandlot.config import Config
from sandlot.engine import PlayPolicy
from sandlot.errors import Invalid
from sandlot.evals.limits import EvalLimits, RolloutLimits
from sandlot.records import JsonObject, Run, Sampling


class SamplingConfig(Config):
    """How to draw from the model. What is not given is left to the endpoint."""

    temperature: float | None = Field(default=None, ge=0)
    """0 always takes the likeliest token."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Draw from the likeliest tokens that together have this probability."""
    top_k: int | None = Field(default=None, ge=-1)
    """Draw from this many of the likeliest tokens; -1 from all."""
    min_p: float | None = Field(default=None, ge=0, le=1)
    """Leave out tokens that are less likely than this share of the likeliest one."""
    max_tokens: int | None = Field(default=None, ge=1)
    """The most tokens that one completion may have."""
    stop: list[str] = Field(default_factory=list)
    """Texts that end a completion."""
    logprobs: bool | None = None
    """Ask for the log-probability of each token."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request's body, passed through as they are."""

    def record(self) -> Sampling:
        """The same as a record. The seed is not part of it: every rollout has its own."""
        return Sampling(**self.model_dump())


class EvalConfig(Config):
    """An evaluation: every model plays every environment, each pair in a run of its own."""

    environments: list[str] = Field(default_factory=list)
    """Environments: a path, an installed package, or a name under ./environments."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Arguments of `load_environment`."""
    models: list[str] = Field(default_factory=list)
    """Models: an id of the endpoint registry, `local:NAME`, or a model's name at the default endpoint."""
    base_url: str | None = None
    """The address of an endpoint for the models, in place of the one that their names lead to."""
    key_var: str | None = None
    """The environment variable that holds the endpoint's key."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Further headers for the endpoint. `${NAME}` in a value stands for that environment variable."""
    num_tasks: int = Field(default=-1, ge=-1)
    """How many tasks; -1 is all of them, 0 none."""
    rollouts_per_task: int = Field(default=1, ge=1)
    """How often each task is played."""
    split: str = "eval"
    """The set of tasks; an environment that has only one set gives that."""
    shuffle: bool = False
    """Take the tasks in an order that the seed decides, instead of their own."""
    seed: int = 0
    """Decides the order of shuffled tasks and the seed of every rollout."""
    sampling: SamplingConfig = SamplingConfig()
    """How to draw from the model."""
    max_concurrent: int = Field(default=128, ge=1)
    """Rollouts in flight at once."""
    workers: int = Field(default=0, ge=0, le=256)
    """Processes that play, for environments that need much CPU; 0 plays in the one process that there is."""
    limits: EvalLimits = EvalLimits()
    """When to stop though not everything was played."""
    rollout_limits: RolloutLimits = RolloutLimits()
    """When one rollout is over though it had not come to its end."""
    retries: int = Field(default=2, ge=0)
    """How often a rollout is played again after the endpoint, a sandbox or its set-up failed."""
    scoring_retries: int = Field(default=1, ge=0)
    """How often scoring alone is tried again after it failed."""
    on_scoring_error: Literal["none", "zero"] = "none"
    """What a rollout gets whose scoring failed: no reward, which keeps it out of means, or 0."""
    pass_threshold: float | None = None
    """The reward from which on a rollout has passed; default: what the environment says, 0.5 where it says nothing."""
    retry_failed: bool = True
    """On resume, play again what has no verdict; otherwise only what is missing."""
    output: Path = Path("outputs")
    """The folder under which runs are saved."""
    save: bool = True
    """Save every rollout as soon as it is scored."""

    @model_validator(mode="before")
    @classmethod
    def _tell_limits_apart(cls, table: Any) -> Any:
        if isinstance(table, Mapping) and "max_tokens" in table:
            raise Invalid(
                "max_tokens: of one completion, or of a whole rollout?",
                hint="sampling.max_tokens (-t) is a completion's, rollout_limits.tokens (--rollout-tokens) a rollout's",
            )
        return table

    def recorded(self) -> JsonObject:
        """What a run keeps of it, which is shown to others: an address without its query, and of the headers only
        those that name a variable."""
        kept: JsonObject = self.model_dump(mode="json", exclude={"environments", "models", "output", "save"})
        return kept | {
            "base_url": self.base_url and self.base_url.partition("?")[0],
            "headers": {name: value for name, value in self.headers.items() if "${" in value},
        }

    def endpoint(self) -> dict[str, Any]:
        """The options of `models.connect`."""
        return {"base_url": self.base_url, "key_var": self.key_var} | (
            {"headers": self.headers} if self.headers else {}
        )

    def policy(self) -> PlayPolicy:
        """How the engine is to play."""
        return PlayPolicy(
            max_concurrent=self.max_concurrent,
            retries=self.retries,
            scoring_retries=self.scoring_retries,
            on_scoring_error=self.on_scoring_error,
            max_tokens=self.rollout_limits.tokens,
            max_cost=self.rollout_limits.cost,
            max_seconds=self.rollout_limits.seconds,
        )


def settings_of(run: Run) -> JsonObject:
    """What `run` was started with, named as it is today."""
    settings = dict(run.config)
    tokens = settings.pop("max_tokens", None)  # So the limit of a rollout's tokens was called at first.
    if tokens is not None:
        settings["rollout_limits"] = {"tokens": tokens, **settings.get("rollout_limits", {})}
    return settings
