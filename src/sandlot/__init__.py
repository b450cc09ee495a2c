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
        Env as Env,
        EnvConfig as EnvConfig,
        EnvGroup as EnvGroup,
        Environment as Environment,
        GroupJudge as GroupJudge,
        GroupRewardFunc as GroupRewardFunc,
        JudgeRubric as JudgeRubric,
        MathRubric as MathRubric,
        MaybeThinkParser as MaybeThinkParser,
        MultiTurnEnv as MultiTurnEnv,
        Parser as Parser,
        Response as Response,
        Results as Results,
        RewardFunc as RewardFunc,
        RolloutOutput as RolloutOutput,
        Rubric as Rubric,
        RubricGroup as RubricGroup,
        Score as Score,
        SingleTurnEnv as SingleTurnEnv,
        State as State,
        StatefulToolEnv as StatefulToolEnv,
        Taskset as Taskset,
        TasksetConfig as TasksetConfig,
        ThinkParser as ThinkParser,
        Toolbox as Toolbox,
        ToolEnv as ToolEnv,
        XMLParser as XMLParser,
        cleanup as cleanup,
        exact_match as exact_match,
        extract_boxed_answer as extract_boxed_answer,
        extract_choice as extract_choice,
        extract_choices as extract_choices,
        extract_hash_answer as extract_hash_answer,
        last_verdict as last_verdict,
        load_environment as load_environment,
        metric as metric,
        number_match as number_match,
        reward as reward,
        stop as stop,
        teardown as teardown,
    )
    from sandlot.models import (
        Completion as Completion,
        Model as Model,
        connect as connect,
    )
    from sandlot.records import (
        AssistantMessage as AssistantMessage,
        Message as Message,
        Messages as Messages,
        Rollout as Rollout,
        Run as Run,
        Sampling as Sampling,
        SystemMessage as SystemMessage,
        Task as Task,
        Tokens as Tokens,
        Tool as Tool,
        ToolCall as ToolCall,
        ToolMessage as ToolMessage,
        Turn as Turn,
        Usage as Usage,
        UserMessage as UserMessage,
        Verdict as Verdict,
    )

_UNITS = {
    "sandlot.envs": (
        "Conversation",
        "Env",
        "EnvConfig",
        "EnvGroup",
        "Environment",
        "GroupJudge",
        "GroupRewardFunc",
        "JudgeRubric",
        "MathRubric",
        "MaybeThinkParser",
        "MultiTurnEnv",
        "Parser",
        "Response",
        "Results",
        "RewardFunc",
        "RolloutOutput",
        "Rubric",
        "RubricGroup",
        "Score",
        "SingleTurnEnv",
        "State",
        "StatefulToolEnv",
        "Taskset",
        "TasksetConfig",
        "ThinkParser",
        "ToolEnv",
        "Toolbox",
        "XMLParser",
        "cleanup",
        "exact_match",
        "extract_boxed_answer",
        "extract_choice",
        "extract_choices",
        "extract_hash_answer",
        "last_verdict",
        "load_environment",
        "metric",
        "number_match",
        "reward",
        "stop",
        "teardown",
    ),
    "sandlot.models": (
        "Completion",
        "Model",
        "connect",
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

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    unit = _HOME.get(name)
    if unit is None:
        raise AttributeError(f"module 'sandlot' has no attribute {name!r}")
    value = getattr(importlib.import_module(unit), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
