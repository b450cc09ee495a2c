"""A function fits a screen, a file fits a sitting. The lists of exceptions only shrink."""

from __future__ import annotations

import ast

from tests.architecture.tree import SOURCE, modules

LONGEST_FILE = 400
LONGEST_FUNCTION = 60
MOST_PARAMETERS = 5

LONG_FUNCTIONS: set[str] = set()
MANY_PARAMETERS = {
    "client/connection.py:ask",
    "client/spool.py:__init__",
    "client/spool.py:push_run",
    "engine/pool.py:play_all",
    "engine/pool.py:play_group",
    "envs/agents/playing.py:__init__",
    "envs/authoring.py:print_prompt_completions_sample",
    "envs/composable/cp_tasks.py:__init__",
    "envs/composable/lean_tasks.py:__init__",
    "envs/composable/math_tasks.py:__init__",
    "envs/composable/opencode.py:build_opencode_config",
    "envs/composable/opencode.py:opencode_harness",
    "envs/composable/rlm.py:rlm_harness",
    "envs/composable/swe_tasks.py:__init__",
    "envs/drift.py:__init__",
    "envs/environment.py:__init__",
    "envs/evaluate.py:evaluate",
    "envs/evaluate.py:evaluate_async",
    "envs/given.py:generate",
    "envs/given.py:get_model_response",
    "envs/group_judge.py:__init__",
    "envs/judges.py:__init__",
    "envs/math_rubric.py:__init__",
    "envs/multiturn.py:__init__",
    "envs/rlm.py:__init__",
    "envs/sandboxed/client.py:execute_command",
    "envs/sandboxed/client.py:run_background_job",
    "envs/sandboxed/mixin.py:init_sandbox_client",
    "envs/sandboxed/sandbox_env.py:__init__",
    "envs/taskset.py:__init__",
    "models/setback.py:refused",
    "train/logprobs.py:forward",
}
"""Signatures of the compatible API and of torch, and what only a record of its own would gather."""


def functions() -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    return [
        (f"{path.relative_to(SOURCE)}:{node.name}", node)
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_files_are_short() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    assert not [f"{path}: {length}" for path, length in lengths.items() if length > LONGEST_FILE]


def test_functions_are_short() -> None:
    long = {name for name, node in functions() if (node.end_lineno or 0) - node.lineno + 1 > LONGEST_FUNCTION}
    assert long == LONG_FUNCTIONS


def test_functions_take_few_parameters() -> None:
    wrong = []
    for name, node in functions():
        if name in MANY_PARAMETERS or _is_command(node):
            continue
        positional = [each.arg for each in (*node.args.posonlyargs, *node.args.args) if each.arg not in ("self", "cls")]
        total = len(positional) + len(node.args.kwonlyargs)
        if total > MOST_PARAMETERS:
            wrong.append(f"{name} takes {total}")
    assert not wrong, "\n".join(wrong)


def _is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A command's or route's parameters are its options: click and FastAPI pass them by name."""
    decorators = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
    return any(word in decorators for word in ("option", "command", "router."))
