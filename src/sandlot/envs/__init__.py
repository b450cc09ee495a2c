"""What environment authors import."""

from sandlot.engine import State
from sandlot.envs.answers import exact_match, extract_choice, extract_choices, final_number, number_match
from sandlot.envs.authoring import (
    BOXED_SYSTEM_PROMPT,
    THINK_BOXED_SYSTEM_PROMPT,
    ensure_keys,
    load_example_dataset,
    log_level,
    print_prompt_completions_sample,
    quiet_verifiers,
    setup_logging,
)
from sandlot.envs.conversation import Conversation
from sandlot.envs.decorators import cleanup, metric, reward, stop, teardown
from sandlot.envs.env_group import EnvGroup
from sandlot.envs.environment import Environment
from sandlot.envs.group_judge import GroupJudge
from sandlot.envs.judge_model import escaped, last_verdict
from sandlot.envs.judges import JudgeRubric
from sandlot.envs.load import Found, argument_names, find, load, load_environment
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
from sandlot.envs.reward_functions import GroupRewardFunc, RewardFunc
from sandlot.envs.rlm import RLMEnv
from sandlot.envs.rubric import Rubric, Score
from sandlot.envs.rubric_group import RubricGroup
from sandlot.envs.sampling import check_sampling, sampling_of
from sandlot.envs.sandboxed import Graded, Grader, PythonEnv, SandboxEnv, tests_passed
from sandlot.envs.stateful_tools import StatefulToolEnv
from sandlot.envs.tasks import rows_of
from sandlot.envs.taskset import EnvConfig, Taskset, TasksetConfig
from sandlot.envs.toolbox import Toolbox
from sandlot.envs.validate import Played, Validation, validate
from sandlot.envs.vocabulary import (
    Client,
    ClientConfig,
    DatasetBuilder,
    GenerateMetadata,
    GenerateOutputs,
    Info,
    ResponseMessage,
    ResponseTokens,
    RolloutInput,
    RolloutScore,
    RolloutScores,
    RolloutTiming,
    SamplingArgs,
    TrajectoryStep,
    TrajectoryStepTokens,
)
from sandlot.errors import (
    EmptyModelResponseError,
    Error,
    InfraError,
    InvalidModelResponseError,
    MissingKeyError,
    ModelError,
    OverlongPromptError,
    SandboxError,
    ToolCallError,
    ToolError,
    ToolParseError,
    TunnelError,
)

Env = Environment

__all__ = [
    "BOXED_SYSTEM_PROMPT",
    "THINK_BOXED_SYSTEM_PROMPT",
    "Built",
    "Client",
    "ClientConfig",
    "Conversation",
    "DatasetBuilder",
    "EmptyModelResponseError",
    "Env",
    "EnvConfig",
    "EnvGroup",
    "Environment",
    "Error",
    "Found",
    "GenerateMetadata",
    "GenerateOutputs",
    "Graded",
    "Grader",
    "GroupJudge",
    "GroupRewardFunc",
    "Info",
    "InfraError",
    "InvalidModelResponseError",
    "JudgeRubric",
    "MathRubric",
    "MaybeThinkParser",
    "MissingKeyError",
    "ModelError",
    "MultiTurnEnv",
    "OverlongPromptError",
    "Parser",
    "Played",
    "PythonEnv",
    "RLMEnv",
    "Response",
    "ResponseMessage",
    "ResponseTokens",
    "Results",
    "RewardFunc",
    "RolloutInput",
    "RolloutOutput",
    "RolloutScore",
    "RolloutScores",
    "RolloutTiming",
    "Rubric",
    "RubricGroup",
    "SamplingArgs",
    "SandboxEnv",
    "SandboxError",
    "Score",
    "SingleTurnEnv",
    "State",
    "StatefulToolEnv",
    "Taskset",
    "TasksetConfig",
    "ThinkParser",
    "ToolCallError",
    "ToolEnv",
    "ToolError",
    "ToolParseError",
    "Toolbox",
    "TrajectoryStep",
    "TrajectoryStepTokens",
    "TunnelError",
    "Validation",
    "XMLParser",
    "argument_names",
    "build_release",
    "check_sampling",
    "cleanup",
    "ensure_keys",
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
    "load_example_dataset",
    "log_level",
    "metric",
    "number_match",
    "output_of",
    "print_prompt_completions_sample",
    "quiet_verifiers",
    "reward",
    "rows_of",
    "sampling_of",
    "setup_logging",
    "stop",
    "teardown",
    "tests_passed",
    "validate",
]
