"""The client that authors of the original API drive sandboxes with, on the sandbox port.

Invariants: a command is started at most once, whatever becomes of the answer; what the provider failed at is raised
and is never output; whoever closes the client closes every sandbox that it opened.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sandlot.envs.sandboxed.interpreter import PACKAGES, PROGRAMS, interpreter
from sandlot.envs.sandboxed.requests import (
    BackgroundJob,
    BackgroundJobStatus,
    CommandResponse,
    CommandTimeoutError,
    FileUploadResponse,
    ReadFileResponse,
    SandboxFileNotFoundError,
    SandboxInfo,
    SandboxNotRunningError,
    SandboxTimeoutError,
    author_class,
    provider_failed,
)
from sandlot.errors import Invalid, NotFound, SandboxError
from sandlot.sandboxes import Command, ExecResult, Job, Limits, Sandbox, SandboxConfig, open_sandbox

NETWORK = "SANDLOT_SANDBOX_NETWORK"
"""With `1` in this variable commands reach the network, in environments that have no option for it."""

_LOG = logging.getLogger("sandlot.envs")
_HOME = "/root"
_SECONDS = 300.0
_OUTPUT_KB = 10_240
_PROCESSES = 1024
_IDLE = ("", "tail -f /dev/null", "sleep infinity")
"""Start commands that only keep a container alive, which a sandbox here needs nothing for."""
_OURS = ("python:", "python@", "ubuntu", "debian")
"""Images that stand for a system with Python, which is what a sandbox here has anyway."""

Opener = Callable[[SandboxConfig], Awaitable[Sandbox]]


class AsyncSandboxClient:
    """Sandboxes by their ids.

    An image is a name here and is never fetched: commands see this machine's programs, read-only, with `python`, and
    files of their own everywhere else. Other images than Python's are named once in a warning. Without `network`
    (default: the variable `SANDLOT_SANDBOX_NETWORK` is 1) commands reach no network. `packages` are bound beside
    Python's own library. Options of the original about connections and threads say nothing here.
    """

    def __init__(
        self,
        *_: Any,
        network: bool | None = None,
        read_only: Mapping[str, str] | None = None,
        wrapper: Sequence[str] = (),
        opener: Opener = open_sandbox,
        **__: Any,
    ) -> None:
        self.network = os.environ.get(NETWORK) == "1" if network is None else network
        self.read_only = dict(read_only or {})
        self.wrapper = tuple(wrapper)
        """Words before every command and job, such as a program that opens a way out for it."""
        self._opener = opener
        self._open: dict[str, _Opened] = {}
        self._told: set[str] = set()

    async def create(self, request: Any) -> SandboxInfo:
        """Opens a sandbox for a `CreateSandboxRequest`. As `open_sandbox`; `Invalid` where it asks for a GPU."""
        self._tell(request)
        sandbox = await self._opener(self._config(request))
        minutes = getattr(request, "timeout_minutes", None) or 60
        opened = _Opened(sandbox, request, until=time.monotonic() + 60 * minutes)
        self._open[sandbox.id] = opened
        try:
            await self._furnish(opened)
        except BaseException:
            await self.delete(sandbox.id)
            raise
        return opened.info

    async def wait_for_creation(self, sandbox_id: str, max_attempts: int = 60, **_: Any) -> None:
        """Returns at once: a sandbox is ready when it is created."""
        self._of(sandbox_id)

    async def get(self, sandbox_id: str) -> SandboxInfo:
        """A sandbox that is open."""
        return self._of(sandbox_id).info

    async def list(self, **_: Any) -> list[SandboxInfo]:
        """All that are open."""
        return [opened.info for opened in self._open.values()]

    async def execute_command(
        self,
        sandbox_id: str,
        command: str,
        working_dir: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **_: Any,
    ) -> CommandResponse:
        """Runs a script. `CommandTimeoutError` after `timeout` seconds, `SandboxNotRunningError` where it is closed."""
        seconds = _SECONDS if timeout is None else float(timeout)
        result = await self._run(sandbox_id, self._command(command, working_dir, env, seconds=seconds))
        if result.timed_out:
            raise author_class(CommandTimeoutError)(sandbox_id, command, seconds)
        return CommandResponse(stdout=result.stdout, stderr=result.stderr, exit_code=result.code)

    async def start_background_job(
        self,
        sandbox_id: str,
        command: str,
        working_dir: str | None = None,
        env: Mapping[str, str] | None = None,
        **_: Any,
    ) -> BackgroundJob:
        """Starts a script in the background. It ends with the sandbox at the latest."""
        opened = self._of(sandbox_id)
        try:
            job = await opened.sandbox.start(self._command(command, working_dir, env))
        except SandboxError as error:
            raise provider_failed(error) from error
        opened.jobs[job.id] = job
        return BackgroundJob(job_id=job.id, sandbox_id=sandbox_id)

    async def get_background_job(
        self, sandbox_id: str, job: BackgroundJob, timeout: float | None = None, **_: Any
    ) -> BackgroundJobStatus:
        """How far a job is."""
        running = self.job_of(sandbox_id, job.job_id)
        try:
            return _status(job.job_id, running.poll())
        except SandboxError as error:
            raise provider_failed(error) from error

    async def run_background_job(
        self,
        sandbox_id: str,
        command: str,
        timeout: float = 900,
        working_dir: str | None = None,
        env: Mapping[str, str] | None = None,
        poll_interval: float = 3,
        **_: Any,
    ) -> BackgroundJobStatus:
        """A script in the background, to its end. `CommandTimeoutError` after `timeout` seconds."""
        result = await self._run(sandbox_id, self._command(command, working_dir, env, seconds=float(timeout)))
        if result.timed_out:
            raise author_class(CommandTimeoutError)(sandbox_id, command, timeout)
        return _status("", result)

    async def stop_jobs(self, sandbox_id: str) -> None:
        """Ends every job of a sandbox with its children, so that nothing of the agent runs while it is graded."""
        for job in self._of(sandbox_id).jobs.values():
            await job.kill()

    async def upload_bytes(
        self, sandbox_id: str, file_path: str, file_bytes: bytes, filename: str = "", **_: Any
    ) -> FileUploadResponse:
        """Writes a file, and the folders that it is in."""
        try:
            await self._of(sandbox_id).sandbox.write(file_path, file_bytes)
        except SandboxError as error:
            raise provider_failed(error) from error
        return FileUploadResponse(success=True, path=file_path, size=len(file_bytes))

    async def upload_file(self, sandbox_id: str, file_path: str, local_file_path: str, **_: Any) -> FileUploadResponse:
        """Copies a file of this machine to `file_path`. `NotFound` where there is none."""
        try:
            await self._of(sandbox_id).sandbox.upload(Path(local_file_path), file_path)
        except SandboxError as error:
            raise provider_failed(error) from error
        return FileUploadResponse(success=True, path=file_path, size=await asyncio.to_thread(_size, local_file_path))

    async def download_file(self, sandbox_id: str, file_path: str, local_file_path: str, **_: Any) -> None:
        """Copies `file_path` to this machine. `SandboxFileNotFoundError` where there is none."""
        await self._given(sandbox_id, file_path, lambda box: box.download(file_path, Path(local_file_path)))

    async def read_file(self, sandbox_id: str, file_path: str, **_: Any) -> ReadFileResponse:
        """A file's text. `SandboxFileNotFoundError` where there is none."""
        content = await self._given(sandbox_id, file_path, lambda box: box.read(file_path))
        return ReadFileResponse(content=content.decode("utf-8", "replace"), size=len(content))

    async def delete(self, sandbox_id: str) -> None:
        """Closes a sandbox; one that is closed already is none of anybody's business."""
        opened = self._open.pop(sandbox_id, None)
        if opened is not None:
            await opened.sandbox.close()

    async def bulk_delete(self, sandbox_ids: Sequence[str] = (), **_: Any) -> None:
        """Closes several, also where one cannot be closed; the first failure is raised last."""
        ended = await asyncio.gather(*map(self.delete, sandbox_ids), return_exceptions=True)
        for failure in ended:
            if isinstance(failure, BaseException):
                raise failure

    async def aclose(self) -> None:
        """Closes every sandbox that is open."""
        await self.bulk_delete(list(self._open))

    def teardown(self, wait: bool = True) -> None:
        """The original's end of its threads, of which there are none; sandboxes are closed by `aclose`."""

    def sandbox_of(self, sandbox_id: str) -> Sandbox:
        """The sandbox itself, with the whole of its port. `SandboxNotRunningError` where it is closed."""
        return self._of(sandbox_id).sandbox

    def job_of(self, sandbox_id: str, job_id: str) -> Job:
        """A job itself. `NotFound` where there is none of that id."""
        jobs = self._of(sandbox_id).jobs
        if job_id not in jobs:
            raise NotFound(f"there is no job {job_id} in sandbox {sandbox_id}")
        return jobs[job_id]

    # Insides

    def _of(self, sandbox_id: str) -> _Opened:
        opened = self._open.get(sandbox_id)
        if opened is None:
            raise author_class(SandboxNotRunningError)(sandbox_id, "TERMINATED")
        if time.monotonic() > opened.until:
            raise author_class(SandboxTimeoutError)(sandbox_id, "TIMEOUT")
        return opened

    async def _run(self, sandbox_id: str, command: Command) -> ExecResult:
        opened = self._of(sandbox_id)
        try:
            return await opened.sandbox.run(command)
        except SandboxError as error:
            if sandbox_id not in self._open:
                raise author_class(SandboxNotRunningError)(sandbox_id, "TERMINATED") from error
            raise provider_failed(error) from error

    async def _given(self, sandbox_id: str, path: str, call: Callable[[Sandbox], Awaitable[Any]]) -> Any:
        try:
            return await call(self._of(sandbox_id).sandbox)
        except NotFound as error:
            raise author_class(SandboxFileNotFoundError)(f"there is no {path} in sandbox {sandbox_id}") from error
        except SandboxError as error:
            raise provider_failed(error) from error

    def _command(
        self, script: str, working_dir: str | None, env: Mapping[str, str] | None, *, seconds: float | None = None
    ) -> Command:
        call = (*self.wrapper, "bash", "-c", script)
        return Command(call, cwd=working_dir, environment=dict(env or {}), seconds=seconds)

    def _config(self, request: Any) -> SandboxConfig:
        minutes = getattr(request, "timeout_minutes", None) or 60
        megabytes = int(1024 * (getattr(request, "memory_gb", None) or 2))
        disk = int(1024 * (getattr(request, "disk_size_gb", None) or 5))
        _, python = interpreter()
        allowed = getattr(request, "network_access", None)
        return SandboxConfig(
            network=self.network and allowed is not False,
            workdir=_HOME,
            environment={
                "PATH": f"{PROGRAMS}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "PYTHONPATH": PACKAGES,
                "PYTHONDONTWRITEBYTECODE": "1",
                **(getattr(request, "environment_vars", None) or {}),
            },
            read_only={**python, **self.read_only},
            limits=Limits(
                seconds=_SECONDS,
                cpu_seconds=max(600, 60 * minutes),
                memory_mb=megabytes,
                address_space=False,
                processes=_PROCESSES,
                file_mb=disk,
                disk_mb=disk,
                output_kb=_OUTPUT_KB,
            ),
        )

    async def _furnish(self, opened: _Opened) -> None:
        """What an image would bring: `python` under its plain name, a few folders, and the image's own program."""
        python, _ = interpreter()
        links = [f"ln -s {python} {PROGRAMS}/{name}" for name in ("python", "python3") if python]
        await opened.sandbox.run(Command.shell("; ".join([f"mkdir -p {PROGRAMS} /app /home /srv", *links])))
        start = (getattr(opened.request, "start_command", None) or "").strip()
        if start not in _IDLE:
            job = await opened.sandbox.start(self._command(start, None, None))
            opened.jobs[job.id] = job

    def _tell(self, request: Any) -> None:
        image = str(getattr(request, "docker_image", "") or "")
        if getattr(request, "gpu_count", 0):
            raise Invalid(
                f"{image or 'the sandbox'} asks for {request.gpu_count} GPUs, and sandboxes on this machine have none",
                hint="give gpu_count=0, or play the environment where its own sandboxes are",
            )
        if image and not image.startswith(_OURS) and image not in self._told:
            self._told.add(image)
            _LOG.warning(
                "the image %s is not fetched: its sandboxes see this machine's programs, read-only, so what the image "
                "would bring has to be installed here",
                image,
            )


class _Opened:
    """A sandbox that is open."""

    def __init__(self, sandbox: Sandbox, request: Any, *, until: float) -> None:
        self.sandbox, self.request, self.until = sandbox, request, until
        self.jobs: dict[str, Job] = {}
        self.info = SandboxInfo(
            id=sandbox.id,
            name=str(getattr(request, "name", "")),
            docker_image=str(getattr(request, "docker_image", "")),
        )


def _size(path: str) -> int:
    return os.stat(path).st_size


def _status(job_id: str, result: ExecResult | None) -> BackgroundJobStatus:
    if result is None:
        return BackgroundJobStatus(job_id=job_id, completed=False)
    return BackgroundJobStatus(
        job_id=job_id, completed=True, exit_code=result.code, stdout=result.stdout, stderr=result.stderr
    )
