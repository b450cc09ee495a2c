"""Finds an environment by its id and loads it. Loading never installs.

The order is: a path (`./my-env`), an installed package, a folder `./environments/NAME`. Ids may be `my-env`, `my_env`,
`owner/my-env` and `owner/my-env@1.2.0`; a version other than the installed one is an error, never ignored.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import subprocess
import sys
import tomllib
import traceback
import typing
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import msgspec

from sandlot.config import Config, build, nearest
from sandlot.engine import authors_code, raised_by, text_of_error
from sandlot.envs.environment import Environment
from sandlot.envs.original import answer_for_verifiers
from sandlot.errors import Invalid, NotFound, SandlotError
from sandlot.ids import PackageRef, content_digest, module_name, normal_name
from sandlot.records import EnvironmentRef, JsonObject

_IGNORED = frozenset({"__pycache__", ".venv", "outputs", "dist", "build", ".git"})


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Where an environment is."""

    ref: EnvironmentRef
    module: str
    """The name to import."""
    path: Path | None = None
    """The folder that has the module, where it is not an installed package."""
    eval_defaults: JsonObject = {}
    """`num_examples` and `rollouts_per_example` that its pyproject names."""

    def __str__(self) -> str:
        where = f"folder {self.path}" if self.path else f"installed package {self.ref.name}"
        return f"{where}, version {self.ref.version}" if self.ref.version else where


def find(env_id: str, *, root: Path | None = None) -> Found:
    """Where the environment `env_id` is, without importing it. `root` (default: the working folder) is where relative
    paths and `./environments` are looked for. `NotFound` says where was looked and how to install it."""
    root = root or Path.cwd()
    if env_id.startswith((".", "/", "~")):
        path = (root / Path(env_id).expanduser()).resolve()
        if not path.exists():
            raise NotFound(f"there is no folder {path}")
        return _in_folder(env_id, path)
    reference = PackageRef.parse(env_id)
    installed = _installed(env_id, reference)
    if installed is not None:
        return installed
    for name in dict.fromkeys((module_name(reference.name), reference.name, env_id)):
        folder = root / "environments" / name
        if folder.is_dir():
            return _checked(_in_folder(env_id, folder.resolve()), reference)
    beside = root / module_name(reference.name)
    hint = f"sandlot env install {reference}" if reference.owner else "sandlot env install owner/" + reference.name
    if (beside / "pyproject.toml").is_file():
        hint = f"it may be the folder here: write ./{beside.name}"
    elif near := nearest(module_name(reference.name), _folders_in(root / "environments")):
        hint = f"did you mean {near}? To install one of the hub: {hint}"
    raise NotFound(f"environment {env_id!r} is not installed, and ./environments has no such folder", hint=hint)


def _folders_in(place: Path) -> list[str]:
    return sorted(folder.parent.name for folder in place.glob("*/pyproject.toml"))


def load_environment(env_id: str, **env_args: Any) -> Environment:
    """The environment `env_id`, built by its package's `load_environment(**env_args)`."""
    return load(find(env_id), env_args)


def load(found: Found, env_args: Mapping[str, Any] | None = None) -> Environment:
    """The environment at `found`. `Invalid` names file and function if it cannot be loaded.

    A `load_environment` with one parameter that is annotated with a config class gets that config, built from
    `env_args`; any other gets `env_args` as keyword arguments.
    """
    arguments = dict(env_args or {})
    factory = _factory(found)
    config = _config_parameter(factory)
    try:
        with authors_code:
            if config is not None:
                name, cls = config
                environment = factory(**{name: build(cls, arguments, source=f"the arguments of {found.ref.id}")})
            else:
                _check_arguments(found, factory, arguments)
                environment = factory(**arguments)
    except SandlotError:
        raise
    except Exception as error:  # boundary: the author's load_environment
        raise Invalid(f"load_environment of {found.ref.id} raised {_told(found, error)}") from error
    if inspect.iscoroutine(environment):
        environment.close()
        raise Invalid(
            f"load_environment of {found.ref.id} is async; it is called without a loop",
            hint="write def load_environment, and do what has to be awaited in setup_state",
        )
    if not isinstance(environment, Environment):
        raise Invalid(
            f"load_environment of {found.ref.id} returned {type(environment).__name__}, not an Environment",
            hint="end it with: return env",
        )
    environment.env_id = found.ref.name or found.ref.id
    environment.env_args = arguments
    return environment


def argument_names(found: Found) -> list[str]:
    """The arguments that `load_environment` of `found` names. Its module is imported; nothing is built."""
    factory = _factory(found)
    config = _config_parameter(factory)
    if config is not None:
        return list(config[1].model_fields)
    parameters = inspect.signature(factory).parameters.values()
    return [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]


def _factory(found: Found) -> Any:
    module = _imported(found)
    factory = getattr(module, "load_environment", None)
    if not callable(factory):
        where = getattr(module, "__file__", None) or found.module
        raise Invalid(f"{where} has no function load_environment", hint="def load_environment(**kwargs): return env")
    return factory


def _imported(found: Found) -> ModuleType:
    if found.path is not None:
        beside = found.path / "src" / found.module
        base = found.path / "src" if beside.is_dir() or beside.with_suffix(".py").is_file() else found.path
        sys.path[:] = [str(base), *(entry for entry in sys.path if entry != str(base))]
        known = sys.modules.get(found.module)
        if known is not None and base not in Path(known.__file__ or "/").resolve().parents:
            # Its submodules go too, or a package of the same name elsewhere would be made of both.
            for name in [each for each in sys.modules if each.partition(".")[0] == found.module]:
                del sys.modules[name]
    answer_for_verifiers()
    try:
        with authors_code:
            return importlib.import_module(found.module)
    except ModuleNotFoundError as error:
        if error.name == found.module:
            raise Invalid(f"{found} has no module {found.module!r}") from None
        raise Invalid(
            f"importing {found.module} failed: {error}", hint=f"pip install {error.name}, or install the environment"
        ) from error
    except SandlotError:
        raise
    except Exception as error:  # boundary: the author's module
        raise Invalid(f"importing {found.module} raised {_told(found, error)}") from error


def _told(found: Found, error: Exception) -> str:
    raised = raised_by(error)
    return f"{type(raised).__name__}{_place(found, raised)}: {text_of_error(raised)}"


def _place(found: Found, error: BaseException) -> str:
    """Where in the author's own code an exception came from: the innermost file and line of it, or nothing."""
    module = sys.modules.get(found.module)
    file = getattr(module, "__file__", None) or (found.path and str(found.path / f"{found.module}.py")) or ""
    own = str(Path(file).parent if Path(file).name == "__init__.py" else Path(file))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(own)]
    return f" at {frames[-1].filename}:{frames[-1].lineno}" if own and frames else ""


def _config_parameter(factory: Any) -> tuple[str, type[Config]] | None:
    parameters = list(inspect.signature(factory).parameters.values())
    if len(parameters) != 1 or parameters[0].kind is inspect.Parameter.VAR_KEYWORD:
        return None
    try:
        annotation = typing.get_type_hints(factory).get(parameters[0].name)
    except NameError:
        return None
    is_config = isinstance(annotation, type) and issubclass(annotation, Config)
    return (parameters[0].name, annotation) if is_config and isinstance(annotation, type) else None


def _check_arguments(found: Found, factory: Any, arguments: Mapping[str, Any]) -> None:
    signature = inspect.signature(factory)
    try:
        signature.bind(**arguments)
    except TypeError as error:
        known = list(signature.parameters)
        near = [nearest(name, known) for name in arguments if name not in known]
        meant = f" (did you mean {near[0]!r}?)" if near and near[0] else ""
        raise Invalid(f"load_environment of {found.ref.id}: {error}{meant}", hint=f"it takes {signature}") from None


def _installed(env_id: str, reference: PackageRef) -> Found | None:
    try:
        distribution = importlib.metadata.distribution(reference.name)
    except importlib.metadata.PackageNotFoundError:
        return None
    owner, digest, folder = _origin(distribution)
    if reference.owner and owner and reference.owner != owner:
        raise Invalid(
            f"{reference.name} is installed from {owner}, not from {reference.owner}",
            hint=f"pip uninstall {reference.name}, then sandlot env install {reference}",
        )
    ref = EnvironmentRef(
        id=env_id,
        name=normal_name(distribution.metadata["Name"]),
        owner=owner,
        version=distribution.version,
        digest=digest,
        source="installed",
    )
    found = Found(ref=ref, module=module_name(reference.name), eval_defaults=_eval_defaults(_pyproject_of(folder)))
    return _checked(found, reference)


def _origin(distribution: importlib.metadata.Distribution) -> tuple[str | None, str | None, Path | None]:
    """Owner and digest from the PEP 610 record, and the folder of an editable install.

    `sandlot env install` adds the release's own digest to the record; plain pip and uv leave the archive's.
    """
    text = distribution.read_text("direct_url.json")
    if not text:
        return None, None, None
    record = json.loads(text)
    url = urlsplit(record.get("url", ""))
    if url.scheme == "file":
        return None, None, Path(url.path)
    release = record.get("sandlot")
    if release:
        return release.get("owner"), release.get("digest"), None
    hashes = record.get("archive_info", {}).get("hashes", {})
    sha256 = hashes.get("sha256") or record.get("archive_info", {}).get("hash", "").removeprefix("sha256=")
    parts = url.path.strip("/").split("/")
    return (parts[0] if len(parts) > 1 else None), (f"sha256:{sha256}" if sha256 else None), None


def _in_folder(env_id: str, path: Path) -> Found:
    folder = path if path.is_dir() else path.parent
    table = _pyproject_of(folder)
    project = table.get("project", {})
    name = normal_name(str(project.get("name") or (folder.name if path.is_dir() else path.stem)))
    modules = [module_name(name), folder.name, path.stem]
    present = [
        module
        for module in modules
        if any((folder / base / module).with_suffix(suffix).exists() for base in ("", "src") for suffix in ("", ".py"))
        and (folder / module).resolve() != folder
    ]
    if not present:
        raise Invalid(f"{folder} has no module {module_name(name)}.py", hint="its load_environment is looked for there")
    commit, dirty = _commit(folder)
    ref = EnvironmentRef(
        id=env_id,
        name=name,
        version=project.get("version"),
        digest=_tree_digest(folder),
        source="path" if env_id.startswith((".", "/", "~")) else "environments",
        commit=commit,
        dirty=dirty,
    )
    return Found(ref=ref, module=present[0], path=folder, eval_defaults=_eval_defaults(table))


def _checked(found: Found, reference: PackageRef) -> Found:
    if reference.version and found.ref.version and found.ref.version != reference.version:
        raise Invalid(
            f"{reference} was asked for, but {found} is what is here",
            hint=f"sandlot env install {reference}",
        )
    return found


def _pyproject_of(folder: Path | None) -> JsonObject:
    path = folder / "pyproject.toml" if folder else None
    if path is None or not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{path} is not valid TOML: {error}") from None


def _eval_defaults(table: JsonObject) -> JsonObject:
    tools = table.get("tool", {})
    defaults = {**tools.get("verifiers", {}).get("eval", {}), **tools.get("sandlot", {}).get("eval", {})}
    return {key: defaults[key] for key in ("num_examples", "rollouts_per_example") if key in defaults}


def _tree_digest(folder: Path) -> str:
    files = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return content_digest(
        (str(name), path.read_bytes())
        for name, path in files.items()
        if not any(part in _IGNORED or part.startswith(".") for part in name.parts)
    )


def _commit(folder: Path) -> tuple[str | None, bool | None]:
    """The commit that the folder is at, and whether it differs from it; None where it is not under git."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    commit = git("rev-parse", "HEAD")
    changes = git("status", "--porcelain", "--", ".") if commit else None
    return commit, (bool(changes) if changes is not None else None)
