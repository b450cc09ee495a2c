"""What environment authors import."""

from sandlot.engine import State
from sandlot.envs.conversation import Conversation
from sandlot.envs.decorators import cleanup, metric, reward, stop, teardown
from sandlot.envs.env_group import EnvGroup
from sandlot.envs.environment import Environment
from sandlot.envs.load import Found, find, load, load_environment
from sandlot.envs.multiturn import MultiTurnEnv, SingleTurnEnv, ToolEnv
from sandlot.envs.parsers import (
    MaybeThinkParser,
    Parser,
    ThinkParser,
    XMLParser,
    extract_boxed_answer,
    extract_hash_answer,
)
from sandlot.envs.release import Built, build_release
from sandlot.envs.response import Response
from sandlot.envs.results import Results, RolloutOutput
from sandlot.envs.rubric import GroupRewardFunc, RewardFunc, Rubric, Score
from sandlot.envs.rubric_group import RubricGroup
from sandlot.envs.stateful_tools import StatefulToolEnv
from sandlot.envs.taskset import EnvConfig, Taskset, TasksetConfig
from sandlot.envs.toolbox import Toolbox

Env = Environment

__all__ = [
    "Built",
    "Conversation",
    "Env",
    "EnvConfig",
    "EnvGroup",
    "Environment",
    "Found",
    "GroupRewardFunc",
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
    "build_release",
    "cleanup",
    "extract_boxed_answer",
    "extract_hash_answer",
    "find",
    "load",
    "load_environment",
    "metric",
    "reward",
    "stop",
    "teardown",
]
