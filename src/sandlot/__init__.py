"""Sandlot: RL environments for language models. `import sandlot as sl`, or `import sandlot as vf`.

The public names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sandlot.envs import (
        Conversation as Conversation,
    )
    from sandlot.envs import (
        Env as Env,
    )
    from sandlot.envs import (
        EnvConfig as EnvConfig,
    )
    from sandlot.envs import (
        Environment as Environment,
    )
    from sandlot.envs import (
        GroupRewardFunc as GroupRewardFunc,
    )
    from sandlot.envs import (
        MaybeThinkParser as MaybeThinkParser,
    )
    from sandlot.envs import (
        MultiTurnEnv as MultiTurnEnv,
    )
    from sandlot.envs import (
        Parser as Parser,
    )
    from sandlot.envs import (
        Response as Response,
    )
    from sandlot.envs import (
        RewardFunc as RewardFunc,
    )
    from sandlot.envs import (
        Rubric as Rubric,
    )
    from sandlot.envs import (
        Score as Score,
    )
    from sandlot.envs import (
        SingleTurnEnv as SingleTurnEnv,
    )
    from sandlot.envs import (
        State as State,
    )
    from sandlot.envs import (
        Taskset as Taskset,
    )
    from sandlot.envs import (
        TasksetConfig as TasksetConfig,
    )
    from sandlot.envs import (
        ThinkParser as ThinkParser,
    )
    from sandlot.envs import (
        Toolbox as Toolbox,
    )
    from sandlot.envs import (
        ToolEnv as ToolEnv,
    )
    from sandlot.envs import (
        XMLParser as XMLParser,
    )
    from sandlot.envs import (
        cleanup as cleanup,
    )
    from sandlot.envs import (
        extract_boxed_answer as extract_boxed_answer,
    )
    from sandlot.envs import (
        extract_hash_answer as extract_hash_answer,
    )
    from sandlot.envs import (
        load_environment as load_environment,
    )
    from sandlot.envs import (
        metric as metric,
    )
    from sandlot.envs import (
        reward as reward,
    )
    from sandlot.envs import (
        stop as stop,
    )
    from sandlot.envs import (
        teardown as teardown,
    )
    from sandlot.models import (
        Completion as Completion,
    )
    from sandlot.models import (
        Model as Model,
    )
    from sandlot.records import (
        AssistantMessage as AssistantMessage,
    )
    from sandlot.records import (
        Message as Message,
    )
    from sandlot.records import (
        Messages as Messages,
    )
    from sandlot.records import (
        Rollout as Rollout,
    )
    from sandlot.records import (
        Run as Run,
    )
    from sandlot.records import (
        Sampling as Sampling,
    )
    from sandlot.records import (
        SystemMessage as SystemMessage,
    )
    from sandlot.records import (
        Task as Task,
    )
    from sandlot.records import (
        Tokens as Tokens,
    )
    from sandlot.records import (
        Tool as Tool,
    )
    from sandlot.records import (
        ToolCall as ToolCall,
    )
    from sandlot.records import (
        ToolMessage as ToolMessage,
    )
    from sandlot.records import (
        Turn as Turn,
    )
    from sandlot.records import (
        Usage as Usage,
    )
    from sandlot.records import (
        UserMessage as UserMessage,
    )
    from sandlot.records import (
        Verdict as Verdict,
    )

_UNITS = {
    "sandlot.envs": (
        "Conversation",
        "Env",
        "EnvConfig",
        "Environment",
        "GroupRewardFunc",
        "MaybeThinkParser",
        "MultiTurnEnv",
        "Parser",
        "Response",
        "RewardFunc",
        "Rubric",
        "Score",
        "SingleTurnEnv",
        "State",
        "Taskset",
        "TasksetConfig",
        "ThinkParser",
        "ToolEnv",
        "Toolbox",
        "XMLParser",
        "cleanup",
        "extract_boxed_answer",
        "extract_hash_answer",
        "load_environment",
        "metric",
        "reward",
        "stop",
        "teardown",
    ),
    "sandlot.models": (
        "Completion",
        "Model",
    ),
    "sandlot.records": (
        "AssistantMessage",
        "Message",
        "Messages",
        "Rollout",
        "Run",
        "Sampling",
        "SystemMessage",
        "Task",
        "Tokens",
        "Tool",
        "ToolCall",
        "ToolMessage",
        "Turn",
        "Usage",
        "UserMessage",
        "Verdict",
    ),
}
_HOME = {name: unit for unit, names in _UNITS.items() for name in names}

__all__ = sorted([*_HOME, "__version__"])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    unit = _HOME.get(name)
    if unit is None:
        raise AttributeError(f"module 'sandlot' has no attribute {name!r}")
    value = getattr(importlib.import_module(unit), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
