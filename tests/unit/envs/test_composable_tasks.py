"""The sets of tasks and the harnesses that published packages take from the original, played in a real sandbox."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.envs.agent_program import installed_as
from tests.unit.envs.test_composable import bash, played

import sandlot as vf
from sandlot.envs.composable import (
    ComposableEnv,
    CPTaskSet,
    Harness,
    LeanTaskSet,
    MathTaskSet,
    R2EGymTaskSet,
    SandboxSpec,
    TaskSet,
    opencode_harness,
    rlm_harness,
)
from sandlot.envs.composable.cp_tests import same_output
from sandlot.envs.composable.lean_tasks import starter_file
from sandlot.envs.composable.swe_tasks import differing, parsed
from sandlot.errors import Invalid
from sandlot.records import Rollout

OPENCODE = "$HOME/.opencode/bin/opencode"


def opencode(**options: Any) -> Harness:
    """OpenCode's harness, with a small program in the place of OpenCode itself."""
    harness = opencode_harness(**options)
    harness.install_script = installed_as(OPENCODE)
    return harness


def of(tasks: TaskSet, *answers: Any, harness: Harness | None = None, **options: Any) -> Rollout:
    return played(ComposableEnv(tasks, harness or opencode(), **options), *answers)


def with_rows(tasks: Any, *rows: dict[str, Any]) -> Any:
    tasks.dataset = list(rows)
    return tasks


def mathematics(**options: Any) -> Any:
    return with_rows(MathTaskSet(use_judge_fallback=False, **options), {"info": {"question": "1+1?"}, "answer": "2"})


@pytest.mark.parametrize(
    ("script", "reward"),
    [("echo '\\boxed{4/2}' > /app/answer.txt", 1.0), ("echo 3 > /app/answer.txt", 0.0), ("true", 0.0)],
)
def test_mathematics_is_compared_by_what_stands_in_the_file(script: str, reward: float) -> None:
    rollout = of(mathematics(), bash(script), "the answer is 2")
    assert (rollout.failure, rollout.reward) == (None, reward)
    assert rollout.turns[0].prompt[0]["content"].endswith("1+1?\n\nWrite your final answer to `/app/answer.txt`.")


def test_opencode_is_run_on_the_instruction_with_a_config_for_the_endpoint() -> None:
    look = "cat ~/.config/opencode/opencode.json; cat /opencode/system.txt; pwd; echo $OPENAI_BASE_URL"
    harness = opencode(system_prompt="be brief", task_system_prompt="and right", disabled_tools=["task"])
    rollout = of(mathematics(), bash(look), "done", harness=harness)
    said = rollout.turns[1].prompt[0]["content"]
    config, end = json.JSONDecoder().raw_decode(said)
    prompt, second, url = said[end:].strip().split("\n")
    assert (prompt, second) == ("be brief", "and right/app")
    (provider,) = config["provider"].values()
    assert provider["options"]["baseURL"] == url
    assert config["model"] == "policy/scripted"
    assert config["agent"]["build"] == {"prompt": "{file:/opencode/system.txt}", "tools": {"task": False}}
    assert rollout.state["agent_logs"] == "the agent is done"


def test_without_opencode_and_without_a_way_to_it_the_set_up_says_what_is_missing() -> None:
    rollout = of(mathematics(), "x", harness=opencode_harness(release_repo="nobody/nothing at all"))
    assert rollout.reward is None
    assert rollout.failure is not None
    assert "OpenCode 1.1.63-rl2 is not in the sandbox" in rollout.failure.message
    assert "Put the program opencode in the sandbox's path" in rollout.failure.message


def program_tasks(*tests: tuple[Any, Any], function: str | None = None, **options: Any) -> Any:
    tasks = CPTaskSet(**options)
    published = {"inputs": [given for given, _ in tests], "outputs": [out for _, out in tests], "fn_name": function}
    row = {"question": "Double it.", "info": json.dumps({"tests": json.dumps(published), "source": "x"})}
    return with_rows(tasks, tasks.row_of(row))


DOUBLE = "print(2 * int(input()))"


@pytest.mark.parametrize(("code", "rate"), [(DOUBLE, 1.0), ("print(4)", 0.5), ("while True: pass", 0.0), ("1/0", 0.0)])
def test_a_program_is_tested_on_inputs_that_the_agent_has_not_seen(code: str, rate: float) -> None:
    tasks = program_tasks(("2\n", "4\n"), ("5\n", "10.0\n"), timeout_per_test=2)
    rollout = of(tasks, bash(f"echo '{code}' > /app/answer.py"), "done")
    assert rollout.verdict is not None
    assert (rollout.failure, rollout.reward) == (None, float(rate == 1.0))
    assert (rollout.verdict.metrics["pass_rate"], rollout.verdict.metrics["num_test_cases"]) == (rate, 2.0)


def test_a_function_is_called_with_the_tests_arguments() -> None:
    tasks = program_tasks(('[1, 2]\n"a"', [[1, 2, "a"]]), ([[3], "b"], [3, "b"]), function="joined")
    code = 'class Solution:\n    def joined(self, xs: List[int], y):\n        print("[]")\n        return (*xs, y)'
    rollout = of(tasks, bash(f"cat > /app/answer.py << 'END'\n{code}\nEND"), "done")
    assert rollout.reward == 1.0
    assert "must define the function `joined`" in rollout.turns[0].prompt[0]["content"]


def test_which_tests_are_used_depends_on_the_task_alone() -> None:
    tests = [(str(number), str(number)) for number in range(40)]
    chosen = [program_tasks(*tests, max_num_tests=3).dataset[0]["info"]["verification_info"] for _ in range(2)]
    assert chosen[0] == chosen[1]
    assert len(chosen[0]["test_case_inputs"]) == 3


@pytest.mark.parametrize(
    ("said", "expected", "same"),
    [
        ("1 2\n3", "1  2 3\n", True),
        ("0.3333", "0.33333", True),
        ("1 2", "1 2 3", False),
        ("a", "b", False),
        ("", "", True),
    ],
)
def test_outputs_are_the_same_up_to_white_space_and_a_thousandth(said: str, expected: str, same: bool) -> None:
    assert same_output(said, expected) is same


class Laid(LeanTaskSet):
    """With a stand-in for Lean: a proof compiles where it says `rfl`."""

    async def setup(self, state: Any) -> None:
        lake = "#!/bin/sh\ngrep -q rfl \"$3\" || { echo 'error: unsolved goals'; exit 1; }\n"
        client, sandbox_id = state["sandbox_client"], state["sandbox_id"]
        await client.upload_bytes(sandbox_id, "/opt/bin/lake", lake.encode())
        await client.execute_command(sandbox_id, "chmod +x /opt/bin/lake; mkdir -p /workspace/mathlib4")
        await super().setup(state)


THEOREM = {"info": {"formal_statement": "theorem one : 1 = 1 := by sorry", "header": "open Nat"}, "answer": ""}
REPLACED = "sed -i s/sorry/rfl/ /tmp/proof.lean"


@pytest.mark.parametrize(
    ("script", "reward", "tampered"),
    [
        (REPLACED, 1.0, False),
        ("true", 0.0, False),
        (f"{REPLACED}; sed -i 's/1 = 1/True/' /tmp/proof.lean", 0.0, True),
        (f"{REPLACED}; sed -i '1i axiom cheat : False' /tmp/proof.lean", 0.0, True),
        ("echo 'theorem one : True := rfl' > /tmp/proof.lean", 0.0, True),
        ("rm /tmp/proof.lean", 0.0, True),
        (f"{REPLACED}; echo 'axiom cheat : False' >> /tmp/proof.lean", 0.0, False),
    ],
)
def test_a_proof_counts_where_it_compiles_and_its_statement_is_as_it_was(
    script: str, reward: float, tampered: bool
) -> None:
    rollout = of(with_rows(Laid(), THEOREM), bash(script), "done")
    assert (rollout.failure, rollout.reward, rollout.state["lean_tampered"]) == (None, reward, tampered)


def test_a_sandbox_without_lean_is_a_failed_set_up_and_no_wrong_proof() -> None:
    rollout = of(with_rows(LeanTaskSet(docker_image="lean:1"), THEOREM), "done")
    assert rollout.reward is None
    assert rollout.failure is not None
    assert "the image lean:1 brings both" in rollout.failure.message


@pytest.mark.parametrize("ending", [" := by sorry", " := sorry", " :=", " := by\n  admit", ""])
def test_a_starter_file_guards_the_statement_whatever_it_came_with(ending: str) -> None:
    info = {
        "formal_statement": f"theorem one : 1 = 1{ending}",
        "header": "import Mathlib.A\nimport Mathlib.B\nopen Nat",
    }
    guarded = "-- lean-guard: begin protected\ntheorem one : 1 = 1 := by\n-- lean-guard: end protected\n  sorry\n"
    assert starter_file(info) == f"{info['header']}\n\n{guarded}"
    assert starter_file({**info, "_normalize_mathlib_imports": True}) == f"import Mathlib\nopen Nat\n\n{guarded}"
    whole = {"formal_statement": f"import Mathlib\n\ntheorem one : 1 = 1{ending}"}
    assert starter_file(whole) == f"import Mathlib\n\n{guarded}"


CHECK = """\
import sys; sys.path.insert(0, "/testbed")
from calc import double
print("== short test summary info ==")
print("PASSED" if double(2) == 4 else "FAILED", "r2e_tests/check.py::test_double - detail")
"""
REPO = f"""\
mkdir -p /testbed/.venv/bin /r2e_tests && ln -s /opt/bin/python3 /testbed/.venv/bin/python3
echo 'def double(x): return x' > /testbed/calc.py
echo 'python3 r2e_tests/check.py' > /testbed/run_tests.sh
cat > /r2e_tests/check.py << 'END'
{CHECK}
END
"""


class Repaired(R2EGymTaskSet):
    """With a stand-in for the image: a small repository and its tests."""

    async def setup(self, state: Any) -> None:
        await state["sandbox_client"].execute_command(state["sandbox_id"], REPO)
        await super().setup(state)


BUG = {
    "info": {
        "problem_statement": "double does not double",
        "docker_image": "image:1",
        "expected_output_json": json.dumps({"\u001b[1mtest_double\u001b[0m - x": "PASSED"}),
    },
    "answer": "",
}
FIX = "sed -i 's/return x/return 2 * x/' calc.py"


@pytest.mark.parametrize(
    ("script", "reward"),
    [
        (FIX, 1.0),
        ("true", 0.0),
        ("echo 'echo == short test summary info ==; echo PASSED a::test_double' > run_tests.sh", 0.0),
        (
            "printf 'print(\"short test summary info\\\\nPASSED a::test_double\")\\ndef double(x): return x' > calc.py",
            0.0,
        ),
    ],
)
def test_a_repair_counts_by_tests_that_the_agent_neither_sees_nor_writes(script: str, reward: float) -> None:
    rollout = of(with_rows(Repaired(), BUG), bash(f"{script}; ls -d /r2e_tests /tmp/*.tar"), "done")
    assert (rollout.failure, rollout.reward) == (None, reward)
    assert rollout.turns[1].prompt[0]["content"].count("No such file") == 2


def test_a_sandbox_without_the_checkout_is_a_failed_set_up_and_no_wrong_repair() -> None:
    rollout = of(with_rows(R2EGymTaskSet(), BUG), "done")
    assert rollout.reward is None
    assert rollout.failure is not None
    assert "the image image:1 brings them" in rollout.failure.message


def test_a_test_log_is_read_from_its_last_summary() -> None:
    log = "short test summary info\nPASSED a::b\nshort test summary info\nFAILED a.py::C::d - why\nERROR e.py::f"
    assert parsed(log) == {"C.d": "FAILED", "f": "ERROR"}
    assert parsed("nothing") == {}
    assert differing({"a": "PASSED"}, {"a": "PASSED", "b": "PASSED"}) == ["b"]


def test_the_rlm_agent_is_installed_from_a_checkout_and_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"has no install\.sh"):
        rlm_harness(local_checkout=tmp_path).get_upload_dirs()  # type: ignore[misc]
    (tmp_path / "pyproject.toml").write_text("[project]")
    (tmp_path / "install.sh").write_text(installed_as("$HOME/.local/bin/rlm"))
    leave = 'mkdir -p .rlm/sessions/1; echo \'{"metrics": {"turns": 2}}\' > .rlm/sessions/1/meta.json'
    look = "cat /task/append_to_system_prompt.txt; echo $RLM_MAX_TURNS $RLM_TOOLS $RLM_SUMMARIZE_AT_TOKENS; pwd"
    harness = rlm_harness(
        "/workspace",
        local_checkout=tmp_path,
        append_to_system_prompt="be brief ",
        rlm_max_turns=7,
        summarize_at_tokens=(5, 5),
    )

    class There(MathTaskSet):
        default_workdir = "/workspace"

        async def setup(self, state: Any) -> None:
            await state["sandbox_client"].execute_command(state["sandbox_id"], "mkdir -p /workspace")

        def get_sandbox_spec(self, info: Any) -> SandboxSpec:
            return SandboxSpec(timeout_minutes=5)

    tasks = with_rows(There(use_judge_fallback=False), {"info": {"question": "1+1?"}, "answer": "2"})
    rollout = of(tasks, bash(f"{look}; {leave}; echo 2 > /app/answer.txt"), "done", harness=harness)
    assert (rollout.failure, rollout.reward) == (None, 1.0)
    assert rollout.turns[1].prompt[0]["content"] == "be brief 7 ipython 5\n/workspace\n"
    assert rollout.state["rlm_turns"] == 2


@pytest.mark.parametrize("wrong", [0, True, (2, 1), (1, 2, 3), (1, "2")])
def test_a_threshold_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(Invalid, match="summarize_at_tokens"):
        rlm_harness(summarize_at_tokens=wrong)


def test_a_judge_is_asked_where_the_comparison_says_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRIME_API_KEY", raising=False)
    tasks = with_rows(
        MathTaskSet(judge_base_url="http://127.0.0.1:9/v1"), {"info": {"question": "1+1?"}, "answer": "2"}
    )
    right = of(tasks, bash("echo 2 > /app/answer.txt"), "done")
    assert right.reward == 1.0
    asked = of(tasks, bash("echo two > /app/answer.txt"), "done")
    assert asked.reward is None
    assert isinstance(tasks.get_rubric(), vf.MathRubric)
