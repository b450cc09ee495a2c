"""What environment authors import."""

from sandlot.engine import State
from sandlot.envs.answers import exact_match, extract_choice, extract_choices, final_number, number_match
from sandlot.envs.conversation import Conversation
from sandlot.envs.decorators import cleanup, metric, reward, stop, teardown
from sandlot.envs.env_group import EnvGroup
from sandlot.envs.environment import Environment
from sandlot.envs.group_judge import GroupJudge
from sandlot.envs.judge_model import escaped, last_verdict
from sandlot.envs.judges import JudgeRubric
from sandlot.envs.load import Found, find, load, load_environment
from sandlot.envs.math_rubric import MathRubric
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
from sandlot.envs.results import Results, RolloutOutput, output_of
from sandlot.envs.rubric import GroupRewardFunc, RewardFunc, Rubric, Score
from sandlot.envs.rubric_group import RubricGroup
from sandlot.envs.stateful_tools import StatefulToolEnv
from sandlot.envs.taskset import EnvConfig, Taskset, TasksetConfig
from sandlot.envs.toolbox import Toolbox
from sandlot.envs.validate import Played, Validation, validate

Env = Environment

__all__ = [
    "Built",
    "Conversation",
    "Env",
    "EnvConfig",
    "EnvGroup",
    "Environment",
    "Found",
    "GroupJudge",
    "GroupRewardFunc",
    "JudgeRubric",
    "MathRubric",
    "MaybeThinkParser",
    "MultiTurnEnv",
    "Parser",
    "Played",
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
    "Validation",
    "XMLParser",
    "build_release",
    "cleanup",
    "escaped",
    "exact_match",
    "extract_boxed_answer",
    "extract_choice",
    "extract_choices",
    "extract_hash_answer",
    "final_number",
    "find",
    "last_verdict",
    "load",
    "load_environment",
    "metric",
    "number_match",
    "output_of",
    "reward",
    "stop",
    "teardown",
    "validate",
]
