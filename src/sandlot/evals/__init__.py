"""Evaluations: what is asked for, playing exactly what is missing of it, and what came out."""

from sandlot.evals.compare import Side, Versus, compare_sides, read_side
from sandlot.evals.config import EvalConfig, SamplingConfig, settings_of
from sandlot.evals.crew import Crew
from sandlot.evals.limits import EvalLimits, RolloutLimits
from sandlot.evals.plan import EvalPlan, folder_of_eval, plan_eval
from sandlot.evals.rescore import Change, Lacking, Rescored, rescore, write_rescored
from sandlot.evals.run import Progress, run_eval
from sandlot.evals.suite import EvalFile, differing_settings, expand
from sandlot.evals.summary import Named, Passed, Summary, TaskScore, summarise, task_scores
from sandlot.evals.worker import Broken, send, work

__all__ = [
    "Broken",
    "Change",
    "Crew",
    "EvalConfig",
    "EvalFile",
    "EvalLimits",
    "EvalPlan",
    "Lacking",
    "Named",
    "Passed",
    "Progress",
    "Rescored",
    "RolloutLimits",
    "SamplingConfig",
    "Side",
    "Summary",
    "TaskScore",
    "Versus",
    "compare_sides",
    "differing_settings",
    "expand",
    "folder_of_eval",
    "plan_eval",
    "read_side",
    "rescore",
    "run_eval",
    "send",
    "settings_of",
    "summarise",
    "task_scores",
    "work",
    "write_rescored",
]
