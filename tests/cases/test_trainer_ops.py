"""The cases `trainer-ops` that concern the trainer, by id. Each varies its input where that can matter."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.tiny import make_tiny_model
from tests.unit.train.games import Game, settings, share_of_digits, train

import sandlot as vf
from sandlot.engine import Playable, State
from sandlot.errors import Failed
from sandlot.evals import EvalConfig, plan_eval, run_eval
from sandlot.inference import PolicyModel, Sampled, TokenSampling, TorchSampler
from sandlot.models import Completion, Model
from sandlot.records import EnvironmentRef, Message, Run, Sampling, Tool, Verdict
from sandlot.store import RunFolder
from sandlot.train.checkpoints import newest_checkpoint
from sandlot.train.config import TrainConfig
from sandlot.train.controller import Controller, Roles
from sandlot.train.learner import Learner
from sandlot.train.progress import Silent
from sandlot.train.run import build_roles
from sandlot.train.samples import Sample

RESUMABLE = {"interval": 1, "keep_last": 2, "at_end": True}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model"))


def learned(folder: Path) -> dict[int, list[tuple[str, int]]]:
    """By step, the tasks and indices of its training rollouts."""
    steps: dict[int, list[tuple[str, int]]] = {}
    for rollout in RunFolder.open(folder).rollouts():
        if rollout.split == "train" and rollout.step is not None:
            steps.setdefault(rollout.step, []).append((rollout.task.id, rollout.index))
    return {step: sorted(keys) for step, keys in steps.items()}


def texts(folder: Path, step: int) -> list[str]:
    """What the policy said in a step, by task and index."""
    chosen = [r for r in RunFolder.open(folder).rollouts() if r.split == "train" and r.step == step]
    return [str(r.turns[0].completion.get("content")) for r in sorted(chosen, key=lambda r: (r.task.id, r.index))]


def control(
    config: TrainConfig, folder: Path, game: Playable, *, learner: type[Learner] = Learner, sampler: Any = None
) -> tuple[Controller, RunFolder]:
    """A controller whose learner or sampler is of another class, as a real one that misbehaves."""
    roles = build_roles(config, Path(config.model))
    policy = roles.policy
    assert isinstance(policy, PolicyModel)
    if sampler is not None:
        assert isinstance(roles.sampler, TorchSampler)
        policy = PolicyModel(sampler(roles.sampler.module), policy.tokens, name="policy")
    module = roles.learner.model
    own = learner(module, algorithm=config.algorithm, optimiser=config.optimiser)
    record = RunFolder.create(folder, Run(id="r", kind="train", name="t", model=config.model))
    whole = Roles(own, policy.sampler, policy, shared=roles.shared)
    return Controller(config, whole, playables={"game": game}, folder=record, progress=Silent()), record


@pytest.mark.parametrize("staleness", [0, 1])
def test_OPS_01_a_resumed_run_goes_on_with_the_tasks_that_come_next(
    model: Path, tmp_path: Path, staleness: int
) -> None:
    over: dict[str, Any] = {"checkpoint": RESUMABLE, "limits": {"max_staleness": staleness, "oversample": 1.0}}
    train(settings(model, steps=6, **over), tmp_path / "whole", Game(share_of_digits))
    train(settings(model, steps=3, **over), tmp_path / "parts", Game(share_of_digits))
    train(settings(model, steps=6, **over), tmp_path / "parts", Game(share_of_digits))
    whole, parts = learned(tmp_path / "whole"), learned(tmp_path / "parts")
    if staleness == 0:
        assert parts == whole
        assert texts(tmp_path / "parts", 6) == texts(tmp_path / "whole", 6)
    else:  # Which group finishes first may differ, but no task is passed over and none is learned twice.
        keys = [key for step in parts.values() for key in step]
        assert len(set(keys)) == len(keys) == 6 * 16
    assert sorted(parts) == [1, 2, 3, 4, 5, 6]


SCRIPT = """
import sys, time
from pathlib import Path
from tests.unit.train.games import Game, settings, share_of_digits, train
class Slow(Game):
    async def setup(self, state):
        time.sleep(0.01)
        return state
config = settings(Path(sys.argv[1]), steps=400, checkpoint={"interval": 1, "keep_last": 2})
train(config, Path(sys.argv[2]), Slow(share_of_digits))
"""


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGINT])
def test_OPS_01_a_run_that_is_killed_at_any_moment_is_taken_up_where_it_was(
    model: Path, tmp_path: Path, blow: signal.Signals
) -> None:
    folder = tmp_path / "killed"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.getcwd()}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(model), str(folder)], env=environment, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and not (folder / "checkpoints" / "step_3" / "manifest.json").exists():
        assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
        time.sleep(0.02)
    process.send_signal(blow)
    process.communicate(timeout=60)
    assert process.returncode != 0
    found = newest_checkpoint(folder)
    assert found is not None
    if blow == signal.SIGINT:
        assert RunFolder.open(folder).run.status == "interrupted"
        assert found.step == RunFolder.open(folder).metrics()[-1].step
    # A checkpoint that was cut short is there and has no manifest.
    torn = folder / "checkpoints" / f"step_{found.step + 1}"
    torn.mkdir(exist_ok=True)
    (torn / "model.safetensors").write_bytes(b"half")
    steps = found.step + 2
    train(settings(model, steps=steps, checkpoint=RESUMABLE), folder, Game(share_of_digits))
    train(settings(model, steps=steps, checkpoint=RESUMABLE), tmp_path / "whole", Game(share_of_digits))
    assert {s: keys for s, keys in learned(folder).items() if s <= steps} == learned(tmp_path / "whole")
    assert RunFolder.open(folder).run.status == "done"


def test_OPS_03_after_a_resume_the_first_rollout_is_the_resumed_policys(model: Path, tmp_path: Path) -> None:
    def seven(text: str) -> float:
        return float(text == "7")

    over: dict[str, Any] = {
        "optimiser": {"learning_rate": 1e-2},
        "sampling": {"max_tokens": 1},
        "group_size": 64,
        "tasks_per_step": 4,
        "checkpoint": RESUMABLE,
    }
    run = train(settings(model, steps=40, **over), tmp_path / "run", Game(seven))
    done = int(run.summary["steps"])
    train(settings(model, steps=done + 1, **over, eval={"num_tasks": 8}), tmp_path / "run", Game(seven))
    resumed = [r for r in RunFolder.open(tmp_path / "run").rollouts() if r.split == "eval" and r.step == done]
    said = [str(r.turns[0].completion["content"]) for r in resumed]
    assert said.count("7") >= 7, said
    assert {v for r in resumed for turn in r.turns if turn.tokens for v in turn.tokens.versions} == {done}


@pytest.mark.parametrize("staleness", [0, 1, 2])
def test_OPS_05_no_token_is_older_than_allowed_and_what_is_discarded_is_counted(
    model: Path, tmp_path: Path, staleness: int
) -> None:
    class Slow(Game):
        async def score(self, states: Sequence[State]) -> list[Verdict]:
            """One task in twelve is scored only when the policy has gone on further than is allowed, or in a second."""
            begun, deadline = len(updates), time.monotonic() + 1.0
            while states[0]["example_id"] == "train-2" and len(updates) < begun + staleness + 2:
                if time.monotonic() > deadline:
                    break
                await asyncio.sleep(0.01)
            return await super().score(states)

    lags: list[int] = []
    updates: list[int] = []

    class Recording(Learner):
        def update(self, samples: Sequence[Sample]) -> dict[str, float]:
            updates.append(len(samples))
            lags.extend(self.updates - int(v) for s in samples for v in s.streams["version"][s.streams["mask"]])
            return super().update(samples)

    config = settings(model, steps=14, limits={"max_staleness": staleness}, group_size=4)
    controller, record = control(config, tmp_path / "run", Slow(share_of_digits), learner=Recording)
    asyncio.run(controller.run())
    assert max(lags) <= staleness
    assert min(lags) >= 0
    stale = sum(event.values["groups/stale"] for event in record.metrics())
    assert (stale > 0) == (staleness > 0)


class _Gappy(TorchSampler):
    async def generate(self, prompt: Sequence[int], sampling: TokenSampling, **more: Any) -> Sampled:
        drawn = await super().generate(prompt, sampling, **more)
        return msgspec.structs.replace(drawn, logprobs=[math.nan, *drawn.logprobs[1:]])


def test_NUM_24_a_run_goes_on_though_its_sampler_gives_nan_for_a_token_of_every_completion(
    model: Path, tmp_path: Path
) -> None:
    config = settings(model, tasks_per_step=1)
    controller, record = control(config, tmp_path / "run", Game(share_of_digits), sampler=_Gappy)
    asyncio.run(controller.run())
    first = record.metrics()[0].values
    assert first["tokens/missing_logprob"] == first["samples"] == 8
    assert all(rollout.turns[0].tokens.logprobs[0] is None for rollout in record.rollouts() if rollout.turns[0].tokens)


@pytest.mark.parametrize(
    ("judge", "reason"),
    [
        (lambda text: 1 / 0, "no verdict"),
        (lambda text: 1.0, "zero signal"),
        (lambda text: 0.0, "zero signal"),
        (lambda text: float("nan"), "no verdict"),
    ],
)
def test_OPS_06_a_step_without_anything_to_learn_is_tried_a_bounded_number_of_times_and_then_explained(
    model: Path, tmp_path: Path, judge: Any, reason: str
) -> None:
    config = settings(model, limits={"oversample": 2.5}, tasks_per_step=2)
    with pytest.raises(Failed) as caught:
        train(config, tmp_path / "run", Game(judge))
    heading, _, row, *more = caught.value.message.splitlines()
    assert heading == "step 1 found nothing to learn from in 5 groups:"
    columns = ("groups", "zero signal", "no verdict", "too stale", "too long")
    counts = dict(zip(columns, row.split()[1:], strict=False))
    assert counts[reason] == counts["groups"] == "5"
    assert ("the first failure" in " ".join(more)) == (reason == "no verdict")
    assert caught.value.hint
    run = RunFolder.open(tmp_path / "run").run
    assert (run.status, heading in str(run.message)) == ("failed", True)


def test_OPS_06_prompts_that_do_not_fit_are_named_as_the_reason(model: Path, tmp_path: Path) -> None:
    config = settings(model, limits={"sample_tokens": 12}, sampling={"max_tokens": 4})
    with pytest.raises(Failed, match="too long") as caught:
        train(config, tmp_path / "run", Game(share_of_digits))
    assert "raise limits.sample_tokens" in str(caught.value.hint)


def test_OPS_06_one_environment_that_breaks_does_not_stop_what_the_other_teaches(model: Path, tmp_path: Path) -> None:
    config = settings(model, env=[{"id": "good"}, {"id": "broken"}], steps=3)
    games = [Game(share_of_digits, name="good"), Game(lambda text: 1 / 0, name="broken")]
    assert train(config, tmp_path / "run", *games).status == "done"
    assert sum(event.values["groups/unscored"] for event in RunFolder.open(tmp_path / "run").metrics()) > 0


def test_OPS_09_no_key_of_the_process_is_in_anything_that_a_run_writes(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-very-secret-5d1f"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    monkeypatch.setenv("SANDLOT_API_KEY", secret)
    config = settings(model, checkpoint=RESUMABLE, eval={"num_tasks": 2}, export="merged")
    train(config, tmp_path / "run", Game(share_of_digits))
    written = [file for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert len(written) > 6
    assert [file for file in written if secret.encode() in file.read_bytes()] == []


class _Refusing(TorchSampler):
    async def apply(self, version: int, weights: Mapping[str, Any] | None = None) -> None:
        if version == 2:
            raise ConnectionError("the engine went away")
        await super().apply(version, weights)


class _Deaf(TorchSampler):
    async def apply(self, version: int, weights: Mapping[str, Any] | None = None) -> None:
        if version != 2:
            await super().apply(version, weights)


class _Silent(TorchSampler):
    async def apply(self, version: int, weights: Mapping[str, Any] | None = None) -> None:
        if version == 2:
            await asyncio.sleep(3600)
        await super().apply(version, weights)


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (_Refusing, "version 2 could not be given to the sampler: ConnectionError: the engine went away"),
        (_Deaf, "the sampler confirmed version 1 instead of 2"),
        (_Silent, "did not confirm the weights of version 2 within 0.2 s"),
    ],
)
def test_OPS_11_weights_that_do_not_arrive_end_the_run(
    model: Path, tmp_path: Path, sampler: type[TorchSampler], message: str
) -> None:
    config = settings(model, steps=5, limits={"apply_timeout": 0.2})
    controller, record = control(config, tmp_path / "run", Game(share_of_digits), sampler=sampler)
    with pytest.raises(Failed, match=message):
        asyncio.run(asyncio.wait_for(controller.run(), 30))
    assert [event.step for event in record.metrics()] == [1]


class _Recorder(Model):
    def __init__(self, inner: Model) -> None:
        self.inner = inner
        self.name = inner.name
        self.calls: list[tuple[list[Message], list[Tool], Sampling]] = []

    async def generate(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), sampling: Sampling, prior: Any = None
    ) -> Completion:
        self.calls.append((list(messages), list(tools), sampling))
        return await self.inner.generate(messages, tools=tools, sampling=sampling, prior=prior)


def lookup(word: str) -> str:
    """Looks a word up."""
    return word.upper()


def test_OPS_12_an_environment_is_put_to_the_model_alike_in_training_and_in_evaluation(
    model: Path, tmp_path: Path
) -> None:
    def length(completion: Any, **kwargs: Any) -> float:
        return float(len(str(completion[-1]["content"] or "")))

    rows = [{"question": "one", "answer": "1"}]
    env = vf.ToolEnv(
        dataset=rows,
        tools=[lookup],
        rubric=vf.Rubric(funcs=[length]),
        system_prompt="Answer as the override says.",
        max_turns=1,
    )
    config = settings(
        model, steps=1, sampling={"temperature": 0.8, "max_tokens": 5}, tasks_per_step=1, limits={"sample_tokens": 500}
    )
    controller, _ = control(config, tmp_path / "run", env.playable)
    trained = _Recorder(controller.roles.policy)
    controller.stream.model = trained
    evaluated = _Recorder(controller.roles.policy)
    ask = EvalConfig.model_validate(
        {"num_tasks": 1, "split": "train", "sampling": {"temperature": 0.8, "max_tokens": 5}, "save": False}
    )

    async def both() -> None:
        await controller.run()
        await run_eval(plan_eval(ask, playable=env.playable, model=evaluated, ref=EnvironmentRef(id="env")))

    asyncio.run(both())
    for kind in (0, 1):
        assert trained.calls[0][kind] == evaluated.calls[0][kind]
    assert trained.calls[0][0][0]["content"] == "Answer as the override says."
    assert [tool.name for tool in trained.calls[0][1]] == ["lookup"]
    samplings = [calls[0][2] for calls in (trained.calls, evaluated.calls)]
    assert [(s.temperature, s.max_tokens) for s in samplings] == [(0.8, 5)] * 2
