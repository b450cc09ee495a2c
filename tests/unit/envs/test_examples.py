"""The three ways to write an environment, as the design shows them, with only their free names filled in."""

from __future__ import annotations

import asyncio

import sandlot as vf
from sandlot.engine import PlayPolicy, Request, play_group
from sandlot.models import Completion, Model
from sandlot.records import AssistantMessage, Rollout, Sampling


class Says(vf.Model):
    """Says the given texts in turn, the last one for ever."""

    name = "says"

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.calls = 0

    async def generate(self, messages, *, tools=(), sampling, prior=None) -> Completion:  # type: ignore[no-untyped-def]
        text = self.texts[min(self.calls, len(self.texts) - 1)]
        self.calls += 1
        return Completion(message=AssistantMessage(content=text))


def rollouts_of(env: vf.Environment, model: Model, count: int = 1) -> list[Rollout]:
    (first, *_) = env.playable.tasks("eval")
    requests = [Request(task=first, index=index) for index in range(count)]
    return asyncio.run(
        play_group(env.playable, requests, model=model, sampling=Sampling(), policy=PlayPolicy(max_concurrent=1))
    )


def test_a_dataset_and_a_rubric_make_an_environment() -> None:
    def load_dataset(name: str, config: str, split: str) -> list[dict[str, str]]:
        return [{"question": "What is 6 × 7?", "answer": "42"}]

    def extract_final(completion: list[dict[str, str]]) -> str:
        return completion[-1]["content"].split()[-1]

    dataset = load_dataset("gsm8k", "main", split="train")

    def correct_answer_reward(completion, answer, **kwargs):  # type: ignore[no-untyped-def]
        return 1.0 if extract_final(completion) == answer else 0.0

    rubric = vf.Rubric(funcs=[correct_answer_reward])
    env = vf.SingleTurnEnv(dataset=dataset, rubric=rubric)

    right, wrong = rollouts_of(env, Says("It is 42", "It is 41"), 2)
    assert (right.reward, wrong.reward) == (1.0, 0.0)
    assert right.stop == "max_turns_reached"
    assert right.verdict is not None
    assert right.verdict.rewards[0].name == "correct_answer_reward"
    assert right.verdict.metrics == {"num_turns": 1.0}


def extract_guess(text: str) -> str:
    return text.strip().lower()


def score_guess(guess: str, target: str) -> str:
    return "".join("G" if one == other else "-" for one, other in zip(guess, target, strict=True))


def load_word_list() -> list[str]:
    return ["crane", "slate"]


class WordleEnv(vf.MultiTurnEnv):  # the environment speaks; this class body runs unedited
    def __init__(self, words: list[str], max_turns: int = 6):
        super().__init__(max_turns=max_turns)
        self.words = words

    async def env_response(self, messages, state, **kwargs):  # type: ignore[no-untyped-def]
        guess = extract_guess(messages[-1]["content"])
        target = state["target"]
        feedback = score_guess(guess, target)
        state["history"].append((guess, feedback))
        return [{"role": "user", "content": feedback}]

    async def is_completed(self, messages, state, **kwargs):  # type: ignore[no-untyped-def,override]
        return state["history"] and state["history"][-1][0] == state["target"]


def load_environment(**kwargs):  # type: ignore[no-untyped-def]
    return WordleEnv(words=load_word_list(), max_turns=6)


def test_an_environment_that_speaks_ends_on_its_own_answer_without_a_further_call() -> None:
    env = load_environment()
    rows = [{"question": "Guess a word.", "target": "crane", "history": []}]
    env.with_tasks(rows)
    model = Says("slate", "crane", "never")
    (rollout,) = rollouts_of(env, model)
    assert model.calls == 2
    assert rollout.stop == "is_completed"
    assert rollout.state["history"] == [["slate", "--G-G"], ["crane", "GGGGG"]]
    assert rollout.tail == [{"role": "user", "content": "GGGGG"}]
    assert rows[0]["history"] == [], "the row is copied deeply for each rollout"


def test_the_turn_limit_ends_a_game_that_is_not_won() -> None:
    env = load_environment().with_tasks([{"question": "Guess a word.", "target": "crane", "history": []}])
    model = Says("slate")
    (rollout,) = rollouts_of(env, model)
    assert (model.calls, rollout.stop, len(rollout.turns)) == (6, "max_turns_reached", 6)


def test_tasks_apart_from_the_agent() -> None:
    source = [{"question": "Say hello.", "answer": "hello"}]

    def reward_fn(completion, answer) -> float:  # type: ignore[no-untyped-def]
        return float(completion[-1]["content"] == answer)

    def load_taskset(config: vf.TasksetConfig) -> vf.Taskset:
        return vf.Taskset(source=source, rewards=[reward_fn], config=config)

    def load_environment(config: vf.EnvConfig) -> vf.Env:
        return vf.Env(taskset=load_taskset(config=config.taskset))

    env = load_environment(vf.EnvConfig(taskset=vf.TasksetConfig(system_prompt="Be brief.")))
    (rollout,) = rollouts_of(env, Says("hello"))
    assert rollout.reward == 1.0
    assert [message["role"] for message in rollout.turns[0].prompt] == ["system", "user"]
