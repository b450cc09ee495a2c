"""The torch engine: the numbers it reports are the module's, however sequences come and go."""

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from tests.tiny import make_tiny_model

from sandlot.errors import Invalid, ModelError
from sandlot.inference import Sampled, TokenSampling, TorchSampler, load_module

END = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", seed=1, context_length=256)


@pytest.fixture
def module(folder: Path) -> torch.nn.Module:
    return load_module(folder)


def reference(
    module: torch.nn.Module, prompts: Sequence[list[int]], completions: Sequence[Sampled], temperature: float = 1.0
) -> list[torch.Tensor]:
    """The log-probabilities of the completions by one padded forward of the plain module."""
    rows = [prompt + sampled.tokens for prompt, sampled in zip(prompts, completions, strict=True)]
    width = max(map(len, rows))
    ids_BT = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    mask_BT = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    with torch.no_grad():
        logits_BTV = module(input_ids=ids_BT, attention_mask=mask_BT, use_cache=False).logits.double() / temperature
    logprobs_BTV = logits_BTV.log_softmax(-1)
    return [
        logprobs_BTV[row, len(prompt) - 1 : len(prompt) - 1 + len(sampled.tokens)]
        .gather(1, torch.tensor(sampled.tokens)[:, None])[:, 0]
        .float()
        for row, (prompt, sampled) in enumerate(zip(prompts, completions, strict=True))
    ]


def assert_same_numbers(expected: Sequence[torch.Tensor], completions: Sequence[Sampled]) -> None:
    difference = torch.cat(list(expected)) - torch.tensor([lp for sampled in completions for lp in sampled.logprobs])
    assert difference.abs().max() < 1e-4
    assert (difference.exp() - 1 - difference).mean() < 1e-6, "the mismatch KL"


def prompts_of_many_lengths(count: int, seed: int = 0) -> list[list[int]]:
    numbers = random.Random(seed)
    shared = [numbers.randrange(5, 100) for _ in range(20)]
    prompts = []
    for index in range(count):
        own = [numbers.randrange(5, 100) for _ in range(numbers.randrange(1, 60))]
        prompts.append([shared + own, own, shared][index % 3])
    return prompts


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.6])
async def test_log_probabilities_are_those_of_a_padded_forward_with_mixed_lengths_and_joins_midway(
    module: torch.nn.Module, temperature: float
) -> None:
    sampler = TorchSampler(module, max_rows=7)
    numbers = random.Random(1)

    async def later(index: int, prompt: list[int]) -> Sampled:
        await asyncio.sleep(numbers.random() * 0.2)
        sampling = TokenSampling(max_tokens=1 + index * 3 % 70, temperature=temperature, stop_ids=(END,), seed=index)
        return await sampler.generate(prompt, sampling)

    prompts = prompts_of_many_lengths(40)
    completions = await asyncio.gather(*(later(index, prompt) for index, prompt in enumerate(prompts)))
    await sampler.close()
    assert {sampled.finish for sampled in completions} == {"stop", "length"}
    assert_same_numbers(reference(module, prompts, completions, temperature), completions)


async def test_a_group_that_shares_its_prompt_draws_differently_from_one_exact_distribution(
    module: torch.nn.Module,
) -> None:
    sampler = TorchSampler(module, max_rows=32)
    prompt = list(range(10, 40))
    completions = await asyncio.gather(
        *(sampler.generate(prompt, TokenSampling(max_tokens=25, seed=seed)) for seed in range(24))
    )
    await sampler.close()
    assert len({tuple(sampled.tokens) for sampled in completions}) > 20
    assert_same_numbers(reference(module, [prompt] * 24, completions), completions)


def watched(module: torch.nn.Module) -> list[tuple[int, int]]:
    """The shapes, rows and columns, that the module is given from now on."""
    shapes: list[tuple[int, int]] = []
    module.register_forward_pre_hook(
        lambda _, __, given: shapes.append(tuple(given["input_ids"].shape)), with_kwargs=True
    )
    return shapes


async def test_a_prompt_that_a_group_shares_is_computed_once(module: torch.nn.Module) -> None:
    shapes = watched(module)
    sampler = TorchSampler(module, max_rows=32)
    prompts = [list(range(10, 40)), list(range(20, 45))]
    await asyncio.gather(
        *(sampler.generate(prompts[seed % 2], TokenSampling(max_tokens=3, seed=seed)) for seed in range(16))
    )
    await sampler.close()
    assert shapes == [(2, 30), (16, 1), (16, 1)]


async def test_the_next_turn_of_a_conversation_computes_only_what_is_new(module: torch.nn.Module) -> None:
    sampler = TorchSampler(module, max_rows=8)
    prompt = list(range(10, 40))
    first = await sampler.generate(prompt, TokenSampling(max_tokens=10, seed=0))
    shapes = watched(module)
    more = [50, 51, 52]
    await sampler.generate([*prompt, *first.tokens, *more], TokenSampling(max_tokens=1, seed=0))
    await sampler.generate([*prompt, *more], TokenSampling(max_tokens=1, seed=0))
    await sampler.apply(1)
    await sampler.generate([*prompt, *more], TokenSampling(max_tokens=1, seed=0))
    await sampler.close()
    # The last token that was drawn had not been read yet; after new weights everything is read again.
    assert shapes == [(1, 4), (1, 3), (1, 33)]


async def test_draws_follow_the_distribution(module: torch.nn.Module) -> None:
    sampler = TorchSampler(module, max_rows=64)
    prompt, count = [10, 11, 12], 3000
    drawn = await asyncio.gather(
        *(sampler.generate(prompt, TokenSampling(max_tokens=1, temperature=1.5, seed=seed)) for seed in range(count))
    )
    await sampler.close()
    with torch.no_grad():
        expected_V = (module(input_ids=torch.tensor([prompt])).logits[0, -1].double() / 1.5).softmax(-1)
    frequency_V = torch.bincount(torch.tensor([sampled.tokens[0] for sampled in drawn]), minlength=101) / count
    # Four standard errors of a frequency, for each token.
    bound_V = 4 * (expected_V * (1 - expected_V) / count).sqrt() + 1e-3
    assert bool(((frequency_V - expected_V).abs() < bound_V).all())


async def test_temperature_0_takes_the_likeliest_token_and_reports_it_at_temperature_1(
    module: torch.nn.Module,
) -> None:
    sampler = TorchSampler(module)
    prompts = prompts_of_many_lengths(6, seed=4)
    completions = await asyncio.gather(
        *(sampler.generate(prompt, TokenSampling(max_tokens=20, temperature=0)) for prompt in prompts)
    )
    await sampler.close()
    assert_same_numbers(reference(module, prompts, completions), completions)
    for prompt, sampled in zip(prompts, completions, strict=True):
        with torch.no_grad():
            best = module(input_ids=torch.tensor([prompt + sampled.tokens])).logits[0].argmax(-1)
        assert sampled.tokens == best[len(prompt) - 1 : -1].tolist()


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"top_k": 3}, lambda p: p >= p.sort(descending=True).values[2]),
        ({"top_p": 0.5}, lambda p: _mass_before(p) < 0.5),
        ({"min_p": 0.2}, lambda p: p >= 0.2 * p.max()),
    ],
)
async def test_a_truncated_draw_reports_the_renormalised_log_probability(
    module: torch.nn.Module, settings: dict[str, float], kept: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    sampler = TorchSampler(module, max_rows=64)
    prompt = [30, 31, 32]
    drawn = await asyncio.gather(
        *(sampler.generate(prompt, TokenSampling(max_tokens=1, seed=seed, **settings)) for seed in range(200))
    )
    await sampler.close()
    with torch.no_grad():
        p_V = module(input_ids=torch.tensor([prompt])).logits[0, -1].double().softmax(-1)
    kept_V = kept(p_V)
    assert 1 <= int(kept_V.sum()) < 101
    for sampled in drawn:
        token = sampled.tokens[0]
        assert bool(kept_V[token])
        assert sampled.logprobs[0] == pytest.approx(float((p_V[token] / p_V[kept_V].sum()).log()), abs=1e-4)


def _mass_before(p_V: torch.Tensor) -> torch.Tensor:
    """What the tokens that are likelier than each one have together."""
    return torch.stack([p_V[p_V > p].sum() for p in p_V])


async def test_a_small_cache_makes_calls_wait_or_start_again_and_changes_no_number(module: torch.nn.Module) -> None:
    # Room for about 200 tokens in all, while each of the calls comes to 60 to 180.
    sampler = TorchSampler(module, max_rows=16, cache_bytes=2 * 2 * 2 * 12 * 4 * 200)
    prompts = prompts_of_many_lengths(12, seed=2)
    completions = await asyncio.gather(
        *(
            sampler.generate(prompt, TokenSampling(max_tokens=60 + 5 * index, seed=index))
            for index, prompt in enumerate(prompts)
        )
    )
    await sampler.close()
    assert [len(sampled.tokens) for sampled in completions] == [60 + 5 * index for index in range(12)]
    assert_same_numbers(reference(module, prompts, completions), completions)


async def test_turns_of_a_conversation_reuse_what_is_cached_and_change_no_number(module: torch.nn.Module) -> None:
    sampler = TorchSampler(module, max_rows=4)

    async def conversation(index: int) -> None:
        numbers = random.Random(index)
        prompt: list[int] = [numbers.randrange(5, 100) for _ in range(10)]
        for turn in range(4):
            sampled = await sampler.generate(prompt, TokenSampling(max_tokens=15, seed=turn, stop_ids=(END,)))
            assert_same_numbers(reference(module, [prompt], [sampled]), [sampled])
            prompt = prompt + sampled.tokens + [numbers.randrange(5, 100) for _ in range(6)]

    await asyncio.gather(*(conversation(index) for index in range(8)))
    await sampler.close()


async def test_new_weights_draw_the_next_token_and_nothing_old_is_reused_for_new_prompts(
    module: torch.nn.Module, tmp_path: Path
) -> None:
    other = load_module(make_tiny_model(tmp_path / "other", seed=9, context_length=256))
    sampler = TorchSampler(module)
    prompt = list(range(20, 60))
    before = await sampler.generate(prompt, TokenSampling(max_tokens=10, seed=0))
    running = asyncio.create_task(sampler.generate(prompt, TokenSampling(max_tokens=200, seed=1)))
    await asyncio.sleep(0.03)
    await sampler.apply(1, other.state_dict())
    assert sampler.version == 1
    after = await sampler.generate(prompt, TokenSampling(max_tokens=10, seed=0))
    mixed = await running
    await sampler.close()
    assert (before.versions, after.versions) == ([0] * 10, [1] * 10)
    assert_same_numbers(reference(other, [prompt], [after]), [after])
    assert mixed.versions == sorted(mixed.versions)
    assert set(mixed.versions) == {0, 1}


async def test_a_module_that_was_changed_in_place_is_used_as_it_is_after_apply(module: torch.nn.Module) -> None:
    sampler = TorchSampler(module)
    prompt = list(range(20, 60))
    await sampler.generate(prompt, TokenSampling(max_tokens=5, seed=0))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    await sampler.apply(1)
    after = await sampler.generate(prompt, TokenSampling(max_tokens=10, seed=0))
    await sampler.close()
    assert_same_numbers(reference(module, [prompt], [after]), [after])


@pytest.mark.parametrize("fault", ["missing", "unknown", "shape"])
async def test_weights_that_do_not_fit_are_refused_before_anything_is_changed(
    module: torch.nn.Module, fault: str
) -> None:
    sampler = TorchSampler(module)
    weights = {name: tensor + 1 for name, tensor in module.state_dict().items()}
    if fault == "missing":
        weights.pop("lm_head.weight")
    elif fault == "unknown":
        weights["extra.weight"] = torch.zeros(1)
    else:
        weights["lm_head.weight"] = torch.zeros(3, 3)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    with pytest.raises(Invalid, match=r"extra\.weight" if fault == "unknown" else r"lm_head\.weight"):
        await sampler.apply(1, weights)
    assert sampler.version == 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    await sampler.close()


async def test_weights_that_diverged_fail_every_waiting_call_with_the_cause_and_none_hangs(
    module: torch.nn.Module,
) -> None:
    sampler = TorchSampler(module, max_rows=2)
    good = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    await sampler.apply(1, {name: tensor * float("nan") for name, tensor in good.items()})
    calls = [sampler.generate([10 + n], TokenSampling(max_tokens=5)) for n in range(6)]
    results = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), timeout=20)
    assert all(isinstance(result, ModelError) and "not finite" in str(result) for result in results)
    await sampler.apply(2, good)
    sampled = await sampler.generate([10, 11], TokenSampling(max_tokens=5, seed=0))
    await sampler.close()
    assert_same_numbers(reference(module, [[10, 11]], [sampled]), [sampled])


async def test_a_module_in_training_mode_is_sampled_without_dropout_and_stays_in_training_mode(
    folder: Path,
) -> None:
    module = load_module(folder)
    for layer in module.model.layers:
        layer.self_attn.attention_dropout = 0.5
    module.train()
    sampler = TorchSampler(module)
    sampled = await sampler.generate([10, 11, 12], TokenSampling(max_tokens=20, seed=0))
    await sampler.close()
    assert module.training
    assert_same_numbers(reference(module.eval(), [[10, 11, 12]], [sampled]), [sampled])


async def test_the_event_loop_is_free_while_tokens_are_drawn(module: torch.nn.Module) -> None:
    sampler = TorchSampler(module)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    ticking = asyncio.create_task(tick())
    sampled = await sampler.generate([10], TokenSampling(max_tokens=50, seed=0))
    ticking.cancel()
    await sampler.close()
    assert ticks > len(sampled.tokens)


def test_one_sampler_serves_one_event_loop_after_another(module: torch.nn.Module) -> None:
    sampler = TorchSampler(module)
    sampling = TokenSampling(max_tokens=10, seed=0)

    async def abandon() -> None:
        calls = [asyncio.create_task(sampler.generate([20 + n], sampling)) for n in range(100)]
        await asyncio.sleep(0.01)
        assert not all(call.done() for call in calls)

    first = asyncio.run(sampler.generate([10], sampling))
    asyncio.run(abandon())
    second = asyncio.run(sampler.generate([10], sampling))
    asyncio.run(sampler.close())
    assert second.tokens == first.tokens


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"min_p": 1.5}, "min_p"),
    ],
)
async def test_settings_that_mean_nothing_are_refused_by_name(
    module: torch.nn.Module, settings: dict[str, float], words: str
) -> None:
    sampler = TorchSampler(module)
    with pytest.raises(Invalid, match=words):
        await sampler.generate([10], TokenSampling(**{"max_tokens": 5, **settings}))
    await sampler.close()


@pytest.mark.parametrize("prompt", [[], [101], [-1], [5, 10**9]])
async def test_a_prompt_that_the_vocabulary_does_not_have_is_refused_and_harms_no_other_call(
    module: torch.nn.Module, prompt: list[int]
) -> None:
    sampler = TorchSampler(module)
    good = asyncio.create_task(sampler.generate([10], TokenSampling(max_tokens=20, seed=0)))
    await asyncio.sleep(0)
    with pytest.raises(Invalid, match="token"):
        await sampler.generate(prompt, TokenSampling(max_tokens=5))
    assert len((await good).tokens) == 20
    await sampler.close()


def other_families() -> dict[str, torch.nn.Module]:
    from transformers import (
        GPT2Config,
        GPT2LMHeadModel,
        GPTNeoXConfig,
        GPTNeoXForCausalLM,
        Qwen2Config,
        Qwen2ForCausalLM,
        Qwen3Config,
        Qwen3ForCausalLM,
    )

    size = {"vocab_size": 101, "initializer_range": 0.15, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    rows = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    few = {"num_key_value_heads": 2, "max_position_embeddings": 128}
    torch.manual_seed(0)
    return {
        "qwen2": Qwen2ForCausalLM(Qwen2Config(**size, **rows, **few)),
        "qwen3": Qwen3ForCausalLM(Qwen3Config(**size, **rows, **few, head_dim=16)),
        "gpt_neox": GPTNeoXForCausalLM(GPTNeoXConfig(**size, **rows, max_position_embeddings=128)),
        "gpt2, with learned positions": GPT2LMHeadModel(
            GPT2Config(**size, n_embd=32, n_layer=2, n_head=4, n_positions=128)
        ),
    }


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "gpt_neox", "gpt2, with learned positions"])
async def test_models_of_other_families_are_sampled_as_exactly(family: str) -> None:
    module = other_families()[family].eval()
    sampler = TorchSampler(module, max_rows=8)
    prompts = [[*prompt, *range(5, 5 + 3 * index)] for index, prompt in enumerate(prompts_of_many_lengths(12, seed=6))]
    completions = await asyncio.gather(
        *(
            sampler.generate(prompt, TokenSampling(max_tokens=128, seed=index, stop_ids=(END,)))
            for index, prompt in enumerate(prompts)
        )
    )
    await sampler.close()
    assert_same_numbers(reference(module, prompts, completions), completions)


def test_a_model_whose_layers_do_not_attend_to_everything_is_refused_by_name() -> None:
    from transformers import MistralConfig, MistralForCausalLM

    config = MistralConfig(
        vocab_size=20, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, sliding_window=8,
    )  # fmt: skip
    with pytest.raises(Invalid, match="mistral model has sliding_attention layers"):
        TorchSampler(MistralForCausalLM(config))


@pytest.mark.parametrize("length", [1, 257])
def test_a_context_length_that_the_model_does_not_have_is_refused(module: torch.nn.Module, length: int) -> None:
    with pytest.raises(Invalid, match="between 2 and the model's 256"):
        TorchSampler(module, context_length=length)
