"""Sets of tasks, harnesses of agents, and the environment that plays both, under the names of the original API."""

from sandlot.envs.composable.cp_tasks import CPRubric, CPTaskSet
from sandlot.envs.composable.environment import ComposableEnv
from sandlot.envs.composable.harness import Harness
from sandlot.envs.composable.lean_tasks import LEAN_SYSTEM_PROMPT, LeanRubric, LeanTaskSet
from sandlot.envs.composable.math_tasks import MathTaskSet, RemoteHybridMathRubric
from sandlot.envs.composable.opencode import (
    DEFAULT_DISABLED_TOOLS,
    DEFAULT_SYSTEM_PROMPT,
    OPENCODE_INSTALL_SCRIPT,
    opencode_harness,
)
from sandlot.envs.composable.rlm import DEFAULT_RLM_MAX_TURNS, rlm_harness
from sandlot.envs.composable.swe_tasks import R2EGymTaskSet, make_r2e_taskset, make_swe_taskset
from sandlot.envs.composable.tasks import SandboxSpec, SandboxTaskSet, Task, TaskSet, discover_sibling_dir

__all__ = [
    "DEFAULT_DISABLED_TOOLS",
    "DEFAULT_RLM_MAX_TURNS",
    "DEFAULT_SYSTEM_PROMPT",
    "LEAN_SYSTEM_PROMPT",
    "OPENCODE_INSTALL_SCRIPT",
    "CPRubric",
    "CPTaskSet",
    "ComposableEnv",
    "Harness",
    "LeanRubric",
    "LeanTaskSet",
    "MathTaskSet",
    "R2EGymTaskSet",
    "RemoteHybridMathRubric",
    "SandboxSpec",
    "SandboxTaskSet",
    "Task",
    "TaskSet",
    "discover_sibling_dir",
    "make_r2e_taskset",
    "make_swe_taskset",
    "opencode_harness",
    "rlm_harness",
]
