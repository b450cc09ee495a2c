"""Cases of the numerics of training that sampling and tokenising decide."""

import logging
import math
from pathlib import Path

import pytest
import torch
from tests.scripted_sampler import ScriptedSampler
from tests.tiny import CHATML, make_tiny_tokenizer
from tests.unit.engine.fakes import Game, task
from transformers import LlamaConfig, LlamaForCausalLM

from sandlot.engine import PlayPolicy, Request, play
from sandlot.errors import Invalid
from sandlot.inference import ChatTokens, PolicyModel, TokenSampling, TorchSampler, load_tokenizer
from sandlot.models import Prior
from sandlot.records import AssistantMessage, Message, Rollout, Sampling, Tool, UserMessage

BOS = "{{ '<s>' }}" + CHATML
FORGETS_THINKING = CHATML.replace(
    "(message['content'] or '')",
    "((message['content'] or '').split('</think>')[-1] if not loop.last else message['content'])",
)


def chat(folder: Path, template: str = CHATML) -> ChatTokens:
    return ChatTokens(load_tokenizer(make_tiny_tokenizer(folder, chat_template=template)))


def policy(folder: Path, answers: list[str], template: str = CHATML) -> PolicyModel:
    tokens = chat(folder, template)
    left = iter(answers)
    return PolicyModel(ScriptedSampler(lambda _: [*tokens.encode(next(left)), 2]), tokens, name="policy")


def constant_logits(logits: list[float]) -> torch.nn.Module:
    """A model whose logits are the same whatever it reads."""
    config = LlamaConfig(
        vocab_size=len(logits), hidden_size=4, intermediate_size=4, num_hidden_layers=1, num_attention_heads=1
    )
    module = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        module.model.embed_tokens.weight.fill_(1.0)
        module.model.norm.weight.fill_(1.0)
        module.lm_head.weight.copy_(torch.tensor(logits)[:, None] / 4)
    return module


@pytest.mark.parametrize(
    ("temperature", "expected"),
    [(0.5, -0.142932), (1.0, -0.407606), (2.0, math.log(math.e / (math.e + math.e**0.5 + 1)))],
)
async def test_NUM_11_the_log_probability_is_that_of_the_sampling_temperature(
    temperature: float, expected: float
) -> None:
    sampler = TorchSampler(constant_logits([2.0, 1.0, 0.0]))
    draws = [
        await sampler.generate([0], TokenSampling(max_tokens=1, temperature=temperature, seed=seed))
        for seed in range(30)
    ]
    scores = await sampler.score([0, 0], temperature=temperature)
    await sampler.close()
    of_token_0 = [sampled.logprobs[0] for sampled in draws if sampled.tokens == [0]]
    assert of_token_0
    assert of_token_0 == pytest.approx([expected] * len(of_token_0), abs=2e-6)
    assert scores == pytest.approx([expected], abs=2e-6)
    for sampled in draws:
        (token,), (logprob,) = sampled.tokens, sampled.logprobs
        raw = torch.tensor([2.0, 1.0, 0.0]) / temperature
        assert math.exp(logprob - float(raw.log_softmax(0)[token])) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("template", [BOS, BOS.replace("{{ '<s>' }}", "{{ bos_token }}")])
def test_NUM_14_a_prompt_has_exactly_one_begin_token_by_template_and_as_text(tmp_path: Path, template: str) -> None:
    from tokenizers import Tokenizer, processors

    make_tiny_tokenizer(tmp_path, chat_template=template)
    # The kind of tokenizer that adds the begin token by itself as well.
    inner = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 4)])
    inner.save(str(tmp_path / "tokenizer.json"))
    tokens = ChatTokens(load_tokenizer(tmp_path))
    messages: list[Message] = [UserMessage(content="hi")]
    by_template = tokens.render(messages)
    assert by_template.count(4) == 1
    assert by_template[0] == 4
    assert tokens.encode_prompt(tokens.text(messages)) == by_template
    assert tokens.encode_prompt("hi").count(4) == 1
    suffix = tokens.extend(Prior(messages=2, ids=[*by_template, 20, 2]), [
        *messages, AssistantMessage(content=tokens.decode([20])), UserMessage(content="more")
    ])  # fmt: skip
    assert suffix.continues
    assert 4 not in suffix.ids


async def played(model: PolicyModel) -> Rollout:
    request = Request(task=task("t"), index=0, seed=0)
    return await play(Game(turns=2), request, model=model, sampling=Sampling(), policy=PlayPolicy(split="train"))


@pytest.mark.parametrize("answer", ["<think>2 and 2</think>four", "<think></think> ", "<think>a</think>b</think>c"])
async def test_NUM_15_a_history_that_the_template_rewrites_becomes_two_sequences_and_is_counted(
    tmp_path: Path, answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = policy(tmp_path, [answer, "done"], FORGETS_THINKING)
    with caplog.at_level(logging.WARNING, logger="sandlot.inference"):
        rollout = await played(model)
    first, second = rollout.turns
    assert first.tokens.sampled == [*model.tokens.encode(answer), 2]
    assert (first.parent, second.parent) == (-1, -1)
    assert second.tokens.prompt == model.sampler.prompts[1]
    assert "<think>" not in model.tokens.decode(second.tokens.prompt)
    assert (model.calls, model.forks) == (1, 1)
    assert "counted" in caplog.text


@pytest.mark.parametrize("answer", ["four", "<think>2 and 2</think>four", "  two  spaces \n\n", "", "\n"])
async def test_NUM_15_a_history_that_stays_is_one_sequence_of_exactly_the_sampled_ids(
    tmp_path: Path, answer: str
) -> None:
    model = policy(tmp_path, [answer, "done"])
    rollout = await played(model)
    first, second = rollout.turns
    assert (first.parent, second.parent) == (-1, 0)
    whole = [*first.tokens.prompt, *first.tokens.sampled, *second.tokens.prompt]
    assert whole == model.sampler.prompts[1]
    assert first.tokens.sampled == [*model.tokens.encode(answer), 2]
    assert model.forks == 0


@pytest.mark.parametrize("returned", ["", None])
async def test_NUM_17_no_content_and_empty_content_are_the_same_message(tmp_path: Path, returned: str | None) -> None:
    tokens = chat(tmp_path)
    prompt = tokens.render([UserMessage(content="q")])
    history = [UserMessage(content="q"), AssistantMessage(content=returned), UserMessage(content="r")]
    assert tokens.extend(Prior(messages=2, ids=[*prompt, 2]), history).continues


@pytest.mark.parametrize("content", ["ok ", " ok", "ok", "\tok\n", " "])
async def test_NUM_17_spaces_are_not_altered_and_another_text_is_a_counted_fork(tmp_path: Path, content: str) -> None:
    model = policy(tmp_path, [content.replace("\t", " "), "x", "y"])
    first = await model.generate([UserMessage(content="q")], sampling=Sampling())
    said = first.message.content
    assert said == content.replace("\t", " ")
    known = [*first.tokens.prompt, *first.tokens.sampled]
    prior = Prior(messages=2, ids=known)
    same = await model.generate(
        [UserMessage(content="q"), first.message, UserMessage(content="r")], sampling=Sampling(), prior=prior
    )
    assert (same.continues, model.forks) == (True, 0)
    stripped = AssistantMessage(content=said + "!")
    other = await model.generate(
        [UserMessage(content="q"), stripped, UserMessage(content="r")], sampling=Sampling(), prior=prior
    )
    assert (other.continues, model.forks) == (False, 1)


LOSSY = {
    "the definitions of the tools": CHATML.replace("{{ tool | tojson + '\n' }}", ""),
    "the names of called tools": CHATML.replace("call['function'] | tojson", "call['function']['arguments'] | tojson"),
    "the arguments of calls": CHATML.replace("call['function'] | tojson", "call['function']['name'] | tojson"),
    "the results of calls": CHATML.replace(
        "{%- if not (loop.first", "{%- if message['role'] != 'tool' and not (loop.first"
    ),
}


@pytest.mark.parametrize("lost", list(LOSSY))
def test_INT_05_a_template_that_drops_part_of_a_dialogue_with_tools_is_refused_by_what_is_lost(
    tmp_path: Path, lost: str
) -> None:
    chat(tmp_path / "whole").require_tools()
    lossy = chat(tmp_path / "lossy", LOSSY[lost])
    with pytest.raises(Invalid, match=f"silently drops {lost}:"):
        lossy.require_tools()
    with pytest.raises(Invalid, match=lost):
        lossy.render([UserMessage(content="q")], [Tool(name="add")])
    assert lossy.render([UserMessage(content="q")])


def test_INT_05_a_template_that_reads_only_content_is_refused_naming_everything_it_loses(tmp_path: Path) -> None:
    template = "{% for m in messages %}{% if m.role != 'tool' %}{{ m.role + ': ' + m.content }}{% endif %}{% endfor %}"
    with pytest.raises(Invalid, match=r"definitions of the tools, the names .* the arguments .*, the results"):
        chat(tmp_path, template).require_tools()


@pytest.mark.parametrize("between", ["", "\n", " \n "])
def test_GRAD_23_two_tool_call_blocks_are_two_calls_in_order_with_empty_content(tmp_path: Path, between: str) -> None:
    text = (
        '<tool_call>{"name":"multiply","arguments":{"a":3,"b":4}}</tool_call>'
        + between
        + '<tool_call>{"name":"addition","arguments":{"a":3,"b":4}}</tool_call>'
    )
    said = chat(tmp_path).message(text, tools=[Tool(name="multiply"), Tool(name="addition")])
    assert [(call.name, call.arguments) for call in said.tool_calls] == [
        ("multiply", '{"a": 3, "b": 4}'),
        ("addition", '{"a": 3, "b": 4}'),
    ]
    assert said.content == ""
