"""Environments of the original API that work in sandboxes, as an author writes them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.envs.playing import calls, play_tasks

import sandlot as vf
from sandlot.engine import PlayPolicy, Request, play_all
from sandlot.envs.sandboxed import AsyncSandboxClient, CommandTimeoutError, CreateSandboxRequest
from sandlot.errors import Invalid
from sandlot.records import Message, Rollout, Sampling
from sandlot.sandboxes import SandboxConfig
from sandlot.testing import MemorySandbox, ScriptedModel

ROWS = [{"question": "?", "answer": "x"}]


def bash(command: str) -> Message:
    return calls(("bash", json.dumps({"command": command})))


def python(code: str) -> Message:
    return calls(("python", json.dumps({"code": code})))


def one(state: vf.State) -> float:
    return 1.0


def said(rollout: Rollout) -> list[str]:
    return [str(message["content"]) for turn in rollout.turns for message in turn.prompt if message["role"] == "tool"]


class Memory:
    """Sandboxes in memory, kept to be looked at."""

    def __init__(self, **options: Any) -> None:
        self.made: list[MemorySandbox] = []
        self.options = options

    async def open(self, config: SandboxConfig) -> MemorySandbox:
        async def script(sandbox: MemorySandbox, command: Any) -> tuple[int, bytes, bytes]:
            return 0, f"ran {command.argv[-1]}\n".encode(), b""

        box = MemorySandbox(config, programs={"bash": script, "sh": script}, **self.options)
        self.made.append(box)
        return box

    @property
    def client(self) -> AsyncSandboxClient:
        return AsyncSandboxClient(opener=self.open)

    @property
    def all_closed(self) -> bool:
        return bool(self.made) and all(not box.files and box._closed for box in self.made)


def env_with(memory: Memory, **options: Any) -> vf.SandboxEnv:
    return vf.SandboxEnv(
        **{"dataset": ROWS, "rubric": vf.Rubric([one]), "sandbox_client": memory.client, "max_retries": 0, **options}
    )


def test_a_model_works_in_a_sandbox_of_its_rollouts_own_whose_files_last() -> None:
    env = vf.SandboxEnv(dataset=ROWS, rubric=vf.Rubric([one]))
    played = play_tasks(env, bash("echo one > a; pwd"), bash("cat a; echo bad >&2; exit 3"), "done", count=1)[0]
    assert played.failure is None
    assert said(played) == ["/root", "one\nstderr:\nbad"]
    assert played.verdict is not None
    assert played.verdict.metrics["bash_calls"] == 2.0
    assert played.verdict.metrics["sandbox_command_execution_time"] > 0
    assert not env.active_sandboxes


def test_a_command_that_takes_too_long_is_told_to_the_model_and_the_sandbox_goes_on() -> None:
    env = vf.SandboxEnv(dataset=ROWS, rubric=vf.Rubric([one]), timeout_per_command_seconds=0.5)
    played = play_tasks(env, bash("touch a; sleep 60"), bash("ls"), "done")[0]
    assert said(played) == ["Error: Command timed out after 0.5s", "a"]


def test_python_keeps_its_variables_and_says_what_went_wrong() -> None:
    env = vf.PythonEnv(
        dataset=ROWS, rubric=vf.Rubric([one]), pip_install_packages="", timeout_per_command_seconds=2, max_turns=20
    )
    played = play_tasks(
        env,
        python("x = 1\nprint('a')\nx + 1"),
        python("1 / 0"),
        python("import os; os.system('echo child'); open('f', 'w').write('kept'); x"),
        python("while True: pass"),
        python("x"),
        python("os = __import__('os'); os._exit(3)"),
        python("open('f').read()"),
        "done",
    )[0]
    outputs = said(played)
    assert outputs[0] == "a\nOut[1]: 2"
    assert outputs[1].endswith("ZeroDivisionError: division by zero")
    assert outputs[2] == "child\nOut[3]: 1"
    assert outputs[3].startswith("Error: the code took longer than 2 s and was killed. Python was started anew")
    assert outputs[4].endswith("NameError: name 'x' is not defined")
    assert outputs[5].startswith("Error: the code ended Python")
    assert outputs[6] == "Out[7]: 'kept'"
    assert list(env.tool_map) == ["python"]


def test_packages_that_are_not_here_are_named_when_the_environment_is_built() -> None:
    with pytest.warns(UserWarning, match="cannot import no-such-package"):
        vf.PythonEnv(dataset=ROWS, rubric=vf.Rubric([one]), pip_install_packages="no-such-package")


def test_hooks_of_an_author_see_the_sandbox_while_it_is_open_and_the_engine_closes_it() -> None:
    memory = Memory()
    seen: list[str] = []

    class Mine(vf.SandboxEnv):
        def get_sandbox_request(self, state: vf.State) -> CreateSandboxRequest:
            return super().get_sandbox_request(state).model_copy(update={"environment_vars": {"TASK": state["answer"]}})

        async def post_rollout(self, state: vf.State) -> None:
            await self.sandbox_client.upload_bytes(state["sandbox_id"], "/left", b"by post_rollout", "left")

    async def reward(state: vf.State) -> float:
        read = await env.sandbox_client.read_file(state["sandbox_id"], "/left")
        seen.append(read.content)
        return 1.0

    env = Mine(dataset=ROWS, rubric=vf.Rubric([reward]), sandbox_client=memory.client)
    played = play_tasks(env, bash("true"), "done")[0]
    assert played.reward == 1.0
    assert seen == ["by post_rollout"]
    assert memory.made[0].config.environment["TASK"] == "x"
    assert memory.all_closed


class Breaks(vf.SandboxEnv):
    """Raises where it is told to."""

    where = ""

    async def setup_state(self, state: vf.State, **kwargs: Any) -> vf.State:
        state = await super().setup_state(state, **kwargs)
        self._break("setup")
        return state

    async def env_response(self, messages: Any, state: vf.State, **kwargs: Any) -> Any:
        self._break("play")
        return await super().env_response(messages, state, **kwargs)

    async def post_rollout(self, state: vf.State) -> None:
        self._break("cleanup")

    def _break(self, where: str) -> None:
        if self.where == where:
            raise ValueError(f"broke in {where}")


@pytest.mark.parametrize("where", ["setup", "play", "cleanup", "scoring"])
def test_the_sandbox_is_closed_wherever_an_author_breaks_the_rollout(where: str) -> None:
    memory = Memory()

    def reward(state: vf.State) -> float:
        env._break("scoring")
        return 1.0

    env = Breaks(dataset=ROWS, rubric=vf.Rubric([reward]), sandbox_client=memory.client)
    env.where = where
    played = play_tasks(env, bash("true"), "done", retries=1, scoring_retries=1)[0]
    assert played.failure is not None or (played.verdict and played.verdict.failure is not None)
    assert memory.all_closed
    assert not env.active_sandboxes


@pytest.mark.parametrize("grouped", [False, True])
async def test_the_sandboxes_are_closed_where_the_run_is_cancelled(grouped: bool) -> None:
    memory = Memory()

    def together(states: Sequence[vf.State]) -> list[float]:
        return [0.0 for _ in states]

    env = env_with(memory, rubric=vf.Rubric([together if grouped else one]))
    asked: list[Any] = []
    all_asked = asyncio.Event()

    async def answer(messages: Any) -> Any:
        asked.append(messages)
        if len(asked) == 4:
            all_asked.set()
        if len(asked) > 1:
            await asyncio.sleep(300)
        return "done"

    task = next(iter(env.playable.tasks("eval")))
    running = asyncio.create_task(
        play_all(
            env.playable,
            [[Request(task=task, index=index, seed=0) for index in range(4)]],
            model=ScriptedModel(answer),
            sampling=Sampling(),
            policy=PlayPolicy(max_concurrent=4),
            on_rollout=lambda rollout: None,
        )
    )
    async with asyncio.timeout(20):
        await all_asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(memory.made) == 4
    assert memory.all_closed


def test_what_the_provider_fails_at_ends_the_rollout_and_is_no_output() -> None:
    memory = Memory()

    async def dies(messages: Any) -> Any:
        memory.made[-1].failing = "the node is gone"
        return bash("true")

    env = env_with(memory)
    task = next(iter(env.playable.tasks("eval")))
    played: list[Rollout] = []
    asyncio.run(
        play_all(
            env.playable,
            [[Request(task=task, index=0, seed=0)]],
            model=ScriptedModel(dies),
            sampling=Sampling(),
            policy=PlayPolicy(retries=2),
            on_rollout=played.append,
        )
    )
    failure = played[0].failure
    assert failure is not None
    assert (failure.boundary, played[0].reward, played[0].attempt) == ("sandbox", None, 3)
    assert "the node is gone" in failure.message
    assert memory.all_closed


def test_an_error_that_an_author_puts_into_the_state_is_how_the_rollout_ended() -> None:
    memory = Memory()

    class Gives(vf.SandboxEnv):
        async def post_rollout(self, state: vf.State) -> None:
            state["error"] = vf.SandboxError("the tests could not be run")

    env = Gives(dataset=ROWS, rubric=vf.Rubric([one]), sandbox_client=memory.client)
    played = play_tasks(env, "done", retries=0)[0]
    assert played.failure is not None
    assert (played.failure.boundary, played.failure.message) == ("sandbox", "the tests could not be run")
    assert played.reward is None


async def test_the_client_has_what_authors_call_on_it() -> None:
    client = AsyncSandboxClient()
    box = await client.create(CreateSandboxRequest(name="mine", environment_vars={"A": "b"}))
    try:
        done = await client.execute_command(box.id, "echo $A; pwd; exit 3", working_dir="/tmp", timeout=20)
        assert (done.stdout, done.exit_code) == ("b\n/tmp\n", 3)
        job = await client.start_background_job(box.id, "echo out; echo err >&2; sleep 0.2; exit 3")
        assert not (await client.get_background_job(box.id, job)).completed
        await client.job_of(box.id, job.job_id).wait()
        status = await client.get_background_job(box.id, job)
        assert status.completed
        assert (status.exit_code, status.stdout, status.stderr) == (3, "out\n", "err\n")
        with pytest.raises(CommandTimeoutError):
            await client.execute_command(box.id, "sleep 60", timeout=0.2)
        with pytest.raises(CommandTimeoutError):
            await client.run_background_job(box.id, "sleep 60", timeout=0.2)
        assert [each.name for each in await client.list()] == ["mine"]
    finally:
        await client.aclose()
    with pytest.raises(RuntimeError, match="not running"):
        await client.execute_command(box.id, "true")


def test_a_gpu_is_refused_and_an_image_is_said_not_to_be_fetched(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", logger="sandlot.envs"):
        play_tasks(env_with(Memory(), docker_image="some/agent:1"), "done", count=2)
    assert caplog.text.count("the image some/agent:1 is not fetched") == 1
    played = play_tasks(env_with(Memory(), gpu_count=1), "done", retries=0)[0]
    assert played.failure is not None
    assert played.failure.type == Invalid.__name__
    assert "1 GPUs" in played.failure.message


def test_a_network_is_reached_only_where_the_environment_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SANDLOT_SANDBOX_NETWORK", raising=False)
    memory = Memory()
    env = env_with(memory)
    play_tasks(env, "done")
    env.set_kwargs(network=True)
    play_tasks(env, "done")
    assert [box.config.network for box in memory.made] == [False, True]
