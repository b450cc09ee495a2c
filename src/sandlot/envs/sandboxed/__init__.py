"""Environments of the original API whose agents work in sandboxes, on the sandbox port."""

from sandlot.envs.sandboxed.client import AsyncSandboxClient
from sandlot.envs.sandboxed.grading import Graded, Grader, tests_passed
from sandlot.envs.sandboxed.mixin import (
    SandboxCreationError,
    SandboxMixin,
    SandboxNotReadyError,
    SandboxSetupError,
    SandboxTimeouts,
    is_retryable_sandbox_api_error,
    is_retryable_sandbox_read_error,
)
from sandlot.envs.sandboxed.python_env import (
    PythonEnv,
    PythonWorkerDeadError,
    PythonWorkerNotReadyError,
    PythonWorkerRequestError,
    PythonWorkerState,
)
from sandlot.envs.sandboxed.requests import (
    AdvancedConfigs,
    APIError,
    BackgroundJob,
    BackgroundJobStatus,
    CommandResponse,
    CommandTimeoutError,
    CreateSandboxRequest,
    DownloadTimeoutError,
    FileUploadResponse,
    SandboxFileNotFoundError,
    SandboxImagePullError,
    SandboxNotRunningError,
    SandboxOOMError,
    SandboxTimeoutError,
    UploadTimeoutError,
)
from sandlot.envs.sandboxed.sandbox_env import SandboxEnv, SandboxState
from sandlot.envs.sandboxed.sync_client import APIClient, SandboxClient

ThreadedAsyncSandboxClient = AsyncSandboxClient

__all__ = [
    "APIClient",
    "APIError",
    "AdvancedConfigs",
    "AsyncSandboxClient",
    "BackgroundJob",
    "BackgroundJobStatus",
    "CommandResponse",
    "CommandTimeoutError",
    "CreateSandboxRequest",
    "DownloadTimeoutError",
    "FileUploadResponse",
    "Graded",
    "Grader",
    "PythonEnv",
    "PythonWorkerDeadError",
    "PythonWorkerNotReadyError",
    "PythonWorkerRequestError",
    "PythonWorkerState",
    "SandboxClient",
    "SandboxCreationError",
    "SandboxEnv",
    "SandboxFileNotFoundError",
    "SandboxImagePullError",
    "SandboxMixin",
    "SandboxNotReadyError",
    "SandboxNotRunningError",
    "SandboxOOMError",
    "SandboxSetupError",
    "SandboxState",
    "SandboxTimeoutError",
    "SandboxTimeouts",
    "ThreadedAsyncSandboxClient",
    "UploadTimeoutError",
    "is_retryable_sandbox_api_error",
    "is_retryable_sandbox_read_error",
    "tests_passed",
]
