from __future__ import annotations

import asyncio
import time

import pytest
from tests.unit.engine.fakes import AnswerModel, Game, completion, task

from sandlot.engine import Limits, PlayPolicy, Request, State, play, play_all, play_group, seed_of
from sandlot.errors import InfraError, ModelError, OverlongPromptError
from sandlot.models import Completion
from sandlot.records import (
    AttemptEvent,
    Rollout,
    RolloutEvent,
    Sampling,
    Tokens,
    Verdict,
    conversation,
    encode_event,
)


def requests(count: int, task_id: str = "t") -> list[Request]:
    return [Request(task=task(task_id), index=index, seed=seed_of(0, task_id, index)) for index in range(count)]


def answers(*texts: str) -> AnswerModel:
    remaining = list(texts)

    async def answer(messages: object) -> Completion:
        return completion(remaining.pop(0) if len(remaining) > 1 else remaining[0])

    return AnswerModel(answer)


async def played(game: Game, model: AnswerModel, count: int = 1, **policy: object) -> list[Rollout]:
    return await play_group(
        game,
        requests(count),
        model=model,
        sampling=Sampling(),
        policy=PlayPolicy(**policy),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("deadline", [0.05, 0.2])
async def test_ROLL_01_a_rollout_that_runs_out_of_time_scores_zero_and_stays(deadline: float) -> None:
    calls = iter(["yes", "no", "no", None])

    async def answer(messages: object) -> Completion:
        text = next(calls)
        if text is None:
            await asyncio.sleep(30)
        return completion(text or "")

    class Strict(Game):
        def verdict(self, state: State) -> Verdict:
            assert state["completion"][-1]["content"] is not None  # raises IndexError where nothing was said
            return super().verdict(state)

    begin = time.perf_counter()
    rollouts = await played(Strict(limits=Limits(play=deadline)), AnswerModel(answer), 4)
    assert time.perf_counter() - begin < deadline + 1
    assert [rollout.reward for rollout in rollouts] == [1.0, 0.0, 0.0, 0.0]
    slow = rollouts[3]
    assert (slow.stop, slow.truncated, slow.status, slow.failure) == ("timeout", True, "truncated", None)
    assert sum(rollout.reward or 0.0 for rollout in rollouts) / 4 == 0.25


async def test_ROLL_02_work_done_before_the_deadline_is_scored_as_graded() -> None:
    async def answer(messages: object) -> Completion:
        return completion("yes")

    class Lingering(Game):
        async def observe(self, state: State, messages: object, completion: object) -> None:
            await super().observe(state, messages, completion)  # type: ignore[arg-type]
            await asyncio.sleep(30)

    (rollout,) = await played(Lingering(limits=Limits(play=0.05)), AnswerModel(answer))
    assert (rollout.reward, rollout.stop, rollout.truncated) == (1.0, "timeout", True)


async def test_ROLL_03_a_scorer_that_hangs_gives_no_reward_and_never_zero() -> None:
    hangs = iter([False, True, True, True])

    class Hanging(Game):
        async def score(self, states: object) -> list[Verdict]:
            if next(hangs):
                await asyncio.sleep(30)
            return [Verdict(reward=0.0)]

    game = Hanging(limits=Limits(score=0.05))
    rollouts = await played(game, answers("no"), 3, max_concurrent=1, scoring_retries=0)
    assert [rollout.reward for rollout in rollouts] == [0.0, None, None]
    assert [rollout.status for rollout in rollouts] == ["scored", "unscored", "unscored"]
    verdict = rollouts[1].verdict
    assert verdict is not None
    assert verdict.failure is not None
    assert (verdict.failure.boundary, verdict.failure.type) == ("scoring", "timeout")


async def test_scoring_that_fails_once_is_tried_again_without_playing_again() -> None:
    tries = iter([True, False])

    class Flaky(Game):
        async def score(self, states: object) -> list[Verdict]:
            if next(tries):
                raise ConnectionError("the judge is away")
            return [Verdict(reward=1.0)]

    model = answers("yes")
    (rollout,) = await played(Flaky(), model, scoring_retries=1)
    assert rollout.reward == 1.0
    assert len(model.samplings) == 1


@pytest.mark.parametrize("broken", [0, 3, 7])
async def test_ROLL_05_an_exception_of_the_environment_is_one_rollouts_failure(broken: int) -> None:
    class Breaking(Game):
        async def prompt(self, state: State) -> object:  # type: ignore[override]
            if state["turn"] == 1 and state["rng"].random() == first_number(broken):
                raise KeyError("x")
            return await super().prompt(state)

    def first_number(index: int) -> float:
        import random

        return random.Random(seed_of(0, "t", index)).random()

    rollouts = await played(Breaking(turns=2), answers("yes"), 8)
    errored = [rollout for rollout in rollouts if rollout.failure is not None]
    assert [rollout.index for rollout in errored] == [broken]
    failure = errored[0].failure
    assert failure is not None
    assert (failure.boundary, failure.type, failure.message) == ("environment", "KeyError", "'x'")
    assert "raise KeyError" in failure.traceback
    assert (errored[0].reward, errored[0].status) == (None, "errored")
    assert len(errored[0].turns) == 1, "what was played stays on record"
    assert all(rollout.reward == 1.0 for rollout in rollouts if rollout.failure is None)


async def test_ROLL_06_a_prompt_that_outgrows_the_context_ends_the_rollout_and_is_scored() -> None:
    calls = iter(["yes", None])

    async def answer(messages: object) -> Completion:
        text = next(calls)
        if text is None:
            raise OverlongPromptError("This model's maximum context length is 4096 tokens")
        return completion(text)

    (rollout,) = await played(Game(turns=2), AnswerModel(answer))
    assert (rollout.stop, rollout.truncated, rollout.failure) == ("context_length", True, None)
    assert len(rollout.turns) == 1
    assert rollout.reward == 1.0


@pytest.mark.parametrize(
    ("finishes", "truncated"), [(["stop", "length", "stop"], True), (["stop"], False), (["length"], True)]
)
async def test_ROLL_08_truncation_is_one_flag_for_a_rollout(finishes: list[str], truncated: bool) -> None:
    remaining = iter(finishes)

    async def answer(messages: object) -> Completion:
        return completion("yes", next(remaining))

    (rollout,) = await played(Game(turns=len(finishes)), AnswerModel(answer))
    assert rollout.truncated is truncated
    assert rollout.reward == 1.0


async def test_ROLL_09_rollouts_of_one_task_share_nothing() -> None:
    class Growing(Game):
        async def setup(self, state: State) -> State:
            state["prompt"].append({"role": "user", "content": "observation"})
            state["info"].setdefault("log", []).append("reset")
            return state

    wanted = requests(4)
    before = encode_event(RolloutEvent(rollout=Rollout(id="", task=wanted[0].task, index=0, environment="", model="")))
    rollouts = await play_group(
        Growing(), wanted, model=answers("yes"), sampling=Sampling(), policy=PlayPolicy(max_concurrent=1)
    )
    assert {len(rollout.turns[0].prompt) for rollout in rollouts} == {2}
    after = encode_event(RolloutEvent(rollout=Rollout(id="", task=wanted[0].task, index=0, environment="", model="")))
    assert before == after


async def test_ROLL_15_a_cancelled_rollout_is_cleaned_up_once_and_the_cancellation_goes_on() -> None:
    started = asyncio.Event()

    async def answer(messages: object) -> Completion:
        started.set()
        await asyncio.sleep(30)
        return completion("late")

    game = Game()
    running = asyncio.create_task(played(game, AnswerModel(answer)))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(game.cleaned) == 1


@pytest.mark.parametrize("error", [asyncio.CancelledError(), KeyboardInterrupt()])
def test_SCOR_01_cancellation_and_interrupts_are_no_score(error: BaseException) -> None:
    class Cancelling(Game):
        async def score(self, states: object) -> list[Verdict]:
            raise error

    with pytest.raises(type(error)):
        asyncio.run(played(Cancelling(), answers("yes")))


@pytest.mark.parametrize("error", [ModelError("503"), InfraError("sandbox away")])
async def test_infrastructure_is_played_again_and_every_try_is_on_record(error: Exception) -> None:
    tries = iter([error, error, None])

    async def answer(messages: object) -> Completion:
        if (failure := next(tries)) is not None:
            raise failure
        return completion("yes")

    attempts: list[AttemptEvent] = []
    rollouts: list[Rollout] = []
    game = Game()
    await play_all(
        game,
        [requests(1)],
        model=AnswerModel(answer),
        sampling=Sampling(),
        policy=PlayPolicy(retries=2),
        on_rollout=rollouts.append,
        on_attempt=attempts.append,
    )
    assert [(attempt.attempt, attempt.failure.message) for attempt in attempts] == [(1, str(error)), (2, str(error))]
    assert (rollouts[0].reward, rollouts[0].attempt) == (1.0, 3)
    assert len(game.cleaned) == 3


async def test_infrastructure_that_stays_away_leaves_the_rollout_out_of_the_mean() -> None:
    async def answer(messages: object) -> Completion:
        raise ModelError("the endpoint is down")

    (rollout,) = await played(Game(), AnswerModel(answer), retries=1)
    assert (rollout.reward, rollout.status, rollout.attempt) == (None, "errored", 2)
    assert rollout.failure is not None
    assert rollout.failure.boundary == "model"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
async def test_SCOR_15_a_reward_that_is_no_number_is_no_reward_and_the_line_stays_strict_json(value: float) -> None:
    rewards = iter([1.0, 0.0, value])

    class Wild(Game):
        async def score(self, states: object) -> list[Verdict]:
            return [Verdict(reward=next(rewards))]

    rollouts = await played(Wild(), answers("yes"), 3, max_concurrent=1, scoring_retries=0)
    assert [rollout.reward for rollout in rollouts] == [1.0, 0.0, None]
    line = encode_event(RolloutEvent(rollout=rollouts[2]))
    assert b"NaN" not in line
    assert b"Infinity" not in line


async def test_a_group_is_scored_together_whatever_the_order_in_which_it_ends() -> None:
    async def answer(messages: object) -> Completion:
        await asyncio.sleep(delays.pop(0))
        return completion("yes")

    class Judged(Game):
        grouped = True

        async def score(self, states: object) -> list[Verdict]:
            sizes.append(len(states))  # type: ignore[arg-type]
            return [Verdict(reward=float(place)) for place in range(len(states))]  # type: ignore[arg-type]

    delays, sizes = [0.03, 0.0, 0.02, 0.01], []
    rollouts = await played(Judged(), AnswerModel(answer), 4, max_concurrent=2)
    assert sizes == [4]
    assert [rollout.reward for rollout in rollouts] == [0.0, 1.0, 2.0, 3.0]


async def test_only_as_many_rollouts_are_in_flight_as_were_allowed_and_endless_tasks_are_read_lazily() -> None:
    flying = most = 0

    async def answer(messages: object) -> Completion:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0.001)
        flying -= 1
        return completion("yes")

    read = 0

    def endless() -> object:
        nonlocal read
        while True:
            read += 1
            yield requests(2, str(read))

    class Enough(Exception):
        pass

    rollouts: list[Rollout] = []

    def count(rollout: Rollout) -> None:
        rollouts.append(rollout)
        if len(rollouts) == 20:
            raise Enough

    with pytest.raises(Enough):
        await play_all(
            Game(),
            endless(),  # type: ignore[arg-type]
            model=AnswerModel(answer),
            sampling=Sampling(),
            policy=PlayPolicy(max_concurrent=4),
            on_rollout=count,
        )
    assert most == 4
    assert read <= 13


async def test_a_thousand_rollouts_are_in_flight_at_once() -> None:
    flying = most = 0
    everyone = asyncio.Event()

    async def answer(messages: object) -> Completion:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        if flying == 1000:
            everyone.set()
        await asyncio.wait_for(everyone.wait(), timeout=30)
        flying -= 1
        return completion("yes")

    rollouts = await played(Game(turns=2), AnswerModel(answer), 1000, max_concurrent=1000)
    assert most == 1000
    assert [rollout.reward for rollout in rollouts] == [1.0] * 1000


async def test_turns_hold_what_was_new_and_tokens_continue_where_the_last_turn_ended() -> None:
    drawn = iter(range(100, 200))

    async def answer(messages: list[dict[str, str]]) -> Completion:
        prior = model.priors[-1]
        prompt = [1, 2, 3] if prior is None else [7, 8]
        return Completion(
            message=completion("yes").message,
            tokens=Tokens(prompt=prompt, sampled=[next(drawn)], logprobs=[-0.5], versions=[0]),
            continues=prior is not None,
        )

    model = AnswerModel(answer)  # type: ignore[arg-type]
    (rollout,) = await played(Game(turns=3), model)
    assert [turn.parent for turn in rollout.turns] == [-1, 0, 1]
    assert [len(turn.prompt) for turn in rollout.turns] == [1, 1, 1]
    assert [list(prior.ids) if prior else None for prior in model.priors] == [
        None,
        [1, 2, 3, 100],
        [1, 2, 3, 100, 7, 8, 101],
    ]
    assert [message["content"] for message in conversation(rollout)] == [
        "question t",
        "yes",
        "go on",
        "yes",
        "go on",
        "yes",
    ]


@pytest.mark.parametrize("changed", [False, True])
async def test_NUM_15_whole_prompts_from_a_server_are_cut_where_they_agree_and_fork_where_they_do_not(
    changed: bool,
) -> None:
    sent: list[list[int]] = []

    async def answer(messages: list[dict[str, str]]) -> Completion:
        prompt = [1, 2, 3]
        if sent:
            prompt = [1, 2, 9 if changed else 3, 50, 7, 8]
        sent.append(prompt)
        return Completion(
            message=completion("yes").message,
            tokens=Tokens(prompt=prompt, sampled=[50], logprobs=[-0.1]),
        )

    (rollout,) = await played(Game(turns=2), AnswerModel(answer))  # type: ignore[arg-type]
    second = rollout.turns[1]
    assert second.tokens is not None
    if changed:
        assert (second.parent, second.tokens.prompt, len(second.prompt)) == (-1, [1, 2, 9, 50, 7, 8], 3)
    else:
        assert (second.parent, second.tokens.prompt, len(second.prompt)) == (0, [7, 8], 1)


async def test_the_same_seed_gives_the_same_numbers_whatever_else_is_played() -> None:
    drawn: dict[int, list[float]] = {}

    class Drawing(Game):
        async def setup(self, state: State) -> State:
            state["number"] = state["rng"].random()
            return state

    for size in (1, 4):
        model = answers("yes")
        rollouts = await played(Drawing(), model, size)
        drawn[size] = [rollout.state["number"] for rollout in rollouts]
        assert sorted(sampling.seed or 0 for sampling in model.samplings) == sorted(
            seed_of(0, "t", index) for index in range(size)
        )
    assert drawn[1][0] == drawn[4][0]
    assert len(set(drawn[4])) == 4


async def test_what_an_author_left_in_the_state_is_saved_and_what_is_no_json_is_named() -> None:
    class Leaving(Game):
        async def setup(self, state: State) -> State:
            state.update(history=[("crane", 3)], sandbox=object(), broken=float("nan"), _private=1)
            return state

    rollout = await play(Leaving(), requests(1)[0], model=answers("yes"), sampling=Sampling())
    assert rollout.state == {"history": [["crane", 3]]}
    assert sorted(rollout.left_out) == ["broken", "sandbox"]


async def test_a_token_limit_ends_a_rollout_as_truncated() -> None:
    from sandlot.records import Usage

    async def answer(messages: object) -> Completion:
        return Completion(message=completion("yes").message, usage=Usage(prompt_tokens=30, completion_tokens=10))

    (rollout,) = await played(Game(turns=9), AnswerModel(answer), max_tokens=100)
    assert (rollout.stop, rollout.truncated, len(rollout.turns)) == ("max_tokens", True, 3)
    assert rollout.usage.prompt_tokens == 90


async def test_the_environments_own_sampling_holds_where_the_run_says_nothing() -> None:
    class Picky(Game):
        sampling = Sampling(max_tokens=40, temperature=0.5, stop=["END"], extra={"a": 1, "b": 1})

    model = answers("yes")
    asked = Sampling(temperature=0.0, extra={"b": 2})
    rollout = await play(Picky(), requests(1)[0], model=model, sampling=asked)
    sent = model.samplings[0]
    assert (sent.max_tokens, sent.temperature, sent.stop, sent.extra) == (40, 0.0, ["END"], {"a": 1, "b": 2})
    assert rollout.sampling.max_tokens == 40


@pytest.mark.parametrize("ending", ["it fails", "the deadline"])
async def test_a_call_that_comes_to_nothing_was_the_models_time_and_not_the_environments(ending: str) -> None:
    async def answer(messages: object) -> Completion:
        await asyncio.sleep(0.2)
        raise ModelError("the endpoint is down")

    limits = Limits(play=0.1 if ending == "the deadline" else None)
    (rollout,) = await played(Game(limits=limits), AnswerModel(answer), retries=0)
    assert rollout.stop == ("timeout" if ending == "the deadline" else "error")
    assert rollout.timing.model >= 0.09
    assert rollout.timing.environment < 0.05
