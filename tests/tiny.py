"""A tiny causal language model in a folder: about 75 thousand random weights, one token a character.

The same seed gives the same weights on every machine. It loads like any Hugging Face folder, so whatever serves or
trains a real model serves and trains this one, in milliseconds.
"""

from __future__ import annotations

import json
import string
from pathlib import Path

CHATML = """\
{%- if tools %}{{ '<|im_start|>system\n' }}
{%- if messages[0]['role'] == 'system' %}{{ messages[0]['content'] + '\n' }}{% endif %}
{{- 'Tools:\n' }}{% for tool in tools %}{{ tool | tojson + '\n' }}{% endfor %}{{ '<|im_end|>\n' }}{% endif %}
{%- for message in messages %}
{%- if not (loop.first and tools and message['role'] == 'system') %}
{{- '<|im_start|>' + message['role'] + '\n' + (message['content'] or '') }}
{%- for call in message['tool_calls'] or [] %}
{{- '<tool_call>' + (call['function'] | tojson) + '</tool_call>' }}{% endfor %}
{{- '<|im_end|>\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""
"""ChatML with tools: an assistant's calls are `<tool_call>` blocks, a result is a message of the role `tool`."""

SPECIALS = ["<pad>", "<|im_start|>", "<|im_end|>", "<unk>", "<s>"]
"""Their ids are 0 to 4. The end of a turn, `<|im_end|>`, is the end-of-sequence token."""


def make_tiny_model(
    folder: Path, seed: int = 0, *, chat_template: str = CHATML, context_length: int = 512, spread: float = 0.15
) -> Path:
    """Writes config, weights and tokenizer into `folder` (made if need be) and returns it.

    `spread` is the standard deviation of the weights: wider than the usual 0.02, so that the distribution is far from
    flat and an error shows in the log-probabilities.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    make_tiny_tokenizer(folder, chat_template=chat_template)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(SPECIALS) + len(_CHARACTERS),
        hidden_size=48,
        intermediate_size=176,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context_length,
        pad_token_id=0,
        bos_token_id=4,
        eos_token_id=2,
        tie_word_embeddings=False,
        initializer_range=spread,
    )
    LlamaForCausalLM(config).to(torch.float32).save_pretrained(folder)
    return folder


def make_tiny_tokenizer(folder: Path, *, chat_template: str = CHATML) -> Path:
    """Writes the tokenizer alone: every printable ASCII character and the newline is one token."""
    from tokenizers import Tokenizer, decoders, models

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {token: index for index, token in enumerate([*SPECIALS, *_CHARACTERS])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(SPECIALS)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "<|im_end|>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "clean_up_tokenization_spaces": False,
        "chat_template": chat_template,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


_CHARACTERS = ["\n", *sorted(string.ascii_letters + string.digits + string.punctuation + " ")]
