"""Sets of tasks and harnesses, played with a small agent program in a real sandbox."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.envs.agent_program import installed_as
from tests.unit.envs.playing import calls, play_tasks

import sandlot as vf
from sandlot.envs.composable import (
    ComposableEnv,
    CPTaskSet,
    Harness,
    LeanTaskSet,
    MathTaskSet,
    R2EGymTaskSet,
    SandboxSpec,
    SandboxTaskSet,
    TaskSet,
    make_swe_taskset,
    opencode_harness,
    rlm_harness,
)
from sandlot.envs.original import answer_for_verifiers
from sandlot.errors import Invalid
from sandlot.records import Rollout

AT_HOME = "$HOME/agent"


def bash(command: str) -> vf.Message:
    return calls(("bash", json.dumps({"command": command})))


class Writing(SandboxTaskSet):
    """The agent is to write a word to a file."""

    def __init__(self, *rows: dict[str, Any], **options: Any) -> None:
        super().__init__(list(rows) or [{"info": {"word": "pear"}, "answer": "pear"}], **options)

    def get_instruction(self, info: dict[str, Any]) -> str:
        return f"Write {info['word']} to /app/word."

    def get_sandbox_spec(self, info: dict[str, Any]) -> SandboxSpec:
        return SandboxSpec(memory_gb=1, disk_size_gb=1)

    def get_env_vars(self) -> dict[str, str]:
        return {"FRUIT": "1"}

    async def setup(self, state: Any) -> None:
        await state["sandbox_client"].execute_command(state["sandbox_id"], "echo laid > /app/laid")

    def get_rubric(self) -> vf.Rubric:
        return Reading()


class Reading(vf.Rubric):
    """Reads the file when the agent has stopped, and deletes the sandbox as rubrics of the original do."""

    def __init__(self) -> None:
        super().__init__()
        self.add_reward_func(self.written)

    async def written(self, state: Any, answer: str) -> float:
        found = await state["sandbox_client"].execute_command(state["sandbox_id"], "cat /app/word")
        return float(found.stdout.strip() == answer)

    @vf.cleanup
    async def cleanup_sandbox(self, state: Any) -> None:
        await state["sandbox_client"].delete(state["sandbox_id"])


def harness(**options: Any) -> Harness:
    run = f"{AT_HOME} < /task/instruction.md | tee /tmp/agent.log"
    return Harness(**{"install_script": installed_as(AT_HOME), "run_command": run, **options})


def played(env: vf.Environment, *answers: Any) -> Rollout:
    (rollout,) = play_tasks(env, *answers, retries=0)
    return rollout


def test_the_agents_calls_are_the_turns_and_what_it_left_is_scored() -> None:
    env = ComposableEnv(Writing(), harness(log_path="/tmp/agent.log", tool_names=["bash"]))
    rollout = played(env, bash("cat /app/laid; pwd; echo $FRUIT$AGENT_WORKDIR; echo pear > /app/word"), "written")
    assert (rollout.failure, rollout.reward, rollout.stop) == (None, 1.0, "agent_completed")
    first, second = rollout.turns
    assert first.prompt == [{"role": "user", "content": "Write pear to /app/word."}]
    assert (second.parent, [message["role"] for message in second.prompt]) == (0, ["tool"])
    assert second.prompt[0]["content"].splitlines() == ["laid", "/root", "1/app"]
    assert [tool.name for tool in rollout.tools] == ["bash"]
    assert rollout.state["agent_logs"] == "the agent is done"
    assert rollout.verdict is not None
    assert rollout.verdict.metrics["bash_calls"] == 1.0
    assert rollout.verdict.metrics["agent_error"] == 0.0


def test_what_the_agent_was_given_stands_where_the_harness_says(tmp_path: Path) -> None:
    (tmp_path / "skill").mkdir()
    (tmp_path / "skill" / "SKILL.md").write_text("how to")
    (tmp_path / "skill" / "__pycache__").mkdir()
    tasks = Writing()
    tasks.get_skills_dir = lambda: tmp_path  # type: ignore[method-assign]
    given = harness(
        system_prompt="be brief",
        system_prompt_path="/task/system.txt",
        skills_path="/task/skills",
        post_install_uploads={"/task/more": "more"},
        post_install_script="cat /task/more > /task/after",
        metrics_path="{workdir}/sessions/*/meta.json",
        metrics_key="metrics",
        metrics_prefix="rlm_",
        environment_vars=lambda state: {"DEPTH": str(len(state["prompt"]))},
    )
    look = "cat /task/system.txt /task/after; find /task/skills -type f -o -name __pycache__; echo $DEPTH"
    leave = 'mkdir -p /app/sessions/x; echo \'{"metrics": {"turns": 2, "name": "x"}}\' > /app/sessions/x/meta.json'
    rollout = played(ComposableEnv(tasks, given), bash(f"{look}; {leave}"), "ok")
    assert rollout.turns[1].prompt[0]["content"] == "be briefmore/task/skills/skill/SKILL.md\n1\n"
    assert (rollout.state["rlm_turns"], rollout.state["rlm_name"]) == (2, "x")
    assert rollout.verdict is not None
    assert rollout.verdict.metrics["rlm_turns"] == 2.0


def test_an_agent_that_cannot_be_installed_or_run_is_a_failure_and_no_answer() -> None:
    absent = played(ComposableEnv(Writing(), harness(install_script="echo no such program >&2; exit 3")), "ok")
    assert (absent.reward, absent.status) == (None, "errored")
    assert absent.failure is not None
    assert absent.failure.message == "the agent could not be installed (exit code 3): no such program"
    mute = played(ComposableEnv(Writing(), harness(run_command="no-such-agent")), "ok")
    assert mute.failure is not None
    assert mute.failure.boundary == "infrastructure"
    assert "exit code 127 before it called the policy" in mute.failure.message
    assert "no-such-agent" in mute.failure.message


def test_an_agent_that_breaks_after_its_first_turn_is_scored_as_graded() -> None:
    rollout = played(ComposableEnv(Writing(), harness(run_command=f"{AT_HOME} hello; exit 7")), "I give up")
    assert (rollout.reward, rollout.state["agent_exit_code"]) == (0.0, 7)
    assert rollout.verdict is not None
    assert rollout.verdict.metrics["agent_error"] == 1.0


@pytest.mark.parametrize(
    ("limit", "stop"), [({"max_turns": 2}, "max_turns_reached"), ({"timeout_seconds": 6.0}, "timeout")]
)
def test_an_agent_that_does_not_stop_is_ended_and_scored(limit: dict[str, Any], stop: str) -> None:
    again = bash("echo pear > /app/word; sleep 1")
    rollout = played(ComposableEnv(Writing(), harness(), **limit), again)
    assert (rollout.failure, rollout.reward, rollout.stop) == (None, 1.0, stop)


def test_a_policy_that_fails_is_the_policys_failure_and_the_sandbox_is_closed() -> None:
    env = ComposableEnv(Writing(), harness())
    rollout = played(env, vf.ModelError("the endpoint is away"))
    assert rollout.failure is not None
    assert rollout.failure.message == "the endpoint is away"
    assert env.active_sandboxes == set()


def test_turns_that_the_harness_leaves_out_are_on_record_and_not_in_the_trajectory() -> None:
    seen: list[Any] = []

    class Counted(Reading):
        async def written(self, state: Any, answer: str) -> float:
            seen.append(len(state["trajectory"]))
            return 1.0

    given = harness(keep_trajectory_step=lambda step, state, headers: "authorization" not in headers)
    rollout = played(ComposableEnv(Writing(), given, rubric=Counted()), bash("true"), "ok")
    assert (seen, len(rollout.turns), rollout.reward) == ([0], 2, 1.0)


def test_a_variable_that_would_hide_the_endpoint_is_refused() -> None:
    given = harness(environment_vars=lambda state: {"OPENAI_BASE_URL": "http://elsewhere"})
    rollout = played(ComposableEnv(Writing(), given), "ok")
    assert rollout.failure is not None
    assert "the harness sets OPENAI_BASE_URL" in rollout.failure.message


def test_a_set_of_tasks_is_read_filtered_and_taken_from() -> None:
    rows = [{"info": json.dumps({"word": word}), "answer": word} for word in ("fig", "pear", "plum")]
    tasks = Writing(*rows, filter_fn="lambda row: len(row['answer']) == 4")
    assert [task.answer for task in tasks] == ["pear", "plum"]
    assert [task.answer for task in tasks.take(1)] == ["pear"]
    assert [task.answer for task in tasks.filter(lambda row: row["answer"] == "plum")] == ["plum"]
    assert (tasks[0].prompt[0].content, tasks[0].image, tasks[0].workdir) == (
        "Write pear to /app/word.",
        "python:3.11-slim",
        "/app",
    )
    with pytest.raises(Invalid, match="no Python expression"):
        Writing(filter_fn="lambda row")
    with pytest.raises(Invalid, match="Plain does not say what is to be done"):
        type("Plain", (TaskSet,), {})([{}])[0]


def test_the_names_of_the_original_lead_here() -> None:
    answer_for_verifiers()
    root = "verifiers.envs.experimental.composable"
    wanted = {
        root: {"ComposableEnv": ComposableEnv, "Harness": Harness, "TaskSet": TaskSet},
        f"{root}.task": {"SandboxSpec": SandboxSpec, "SandboxTaskSet": SandboxTaskSet},
        f"{root}.harnesses.opencode": {"opencode_harness": opencode_harness},
        f"{root}.harnesses.rlm": {"rlm_harness": rlm_harness, "DEFAULT_RLM_MAX_TURNS": 100},
        f"{root}.tasksets.cp": {"CPTaskSet": CPTaskSet},
        f"{root}.tasksets.lean": {"LeanTaskSet": LeanTaskSet},
        f"{root}.tasksets.math": {"MathTaskSet": MathTaskSet},
        f"{root}.tasksets.swe": {"make_swe_taskset": make_swe_taskset},
    }
    for module, names in wanted.items():
        for name, value in names.items():
            assert getattr(importlib.import_module(module), name) == value
    assert len(importlib.import_module(f"{root}.harnesses.opencode").DEFAULT_DISABLED_TOOLS) > 10
    assert isinstance(make_swe_taskset("r2e"), R2EGymTaskSet)
    with pytest.raises(Invalid, match="no set of repairs 'swebench' here; there is r2e"):
        make_swe_taskset("swebench")
