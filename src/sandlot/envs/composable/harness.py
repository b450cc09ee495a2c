"""How an agent program gets into a sandbox, is started there, and what it leaves, under the original's names.

Invariants: a harness is data; it knows paths in the sandbox and nothing of the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sandlot.engine import State
from sandlot.envs.composable.tasks import Folder, SandboxSpec

KeepStep = Callable[[dict[str, Any], State, Mapping[str, str]], bool]
"""Whether a step belongs to the trajectory: the step, the state, and the headers of the request that it answers."""


@dataclass
class Harness:
    """An agent program."""

    install_script: str | None = None
    """Installs it, once in each sandbox. Exit code 0 says that it is there."""
    install_timeout: int = 300
    run_command: str = ""
    """Runs it to its end. It reads the paths below, and calls `$OPENAI_BASE_URL`."""
    system_prompt: str | None = None
    system_prompt_path: str = "/task/system_prompt.txt"
    instruction_path: str = "/task/instruction.md"
    log_path: str | None = None
    """Its log, which stands in `state["agent_logs"]` afterwards."""
    sandbox_spec: SandboxSpec | None = None
    """The sandbox for tasks that need none."""
    skills_path: str | None = None
    """Where the skills of a set of tasks are laid."""
    upload_dir_mapping: dict[str, str] | None = None
    """Where folders of the tasks and of the harness are laid, by their names."""
    get_upload_dirs: Callable[[], dict[str, Folder] | None] | None = None
    """The harness' own folders, by their names."""
    metrics_path: str | None = None
    """A JSON file that it leaves, with `*` for what is not known before; `{workdir}` is the task's folder."""
    metrics_prefix: str = ""
    metrics_key: str | None = None
    """The key of the file under which the metrics stand; None is the file itself."""
    metrics_keys: list[str] | None = None
    """The metrics that are taken; None is all."""
    tool_names: list[str] | None = None
    """Tools whose calls are counted."""
    environment_vars: Callable[[State], dict[str, str]] | None = None
    """Variables of a rollout."""
    post_install_uploads: dict[str, str] | None = None
    """Texts that are written to paths after it was installed."""
    post_install_script: str | None = None
    """Runs after those are there."""
    keep_trajectory_step: KeepStep | None = None
    """Says which turns stand in `state["trajectory"]`, such as not those of agents that the agent called. The rollout's
    record has all of them."""

    def get_effective_upload_dir_mapping(self) -> dict[str, str] | None:
        """Where folders are laid, the skills among them."""
        skills = {"skills": self.skills_path} if self.skills_path else {}
        return {**skills, **(self.upload_dir_mapping or {})} or None
