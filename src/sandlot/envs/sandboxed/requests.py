"""What authors of the original API hand to a sandbox's client and get from it, and what it raises.

Invariants: names and fields are those of the original's client; where that client's package is in use beside Sandlot,
what is raised is of its classes too, so that an author's `except` catches it.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass, field, replace
from typing import Any

from sandlot.errors import SandboxError

_ORIGINAL = "prime_sandboxes"


@dataclass
class AdvancedConfigs:
    """Settings of remote machines, which say nothing here."""

    sandbox_idle_timeout: int | None = None


@dataclass
class CreateSandboxRequest:
    """What a sandbox is to be like. `docker_image` is a name; see `AsyncSandboxClient` for what becomes of it."""

    name: str = "sandbox"
    docker_image: str = "python:3.11-slim"
    start_command: str | None = "tail -f /dev/null"
    cpu_cores: float = 1
    memory_gb: float = 2
    disk_size_gb: float = 5
    gpu_count: int = 0
    gpu_type: str | None = None
    vm: bool = False
    network_access: bool | None = None
    timeout_minutes: int = 60
    environment_vars: dict[str, str] | None = None
    secrets: dict[str, str] | None = None
    labels: list[str] = field(default_factory=list)
    team_id: str | None = None
    advanced_configs: Any = None
    registry_credentials_id: str | None = None
    region: str | None = None

    def model_copy(self, *, update: dict[str, Any] | None = None, deep: bool = False) -> CreateSandboxRequest:
        """A copy with some fields changed."""
        return replace(copy.deepcopy(self) if deep else self, **(update or {}))


@dataclass(frozen=True)
class SandboxInfo:
    """A sandbox as the client lists it."""

    id: str
    name: str
    docker_image: str
    status: str = "RUNNING"


@dataclass(frozen=True)
class CommandResponse:
    """How a command ended."""

    stdout: str
    stderr: str
    exit_code: int


@dataclass(frozen=True)
class FileUploadResponse:
    """What was uploaded."""

    success: bool
    path: str
    size: int


@dataclass(frozen=True)
class ReadFileResponse:
    """A file's text."""

    content: str
    size: int


@dataclass(frozen=True)
class BackgroundJob:
    """A command that runs in the background."""

    job_id: str
    sandbox_id: str
    stdout_log_file: str = ""
    stderr_log_file: str = ""
    exit_file: str = ""


@dataclass(frozen=True)
class BackgroundJobStatus:
    """How far it is."""

    job_id: str
    completed: bool
    exit_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None


class APIError(Exception):
    """The provider failed."""


class SandboxFileNotFoundError(APIError):
    """There is no such file."""


class SandboxNotRunningError(RuntimeError):
    """The sandbox is closed, or never was."""

    def __init__(
        self, sandbox_id: str, status: str | None = None, *_: Any, message: str | None = None, **__: Any
    ) -> None:
        self.sandbox_id, self.status = sandbox_id, status
        super().__init__(message or f"sandbox {sandbox_id} is not running ({status or 'closed'})")


class SandboxOOMError(SandboxNotRunningError):
    """It took too much memory."""


class SandboxTimeoutError(SandboxNotRunningError):
    """Its time was up."""


class SandboxImagePullError(SandboxNotRunningError):
    """Its image could not be had."""


class _TimedOut(RuntimeError):
    def __init__(self, sandbox_id: str, subject: str, timeout: float) -> None:
        super().__init__(f"{subject!r} took longer than {timeout:g} s in sandbox {sandbox_id}")


class CommandTimeoutError(_TimedOut):
    """A command took too long and was killed."""

    def __init__(self, sandbox_id: str, command: str, timeout: float) -> None:
        super().__init__(sandbox_id, command, timeout)


class UploadTimeoutError(_TimedOut):
    """An upload took too long."""

    def __init__(self, sandbox_id: str, file_path: str, timeout: float) -> None:
        super().__init__(sandbox_id, file_path, timeout)


class DownloadTimeoutError(_TimedOut):
    """A download took too long."""

    def __init__(self, sandbox_id: str, file_path: str, timeout: float) -> None:
        super().__init__(sandbox_id, file_path, timeout)


def author_class(own: type[Exception]) -> type[Exception]:
    """The class that an author imported under the name of `own`: the original's where that package is in use."""
    theirs = getattr(sys.modules.get(_ORIGINAL), own.__name__, None)
    return theirs if isinstance(theirs, type) and issubclass(theirs, Exception) else own


def provider_failed(error: SandboxError) -> Exception:
    """A failure of the provider: an `APIError` to an author who catches it, the rollout's `SandboxError` otherwise."""
    kind = author_class(APIError)
    both: type[Exception] = type("SandboxAPIError", (SandboxError, kind), {"__init__": _text_alone})
    return both(str(error))


def _text_alone(self: Exception, text: str) -> None:
    Exception.__init__(self, text)
