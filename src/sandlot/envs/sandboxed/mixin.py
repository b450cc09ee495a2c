"""What environments of the original API have who work with sandboxes: a client, hooks, and the end of each sandbox.

Invariants: a sandbox is the rollout's from the moment it is there, and the engine closes it behind the scoring, however
the rollout ends; only making and closing one are tried again, never a command.
"""

from __future__ import annotations

import asyncio
import functools
import io
import logging
import math
import tarfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from sandlot.engine import State
from sandlot.envs.decorators import teardown
from sandlot.envs.sandboxed.client import AsyncSandboxClient
from sandlot.envs.sandboxed.grading import Graded, Grader, graded
from sandlot.envs.sandboxed.requests import (
    APIError,
    CommandTimeoutError,
    DownloadTimeoutError,
    SandboxFileNotFoundError,
    SandboxInfo,
    SandboxOOMError,
    SandboxTimeoutError,
    UploadTimeoutError,
    author_class,
)
from sandlot.errors import SandboxError, SandlotError

_P = ParamSpec("_P")
_T = TypeVar("_T")

_LONGEST_DELAY = 30.0
_TRANSIENT = ("502", "503", "ConnectError", "Temporary failure in name resolution")


class SandboxCreationError(SandboxError):
    """A sandbox could not be made."""


class SandboxNotReadyError(SandboxError):
    """A sandbox was made and cannot be used."""


class SandboxSetupError(SandboxError):
    """What an environment does to a new sandbox failed."""


@dataclass(frozen=True)
class SandboxTimeouts:
    """Seconds that single operations on a sandbox may take."""

    read_file: int = 10
    extract: int = 60
    poll: int = 60
    mkdir: int = 10


def is_retryable_sandbox_api_error(exception: BaseException) -> bool:
    """Whether a provider's failure passes by itself."""
    return isinstance(exception, author_class(APIError)) and any(token in str(exception) for token in _TRANSIENT)


def is_retryable_sandbox_read_error(exception: BaseException) -> bool:
    """Whether reading or copying may be tried again."""
    kinds = tuple(author_class(kind) for kind in (CommandTimeoutError, UploadTimeoutError, DownloadTimeoutError))
    return isinstance(exception, kinds) or is_retryable_sandbox_api_error(exception)


class SandboxMixin:
    """Sandboxes for an environment: call `init_sandbox_client` when it is built and `create_sandbox` at set-up.

    `network` (default: the variable `SANDLOT_SANDBOX_NETWORK` is 1) lets commands reach the network; it can be set
    with `set_kwargs(network=True)` too.
    """

    SANDBOX_MAX_TIMEOUT_MINUTES = 24 * 60
    SANDBOX_SCORING_BUFFER_MINUTES = 60

    active_sandboxes: set[str]
    sandbox_client: AsyncSandboxClient
    timeouts: SandboxTimeouts
    sandbox_timeout_minutes: int | None = None
    network: bool | None = None
    logger: logging.Logger

    def init_sandbox_client(
        self,
        max_retries: int = 5,
        base_delay: float = 0.5,
        backoff_factor: float = 2.0,
        max_backoff_seconds: float = _LONGEST_DELAY,
        timeouts: SandboxTimeouts | None = None,
        sandbox_client: AsyncSandboxClient | None = None,
        **_: Any,
    ) -> None:
        """Makes the client. Options of the original about connections, threads and rates say nothing here."""
        self.active_sandboxes = set()
        self.timeouts = timeouts or SandboxTimeouts()
        self.sandbox_client = sandbox_client or AsyncSandboxClient(network=self.network)
        self._delays = [min(base_delay * backoff_factor**n, max_backoff_seconds) for n in range(max_retries)]

    def set_network(self, network: bool) -> None:
        """Whether commands of sandboxes that are opened from now on reach the network."""
        self.network = self.sandbox_client.network = network

    def with_retry(self, function: Callable[_P, Awaitable[_T]]) -> Callable[_P, Awaitable[_T]]:
        """`function`, called again after a failure that may pass. Not for commands: they would run twice."""

        @functools.wraps(function)
        async def retried(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            for delay in self._delays:
                try:
                    return await function(*args, **kwargs)
                except SandlotError:
                    raise  # What a person has to mend does not pass by itself.
                except Exception as error:  # boundary: the sandbox's provider
                    self.logger.warning("a sandbox's provider failed: %s; again in %g s", error, delay)
                    await asyncio.sleep(delay)
            return await function(*args, **kwargs)

        return retried

    def compute_sandbox_timeout_minutes(self) -> int:
        """How long a sandbox lives: as asked, else the rollout's own limit and an hour for scoring."""
        if self.sandbox_timeout_minutes is not None:
            return self.sandbox_timeout_minutes
        seconds: float | None = getattr(self, "timeout_seconds", None)
        if seconds is None:
            return self.SANDBOX_MAX_TIMEOUT_MINUTES
        minutes = math.ceil(seconds / 60) + self.SANDBOX_SCORING_BUFFER_MINUTES
        return min(minutes, self.SANDBOX_MAX_TIMEOUT_MINUTES)

    def register_sandbox(self, sandbox_id: str) -> None:
        """Counts a sandbox as open."""
        self.active_sandboxes.add(sandbox_id)

    def deregister_sandbox(self, sandbox_id: str) -> None:
        """Counts it as closed."""
        self.active_sandboxes.discard(sandbox_id)

    async def open_for(self, state: State, request: Any) -> SandboxInfo:
        """A sandbox that is the rollout's: `state["sandbox_id"]`, closed by the engine behind the scoring."""
        try:
            sandbox = await self.with_retry(self.sandbox_client.create)(request)
        except SandboxError as error:
            raise SandboxCreationError(f"no sandbox could be made: {error}") from error
        state.hold(functools.partial(self.delete_sandbox, sandbox.id))
        self.register_sandbox(sandbox.id)
        state["sandbox_id"] = sandbox.id
        return sandbox

    async def create_sandbox(self, state: State, request: Any) -> str:
        """A sandbox for the rollout, after `post_sandbox_setup`. `SandboxError` where any of it failed."""
        sandbox = await self.open_for(state, request)
        try:
            await self.post_sandbox_setup(state)
        except (SandboxError, SandlotError):
            raise
        except Exception as error:  # boundary: the author's set-up of a sandbox
            raise SandboxSetupError(f"the set-up of sandbox {sandbox.id} failed: {error}") from error
        return sandbox.id

    async def post_sandbox_setup(self, state: State) -> None:
        """Called when a sandbox is ready: upload files, run commands."""

    async def delete_sandbox(self, sandbox_id: str) -> None:
        """Closes a sandbox now. A failure is logged, because the rollout stands without it."""
        self.deregister_sandbox(sandbox_id)
        try:
            await self.sandbox_client.delete(sandbox_id)
        except SandboxError as error:
            self.logger.warning("sandbox %s could not be closed: %s", sandbox_id, error)

    async def bulk_delete_sandboxes(self, sandbox_ids: list[str]) -> None:
        """Closes several sandboxes now."""
        for sandbox_id in sandbox_ids:
            await self.delete_sandbox(sandbox_id)

    async def grade(self, state: State, grader: Grader) -> Graded:
        """Runs a grader in the rollout's sandbox, for a reward function: its files are laid now, when nothing of the
        agent runs any more, and what the agent left is no verdict."""
        return await graded(self.sandbox_client, state["sandbox_id"], grader)

    async def run_background_job(
        self,
        state: State,
        command: str,
        timeout: int,
        working_dir: str | None = None,
        poll_interval: int = 3,
    ) -> Any:
        """A script in the background, to its end. `SandboxError` where the sandbox itself ended."""
        try:
            return await self.sandbox_client.run_background_job(
                state["sandbox_id"], command, timeout, working_dir, poll_interval=poll_interval
            )
        except author_class(SandboxOOMError) as error:
            state["sandbox_oom"] = True
            raise SandboxError(str(error)) from error
        except author_class(SandboxTimeoutError) as error:
            state["sandbox_timeout"] = True
            raise SandboxError(str(error)) from error

    async def upload_file(self, sandbox_id: str, remote_path: str, local_path: str) -> None:
        """Copies a file of this machine into the sandbox."""
        await self.sandbox_client.upload_file(sandbox_id, remote_path, local_path)

    async def upload_content(self, sandbox_id: str, content: str, remote_path: str) -> None:
        """Writes a text to a file of the sandbox."""
        await self.sandbox_client.upload_bytes(sandbox_id, remote_path, content.encode(), Path(remote_path).name)

    async def upload_bundle(self, sandbox_id: str, file_map: Mapping[str, str], dest_dir: str) -> None:
        """Writes texts to files below `dest_dir`, by their paths there."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for path, content in file_map.items():
                entry = tarfile.TarInfo(name=path)
                entry.size = len(content.encode())
                archive.addfile(entry, io.BytesIO(content.encode()))
        bundle = f"{dest_dir}/_bundle.tar.gz"
        await self.sandbox_client.upload_bytes(sandbox_id, bundle, packed.getvalue())
        script = f"tar -xzf {bundle} --no-same-owner -C {dest_dir} && rm -f {bundle}"
        done = await self.sandbox_client.execute_command(sandbox_id, script, timeout=self.timeouts.extract)
        if done.exit_code:
            raise SandboxError(f"files could not be laid in {dest_dir} of sandbox {sandbox_id}: {done.stderr[:200]}")

    async def read_file(self, sandbox_id: str, remote_path: str, timeout: int | None = None) -> str | None:
        """A file's text; None where it cannot be read."""
        try:
            read = await self.sandbox_client.read_file(sandbox_id, remote_path)
        except (author_class(SandboxFileNotFoundError), SandlotError, SandboxError) as error:
            self.logger.debug("%s of sandbox %s cannot be read: %s", remote_path, sandbox_id, error)
            return None
        return read.content

    def teardown_sandboxes(self) -> None:
        """Called before every sandbox that is still open is closed."""

    def teardown_sandbox_client(self) -> None:
        """Called after every sandbox is closed."""

    @teardown(priority=-10)
    async def teardown_mixin_sandboxes(self) -> None:
        """Closes every sandbox that the environment opened without a rollout."""
        self.teardown_sandboxes()
        await self.sandbox_client.aclose()
        self.active_sandboxes.clear()
        self.teardown_sandbox_client()
