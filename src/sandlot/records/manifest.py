"""What a release says about itself, written when it is built.

The static part (`project`, `files`, `digest`) can be derived again from the artefacts and the hub does so. The probed
part comes from running the publisher's code on the publisher's machine, so it is only *declared*.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from sandlot.records.message import JsonObject, Tool


class ReleaseFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An artefact of a release."""

    name: str
    kind: Literal["wheel", "sdist"]
    size: int
    sha256: str


class Project(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The package's own metadata, as its wheel has it."""

    name: str
    version: str
    summary: str = ""
    requires_python: str = ""
    dependencies: list[str] = []
    license: str = ""
    tags: list[str] = []
    readme: str = ""
    urls: dict[str, str] = {}


class RewardInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One reward or metric of an environment."""

    name: str
    weight: float = 1.0
    description: str = ""


class Split(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One set of tasks. `size` is None where the set is endless or was not counted."""

    name: str
    size: int | None = None


class Probe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was seen when the environment was loaded: declared by the publisher, not checked by the hub."""

    kind: str = ""
    """single-turn, multi-turn, tool or harness."""
    max_turns: int | None = None
    tools: list[Tool] = []
    rewards: list[RewardInfo] = []
    splits: list[Split] = []
    sample_tasks: list[JsonObject] = []
    """Up to ten: {"id", "prompt": messages as the model sees them}."""
    system_prompt: str = ""
    secrets: list[str] = []
    """Names of the environment variables it needs."""
    sandbox: bool = False
    eval_defaults: JsonObject = {}
    failure: str | None = None
    """Why the probe saw nothing."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One release in full."""

    schema: int = 1
    project: Project
    files: list[ReleaseFile] = []
    digest: str = ""
    """Over the wheel's unpacked entries: publishing unchanged content gives the same digest."""
    sdk: str = ""
    probe: Probe | None = None
