"""Makes `import verifiers` and its sandbox client mean Sandlot, where the original packages are not installed.

Invariants: the original wins where it is there; nothing changes before an environment is loaded; a name that Sandlot
does not have cannot be imported, except those that need a sandbox or an agent program: these can be imported and
subclassed, and say what is missing when they are used.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import logging
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from sandlot.errors import MissingDependency

_ROOT = "verifiers"
API_VERSION = "0.1.14"
"""The release of the original whose API this one follows, for packages that look."""

_SANDBOXED = frozenset(
    {
        "BrowserEnv", "BrowserSandboxError", "CliAgentEnv", "GymEnv", "HarborEnv", "MCPEnv", "OpenCodeEnv",
        "OpenCodeQAEnv", "OpenCodeRLMEnv", "OpenEnvEnv", "ReasoningGymEnv", "SandboxDebugEnv", "TextArenaEnv",
    }
)  # fmt: skip
"""Names of the original that run programs in sandboxes, or stand on other projects."""

_SANDBOXED_MODULES = ("verifiers.envs.experimental", "verifiers.envs.sandbox_env", "verifiers.envs.integrations")

_COMPOSABLE = "verifiers.envs.experimental.composable"
"""Below it sets of tasks, harnesses and their environment have names of their own, such as `Task`."""

_CLIENT_MODULES = ("prime_sandboxes", "prime_sandboxes.core", "prime_sandboxes.exceptions")
"""The package of the original's sandbox client, which packages import from too."""

_SUBMODULES = (
    "types", "errors", "clients", "decorators",
    "envs", "envs.environment", "envs.multiturn_env", "envs.singleturn_env", "envs.tool_env", "envs.stateful_tool_env",
    "envs.env_group", "envs.sandbox_env", "envs.python_env", "envs.experimental", "envs.integrations",
    "envs.textarena_env", "envs.reasoninggym_env", "envs.mcp_env", "rubrics.tool_rubric",
    "parsers", "parsers.parser", "parsers.xml_parser", "parsers.think_parser", "parsers.maybe_think_parser",
    "rubrics", "rubrics.rubric", "rubrics.rubric_group", "rubrics.judge_rubric", "rubrics.math_rubric",
    "rubrics.experimental", "rubrics.experimental.hybrid_math_rubric",
    "utils", "utils.data_utils", "utils.async_utils", "utils.error_utils", "utils.tool_utils", "utils.client_utils",
    "utils.logging_utils", "utils.eval_utils", "utils.env_utils", "utils.message_utils", "utils.thread_utils",
    "utils.response_utils",
)  # fmt: skip


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the original's modules behind all other finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for the original's package and the modules of it that Sandlot knows."""
        if fullname in (_ROOT, *_CLIENT_MODULES) or _is_known(fullname):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """A module whose names are looked up when they are asked for."""
        return _Alias(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is run."""


class _Alias(ModuleType):
    """One module of the original."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return _exported()
        if name == "__version__":
            return API_VERSION
        if name.startswith("__"):
            raise AttributeError(name)
        value = _named(self.__name__, name)
        setattr(self, name, value)
        return value


def answer_for_verifiers() -> None:
    """From now on `import verifiers` finds Sandlot if it finds nothing else. Asked again, it does nothing."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


def _is_known(fullname: str) -> bool:
    root, _, rest = fullname.partition(".")
    return root == _ROOT and (rest in _SUBMODULES or fullname.startswith(_SANDBOXED_MODULES))


def _named(module: str, name: str) -> Any:
    """What `name` of the original's `module` is here."""
    if f"{module}.{name}".removeprefix(f"{_ROOT}.") in _SUBMODULES:
        return importlib.import_module(f"{module}.{name}")
    homes = ("sandlot", "sandlot.envs", "sandlot.envs.drift", "sandlot.envs.sandboxed", "sandlot.models")
    for home in ("sandlot.envs.composable", *homes) if module.startswith(_COMPOSABLE) else homes:
        found = getattr(importlib.import_module(home), name, None)
        if found is not None:
            return found
    if name == "logger":
        return logging.getLogger("sandlot")
    if module in _CLIENT_MODULES:
        raise AttributeError(f"Sandlot has no {name!r} for {module}")
    if name in _SANDBOXED or module.startswith(_SANDBOXED_MODULES):
        if name.isupper():
            return [] if name.endswith("S") else ""
        return _unavailable(name)
    raise AttributeError(f"Sandlot has no {name!r} for {module}")


def _exported() -> list[str]:
    ours = importlib.import_module("sandlot").__all__
    return [*(name for name in ours if not name.startswith("_")), *sorted(_SANDBOXED)]


def _unavailable(name: str) -> type:
    def refuse(cls: type, *_: Any, **__: Any) -> Any:
        subject = name if cls.__name__ == name else f"{cls.__name__} is made of {name}, which"
        raise MissingDependency(
            f"{subject} runs programs in a sandbox or stands on another project; Sandlot does not have it yet",
            hint="environments that need neither can be played",
        )

    return type(name, (), {"__new__": refuse, "__doc__": f"{name} of the original: it can be named, not built."})
