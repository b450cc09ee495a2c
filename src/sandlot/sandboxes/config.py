"""What a sandbox is to be like, and what a command in it may use up.

Invariants: the default gives no network and a bound on everything; reading a config starts nothing.
"""

from __future__ import annotations

from pydantic import Field

from sandlot.config import Config


class Limits(Config):
    """What a command may use up."""

    seconds: float = Field(default=30.0, gt=0)
    """Seconds that a command may take where it does not say itself."""

    cpu_seconds: int = Field(default=600, gt=0)
    """CPU seconds that each process may use."""

    memory_mb: int = Field(default=2048, gt=0)
    """Memory in MB, of each process (address space) and of a command's processes together (resident)."""

    address_space: bool = True
    """Whether `memory_mb` also bounds what a process reserves. Programs in Node, Go or Java reserve far more than they
    use: with `false`, what they use is bounded, looked at five times a second."""

    processes: int = Field(default=128, gt=1)
    """Processes and threads that a command may have at one time."""

    file_mb: int = Field(default=512, gt=0)
    """Size in MB of the largest file that a command may write."""

    disk_mb: int = Field(default=2048, gt=0)
    """MB that the files of the sandbox may take together; looked at while commands run."""

    output_kb: int = Field(default=256, gt=0)
    """KB that are kept of stdout and of stderr each; of more, the first and the last half are kept."""


class SandboxConfig(Config):
    """What a sandbox is to be like."""

    backend: str = "bubblewrap"
    """Where it runs: `bubblewrap`, or the name of another entry point of the group `sandlot.sandboxes`."""

    network: bool = False
    """Whether commands reach the network of this machine."""

    environment: dict[str, str] = Field(default_factory=dict)
    """Variables that every command sees. Nothing of this process's own environment is passed on."""

    workdir: str = "/workspace"
    """The folder in which commands start."""

    read_only: dict[str, str] = Field(default_factory=dict)
    """More of this machine that commands may read: the path inside and the file or folder here; an empty text is an
    empty folder, which hides what would be seen at that path."""

    limits: Limits = Field(default_factory=Limits)
    """What a command may use up."""
