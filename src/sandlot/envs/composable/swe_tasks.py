"""Repairs of real repositories: the agent works in a checkout, and the repository's tests decide.

Invariants: the tests and the script that runs them leave the sandbox before the agent comes, and are laid anew after
it has stopped; a sandbox without the checkout fails in set-up and is never a wrong repair.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from sandlot.engine import State
from sandlot.envs.composable.leftovers import place_of
from sandlot.envs.composable.loading import made, published
from sandlot.envs.composable.tasks import SandboxSpec, SandboxTaskSet, TaskSet
from sandlot.envs.rubric import Rubric, Score
from sandlot.envs.sandboxed import CommandTimeoutError
from sandlot.envs.sandboxed.requests import author_class
from sandlot.errors import Invalid, SandboxError

_TESTS = "/r2e_tests"
_STASH = "/tmp/tests-of-the-task.tar"
_LARGEST = 256_000_000
_SUMMARY = "short test summary info"
_COLOR = re.compile(r"\x1b\[\d+m")
_PATH = (
    "/opt/miniconda3/bin:{repo}/.venv/bin:/root/.local/bin:/root/.cargo/bin:/go/bin:/usr/local/go/bin:/usr/local/cargo:"
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)


def make_swe_taskset(backend: str = "r2e", **options: Any) -> TaskSet:
    """The set of repairs of that name. `Invalid` where there is none here."""
    if backend not in _BACKENDS:
        raise Invalid(
            f"there is no set of repairs {backend!r} here; there is {', '.join(_BACKENDS)}",
            hint="others need a grader of their own: subclass SandboxTaskSet",
        )
    return _BACKENDS[backend](**options)


def make_r2e_taskset(**options: Any) -> TaskSet:
    """The repairs of R2E-Gym."""
    return R2EGymTaskSet(**options)


class R2ERubric(Rubric):
    """1.0 where every test ends as it does with the real repair."""

    def __init__(self, taskset: R2EGymTaskSet, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.taskset = taskset
        self.add_reward_func(self.solved)

    async def solved(self, state: State, info: dict[str, Any]) -> Score:
        """Whether the repository's tests end as they should."""
        seconds = float(state.get("test_timeout") or 900)
        try:
            state["test_output"] = output = await self.taskset.run_tests(state, seconds)
        except author_class(CommandTimeoutError):
            return Score(0.0, feedback=f"the tests took longer than {seconds:g} s")
        expected = json.loads(info["expected_output_json"])
        wrong = differing(parsed(output), {_plain(name): str(status) for name, status in expected.items()})
        return Score(float(not wrong), feedback=f"not as expected: {', '.join(wrong[:5])}" if wrong else None)


class R2EGymTaskSet(SandboxTaskSet):
    """Repairs of R2E-Gym. Each needs its own image, with the checkout at `repo_path` and the tests beside it."""

    default_workdir = "/testbed"

    def __init__(
        self,
        dataset_name: str = "R2E-Gym/R2E-Gym-Subset",
        repo_path: str = "/testbed",
        alt_path: str = "/root",
        filter_repos: list[str] | None = None,
        filter_fn: str | None = None,
        ds_num_proc: int | None = None,
        ds_keep_in_memory: bool = True,
        timeout_minutes: int | None = None,
        hide_tests_from_agent: bool = True,
    ) -> None:
        left_out = frozenset(filter_repos or ())

        def read() -> Any:
            rows = published(dataset_name, None, "train", keep_in_memory=ds_keep_in_memory, num_proc=ds_num_proc)
            kept = rows.filter(lambda row: row.get("repo_name") not in left_out) if left_out else rows
            return made(kept, _row)

        super().__init__(read, name="swe/r2e", filter_fn=filter_fn)
        self.repo_path, self.alt_path, self.timeout_minutes = repo_path, alt_path, timeout_minutes
        self.hide_tests_from_agent = hide_tests_from_agent

    def get_instruction(self, info: dict[str, Any]) -> str:
        """What is wrong with the repository."""
        return str(info["problem_statement"])

    def get_sandbox_spec(self, info: dict[str, Any]) -> SandboxSpec:
        """One with the task's image."""
        return SandboxSpec(image=str(info["docker_image"]), timeout_minutes=self.timeout_minutes)

    def get_workdir(self, info: dict[str, Any]) -> str:
        """The checkout."""
        return self.repo_path

    def get_env_vars(self) -> dict[str, str]:
        """The checkout's own programs first, and no pager."""
        path = _PATH.format(repo=self.repo_path)
        return {"PATH": path, "PAGER": "cat", "MANPAGER": "cat", "LESS": "-R", "PIP_PROGRESS_BAR": "off"}

    async def setup(self, state: State) -> None:
        """Makes the checkout's Python everybody's, and takes the tests away. `SandboxError` without a checkout."""
        repo, home = self.repo_path, self.alt_path
        image = (state.get("info") or {}).get("docker_image")
        await _run(
            state,
            f"test -d {repo}/.venv && test -d {_TESTS} && test -f {repo}/run_tests.sh",
            wrong=f"the sandbox has no checkout at {repo} with .venv, run_tests.sh and, at {_TESTS}, its tests; the "
            f"image {image} brings them, and images are not fetched here",
        )
        links = f"mkdir -p {home}/.local/bin && ln -sfn {repo}/.venv {home}/.venv"
        programs = f"find {repo}/.venv/bin -executable -exec ln -sfn {{}} {home}/.local/bin/ \\;"
        caches = f"find {repo} {_TESTS} -name __pycache__ -type d -prune -exec rm -rf {{}} +"
        await _run(state, f"{links} && {programs} && {caches}", wrong="the checkout's Python could not be linked")
        if not self.hide_tests_from_agent:
            await _run(state, f"cp -r {_TESTS} {repo}/r2e_tests", wrong="the tests could not be laid")
            return
        packed = f"tar -cf {_STASH} -C / {_TESTS[1:]} -C {repo} run_tests.sh"
        await _run(state, packed, wrong="the tests could not be packed")
        client, sandbox_id = place_of(state)
        state["_tests_of_the_task"] = await client.sandbox_of(sandbox_id).read(_STASH, limit=_LARGEST)
        await _run(state, f"rm -rf {_TESTS} {_STASH}", wrong="the tests could not be taken away")

    async def run_tests(self, state: State, seconds: float) -> str:
        """What the tests say. Nothing of the agent runs any more. `CommandTimeoutError` after `seconds`."""
        client, sandbox_id = place_of(state)
        await client.stop_jobs(sandbox_id)
        repo = self.repo_path
        packed = state.pop("_tests_of_the_task", None)
        if packed is not None:
            await client.upload_bytes(sandbox_id, _STASH, packed)
            laid = f"rm -rf {repo}{_TESTS} {repo}/run_tests.sh && tar -xf {_STASH} -C {repo} && rm {_STASH}"
            await _run(state, laid, wrong="the tests could not be laid")
        done = await client.execute_command(
            sandbox_id, "bash run_tests.sh 2>&1", working_dir=repo, env=self.get_env_vars(), timeout=seconds
        )
        return str(done.stdout)

    def get_rubric(self) -> R2ERubric:
        """The repository's tests."""
        return R2ERubric(self)


def parsed(log: str) -> dict[str, str]:
    """Each test of pytest's last summary and how it ended. What was printed before that counts for nothing."""
    _, found, summary = log.rpartition(_SUMMARY)
    ended: dict[str, str] = {}
    for line in summary.splitlines() if found else ():
        status = next((word for word in ("PASSED", "FAILED", "ERROR") if word in line), None)
        if status is not None:
            ended[_plain(".".join(line.split("::")[1:]))] = status
    return ended


def differing(ended: Mapping[str, str], expected: Mapping[str, str]) -> list[str]:
    """The tests that ended otherwise than expected, or that only one of the two knows."""
    return sorted(name for name in ended.keys() | expected.keys() if name and ended.get(name) != expected.get(name))


def _plain(name: str) -> str:
    return _COLOR.sub("", name).split(" - ")[0].strip()


def _row(row: dict[str, Any]) -> dict[str, Any]:
    info = {**row, "instance_id": row.get("commit_hash"), "repo": row.get("repo_name")}
    return {"question": row["problem_statement"], "info": info, "answer": ""}


async def _run(state: State, script: str, *, wrong: str) -> None:
    client, sandbox_id = place_of(state)
    done = await client.execute_command(sandbox_id, script, timeout=300)
    if done.exit_code:
        raise SandboxError(f"{wrong}{': ' + done.stderr.strip()[-300:] if done.stderr.strip() else ''}")


_BACKENDS: dict[str, Callable[..., TaskSet]] = {"r2e": make_r2e_taskset}
