"""What every Sampler promises, whatever draws the tokens."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.scripted_sampler import ScriptedSampler
from tests.tiny import make_tiny_model

from sandlot.errors import ModelError, OverlongPromptError
from sandlot.inference import Sampler, TokenSampling, TorchSampler, load_module

END = 2
PROMPT = [20, 30, 40]


@asynccontextmanager
async def scripted() -> AsyncIterator[Sampler]:
    sampler = ScriptedSampler(lambda ids: [ids[-1]] * (sum(ids) % 50) + [END, 9, 9] * 200, context_length=96)
    yield sampler
    await sampler.close()


@asynccontextmanager
async def torch() -> AsyncIterator[Sampler]:
    with TemporaryDirectory() as folder:
        module = load_module(make_tiny_model(Path(folder) / "tiny", seed=3, context_length=96))
    sampler = TorchSampler(module, max_rows=4)
    yield sampler
    await sampler.close()


Backend = Callable[[], AbstractAsyncContextManager[Sampler]]
every_sampler = pytest.mark.parametrize("backend", [scripted, torch])


@every_sampler
async def test_every_token_has_a_log_probability_and_the_version_that_drew_it(backend: Backend) -> None:
    async with backend() as sampler:
        await sampler.apply(7)
        sampled = await sampler.generate(PROMPT, TokenSampling(max_tokens=30, stop_ids=(END,), seed=1))
    assert 1 <= len(sampled.tokens) <= 30
    assert len(sampled.logprobs) == len(sampled.tokens)
    assert all(logprob <= 0 for logprob in sampled.logprobs)
    assert sampled.versions == [7] * len(sampled.tokens)


@every_sampler
async def test_a_completion_ends_with_the_stop_id_it_drew_or_at_its_length(backend: Backend) -> None:
    async with backend() as sampler:
        calls = [
            sampler.generate([20, 30 + n], TokenSampling(max_tokens=1 + 3 * n, stop_ids=(END,), seed=n))
            for n in range(12)
        ]
        for n, sampled in enumerate(await asyncio.gather(*calls)):
            assert END not in sampled.tokens[:-1]
            if sampled.tokens[-1] == END:
                assert sampled.finish == "stop"
            else:
                assert (sampled.finish, len(sampled.tokens)) == ("length", 1 + 3 * n)


@every_sampler
async def test_prompt_and_completion_never_exceed_the_context(backend: Backend) -> None:
    async with backend() as sampler:
        prompt = [20] * (sampler.context_length - 5)
        sampled = await sampler.generate(prompt, TokenSampling(max_tokens=1000))
        assert (len(sampled.tokens), sampled.finish) == (5, "length")
        for too_long in (sampler.context_length, sampler.context_length + 100):
            with pytest.raises(OverlongPromptError):
                await sampler.generate([20] * too_long, TokenSampling(max_tokens=1))


@every_sampler
async def test_the_scores_of_a_completion_are_the_log_probabilities_it_was_drawn_with(backend: Backend) -> None:
    async with backend() as sampler:
        sampled = await sampler.generate(PROMPT, TokenSampling(max_tokens=30, temperature=0.7, seed=5))
        scores = await sampler.score(PROMPT + sampled.tokens, temperature=0.7)
    assert len(scores) == len(PROMPT) + len(sampled.tokens) - 1
    assert scores[len(PROMPT) - 1 :] == pytest.approx(sampled.logprobs, abs=1e-4)


@every_sampler
async def test_the_same_seed_draws_the_same_tokens_whatever_else_is_in_the_batch(backend: Backend) -> None:
    async with backend() as sampler:
        sampling = TokenSampling(max_tokens=20, seed=11)
        alone = await sampler.generate(PROMPT, sampling)
        crowd = [sampler.generate([50 + n], TokenSampling(max_tokens=10 + n, seed=n)) for n in range(9)]
        again, *_ = await asyncio.gather(sampler.generate(PROMPT, sampling), *crowd)
    assert again.tokens == alone.tokens


@every_sampler
async def test_a_cancelled_call_harms_no_other(backend: Backend) -> None:
    async with backend() as sampler:
        calls = [
            asyncio.create_task(sampler.generate([60 + n], TokenSampling(max_tokens=60, seed=n))) for n in range(10)
        ]
        await asyncio.sleep(0.005)
        for call in calls[::2]:
            call.cancel()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert all(not isinstance(result, BaseException) for result in results[1::2])
        after = await sampler.generate(PROMPT, TokenSampling(max_tokens=3, seed=0))
    assert after.tokens


@every_sampler
async def test_closing_fails_the_calls_that_wait_instead_of_leaving_them(backend: Backend) -> None:
    async with backend() as sampler:
        calls = [asyncio.create_task(sampler.generate([60 + n], TokenSampling(max_tokens=90))) for n in range(10)]
        await asyncio.sleep(0.002)
        await sampler.close()
        results = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), timeout=20)
    assert all(isinstance(result, ModelError) for result in results)
