"""The harness of the RLM agent, a program that is installed from a checkout of its repository.

Invariants: the checkout is a folder of this machine that is laid in the sandbox, so that no key for the repository
gets there; a git address is fetched once for each revision and kept.
"""

from __future__ import annotations

import hashlib
import os
import random
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sandlot.engine import State
from sandlot.envs.composable.harness import Harness
from sandlot.envs.composable.tasks import Folder
from sandlot.errors import Invalid, MissingDependency
from sandlot.records import text_of

DEFAULT_RLM_REPO_URL = "github.com/PrimeIntellect-ai/rlm-harness.git"
DEFAULT_RLM_REF = "main"
DEFAULT_RLM_MAX_TURNS = 100
DEFAULT_RLM_EXEC_TIMEOUT = 300
DEFAULT_RLM_MAX_DEPTH = 0
DEFAULT_RLM_CHECKOUT_PATH = "/tmp/rlm-checkout"
DEFAULT_RLM_CHECKOUT_UPLOAD_NAME = "rlm_checkout"
DEFAULT_APPEND_TO_SYSTEM_PROMPT_PATH = "/task/append_to_system_prompt.txt"

_NEEDED = ("install.sh", "pyproject.toml")
_FETCH_SECONDS = 300


def rlm_harness(
    workdir: str = "/testbed",
    instruction_path: str = "/task/instruction.md",
    rlm_repo_url: str = DEFAULT_RLM_REPO_URL,
    rlm_ref: str = DEFAULT_RLM_REF,
    rlm_max_turns: int = DEFAULT_RLM_MAX_TURNS,
    rlm_exec_timeout: int = DEFAULT_RLM_EXEC_TIMEOUT,
    rlm_max_depth: int = DEFAULT_RLM_MAX_DEPTH,
    summarize_at_tokens: int | Sequence[int] | None = None,
    include_sub_rlm_trajectories: bool = False,
    append_to_system_prompt: str | None = None,
    local_checkout: str | Path | None = None,
    gh_token: str | None = None,
    rlm_tools: list[str] | None = None,
) -> Harness:
    """The RLM agent. `local_checkout` is a checkout of its repository; without one it is fetched at the first rollout.

    `summarize_at_tokens` may be two numbers: the threshold is then drawn between them, the same for every rollout of a
    task. Turns of agents that the agent itself starts stand in the trajectory only with `include_sub_rlm_trajectories`.
    """
    tools = ["ipython"] if rlm_tools is None else list(rlm_tools)
    variables = {
        "RLM_TOOLS": ",".join(tools),
        "RLM_MAX_TURNS": str(rlm_max_turns),
        "RLM_EXEC_TIMEOUT": str(rlm_exec_timeout),
        "RLM_MAX_DEPTH": str(rlm_max_depth),
    }
    threshold = _threshold_of(summarize_at_tokens)

    def upload_dirs() -> dict[str, Folder] | None:
        found = resolve_local_checkout(local_checkout, rlm_repo_url=rlm_repo_url, rlm_ref=rlm_ref, gh_token=gh_token)
        return {DEFAULT_RLM_CHECKOUT_UPLOAD_NAME: found}

    def variables_of(state: State) -> dict[str, str]:
        at = threshold(state)
        return variables if at is None else {**variables, "RLM_SUMMARIZE_AT_TOKENS": str(at)}

    return Harness(
        install_script=f"bash -l {shlex.quote(DEFAULT_RLM_CHECKOUT_PATH)}/install.sh",
        run_command=_run_command(instruction_path, workdir),
        system_prompt=append_to_system_prompt,
        system_prompt_path=DEFAULT_APPEND_TO_SYSTEM_PROMPT_PATH,
        instruction_path=instruction_path,
        skills_path="/task/rlm-skills",
        get_upload_dirs=upload_dirs,
        upload_dir_mapping={DEFAULT_RLM_CHECKOUT_UPLOAD_NAME: DEFAULT_RLM_CHECKOUT_PATH},
        metrics_path="{workdir}/.rlm/sessions/*/meta.json",
        metrics_key="metrics",
        metrics_prefix="rlm_",
        tool_names=tools,
        environment_vars=variables_of,
        keep_trajectory_step=None if include_sub_rlm_trajectories else _by_the_agent_itself,
    )


def resolve_local_checkout(
    local_checkout: str | Path | None = None,
    *,
    rlm_repo_url: str = DEFAULT_RLM_REPO_URL,
    rlm_ref: str = DEFAULT_RLM_REF,
    gh_token: str | None = None,
) -> Path:
    """The agent's folder on this machine. `Invalid` where it is none, or cannot be fetched; then it is not here."""
    if local_checkout is not None:
        return _checked(Path(local_checkout).expanduser().resolve(), str(local_checkout))
    name = hashlib.sha256(f"{rlm_repo_url}\0{rlm_ref}".encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sandlot" / "rlm-checkouts" / name
    if not cache.is_dir():
        _fetch(rlm_repo_url, rlm_ref, gh_token=gh_token, target=cache)
    return _checked(cache, f"{rlm_repo_url} at {rlm_ref}")


def _run_command(instruction_path: str, workdir: str) -> str:
    script = f"""\
set -eo pipefail
export PATH="$HOME/.local/bin:$PATH" RLM_MODEL="$OPENAI_MODEL" OPENAI_API_KEY="${{OPENAI_API_KEY:-intercepted}}"
export RLM_APPEND_TO_SYSTEM_PROMPT="$(cat {DEFAULT_APPEND_TO_SYSTEM_PROMPT_PATH} 2> /dev/null || true)"
cd "${{AGENT_WORKDIR:-{workdir}}}"
rlm "$(cat {shlex.quote(instruction_path)})"
"""
    return f"bash -lc {shlex.quote(script)}"


def _checked(folder: Path, source: str) -> Path:
    missing = [name for name in _NEEDED if not (folder / name).is_file()]
    if missing:
        raise Invalid(
            f"the RLM agent is installed from a checkout with {' and '.join(_NEEDED)}; {source} has no {missing[0]}",
            hint="give rlm_local_checkout, or local_checkout, a folder with both",
        )
    return folder


def _fetch(url: str, ref: str, *, gh_token: str | None, target: Path) -> None:
    """Lays one revision of a repository at `target`, whole or not at all. The key is in no file and no argument."""
    git = shutil.which("git")
    if git is None:
        raise MissingDependency("the RLM agent is fetched with git, which is not here", hint="or give local_checkout")
    target.parent.mkdir(parents=True, exist_ok=True)
    address = url if "://" in url or url.startswith("/") else f"https://{url}"
    variables = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    if gh_token:
        variables |= {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.https://x-access-token:{gh_token}@github.com/.insteadOf",
            "GIT_CONFIG_VALUE_0": "https://github.com/",
        }
    with tempfile.TemporaryDirectory(dir=target.parent) as workplace:
        folder = Path(workplace, "checkout")
        steps = (["init", "-q", str(folder)], ["-C", str(folder), "fetch", "-q", "--depth", "1", address, ref])
        for step in (*steps, ["-C", str(folder), "checkout", "-q", "FETCH_HEAD"]):
            try:
                done = subprocess.run(
                    [git, *step], env=variables, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False
                )
            except subprocess.TimeoutExpired:
                raise Invalid(f"{url} could not be fetched within {_FETCH_SECONDS} s") from None
            if done.returncode:
                raise Invalid(
                    f"the RLM agent could not be fetched from {url} at {ref}: {done.stderr.strip()[-300:]}",
                    hint="give rlm_local_checkout a checkout of it, or GH_TOKEN a key that may read it",
                )
        shutil.rmtree(folder / ".git")
        try:
            folder.rename(target)
        except OSError:
            if not target.is_dir():  # Another process was quicker, which is as good.
                raise


def _by_the_agent_itself(step: dict[str, Any], state: State, headers: Mapping[str, str]) -> bool:
    """Whether a call came from the agent and not from one that it started: the agent says how deep it is."""
    return headers.get("x-rlm-depth", "0") == "0"


def _threshold_of(given: int | Sequence[int] | None) -> Callable[[State], int | None]:
    if given is None:
        return lambda state: None
    bounds = [given, given] if isinstance(given, int) else list(given)
    whole = all(isinstance(bound, int) and not isinstance(bound, bool) for bound in bounds)
    if len(bounds) != 2 or not whole or not 0 < bounds[0] <= bounds[1]:
        raise Invalid(f"summarize_at_tokens is {given!r}; it is a positive number, or two, the smaller one first")

    def drawn(state: State) -> int:
        prompt = "\0".join(text_of(message.get("content")) for message in state["prompt"])
        return random.Random(prompt).randint(*bounds)

    return drawn
