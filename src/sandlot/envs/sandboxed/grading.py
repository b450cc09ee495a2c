"""Grading inside of a sandbox in which an agent has worked: what it left there is material, never a verdict.

Invariants: nothing of the agent runs any more when the grader's files are laid, into a folder whose name nobody knew;
the verdict is how the grader itself ended or what it wrote meanwhile, never a mark in output that the agent can write
too; what is missing has not passed.
"""

from __future__ import annotations

import math
import posixpath
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

from sandlot.envs.sandboxed.client import AsyncSandboxClient
from sandlot.envs.sandboxed.requests import CommandTimeoutError, SandboxFileNotFoundError, author_class
from sandlot.errors import Invalid

FOLDER = "GRADING"
"""The variable in which the grader's command finds its folder."""

_CLEAR = 'chmod u+rwx "$(dirname -- "$F")" 2>/dev/null; rm -rf -- "$F"; [ ! -e "$F" ] && [ ! -L "$F" ]'
_TIMED_OUT = 124


@dataclass(frozen=True)
class Graded:
    """How a grader ended."""

    reward: float
    """From 0 to 1: 1.0 where the command succeeded, or what it wrote into the reward file."""
    code: int
    stdout: str
    stderr: str
    note: str = ""
    """Why a reward was refused."""
    report: bytes = b""
    """The report file, where one was asked for and written."""


@dataclass(frozen=True)
class Grader:
    """What grades: a script, its files, and where it writes what it found.

    The script runs in a new folder with `files` (path in the folder → content), which is `$GRADING` too. Without
    `reward_file` its exit code is the verdict. Paths of `reward_file` and `report_file` are in the folder, or absolute.
    """

    command: str
    files: Mapping[str, str | bytes] | None = None
    reward_file: str | None = None
    report_file: str | None = None
    seconds: float = 300.0


async def graded(client: AsyncSandboxClient, sandbox_id: str, grader: Grader) -> Graded:
    """Ends what the agent left running, lays the grader's files, and runs it. What the provider fails at is raised."""
    await client.stop_jobs(sandbox_id)
    folder = f"/grading-{secrets.token_hex(8)}"
    await client.execute_command(sandbox_id, f"mkdir -m 700 {folder}")
    for path, content in (grader.files or {}).items():
        inside = posixpath.normpath(posixpath.join(folder, path))
        if not inside.startswith(f"{folder}/"):
            raise Invalid(f"the grader's file {path} lies outside of its folder")
        await client.upload_bytes(sandbox_id, inside, content.encode() if isinstance(content, str) else content)
    places = [posixpath.join(folder, path) for path in (grader.reward_file, grader.report_file) if path]
    for place in places:
        cleared = await client.execute_command(sandbox_id, _CLEAR, env={"F": place})
        if cleared.exit_code:
            return Graded(0.0, cleared.exit_code, "", cleared.stderr, note=f"{place} was there and cannot be removed")
    try:
        done = await client.execute_command(
            sandbox_id, grader.command, working_dir=folder, env={FOLDER: folder}, timeout=grader.seconds
        )
    except author_class(CommandTimeoutError):
        return Graded(0.0, _TIMED_OUT, "", "", note=f"the grader took longer than {grader.seconds:g} s")
    report = await _content(client, sandbox_id, folder, grader.report_file)
    if grader.reward_file is None:
        return Graded(float(done.exit_code == 0), done.exit_code, done.stdout, done.stderr, report=report or b"")
    written = await _content(client, sandbox_id, folder, grader.reward_file)
    reward, note = _reward(written)
    return Graded(reward, done.exit_code, done.stdout, done.stderr, note=note, report=report or b"")


def tests_passed(report: bytes, expected: Iterable[str]) -> dict[str, bool]:
    """Which of the tests in `expected` passed by a JUnit report: only those that it names, and only as passed.

    A test is named as in pytest (`test_a.py::test_one`), as `class.name`, or by its bare name.
    """
    seen: dict[str, list[bool]] = {}
    try:
        cases = ElementTree.fromstring(report).iter("testcase") if report else iter(())
        for case in cases:
            name, where = case.get("name", ""), case.get("classname", "")
            passed = all(case.find(kind) is None for kind in ("failure", "error", "skipped"))
            module = where.replace(".", "/") + ".py"
            for known in {name, f"{where}.{name}", f"{where}::{name}", f"{module}::{name}"}:
                seen.setdefault(known, []).append(passed)
    except ElementTree.ParseError:
        seen = {}
    return {test: bool(seen.get(test)) and all(seen[test]) for test in expected}


async def _content(client: AsyncSandboxClient, sandbox_id: str, folder: str, path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        read = await client.read_file(sandbox_id, posixpath.join(folder, path))
    except author_class(SandboxFileNotFoundError):
        return None
    return read.content.encode()


def _reward(written: bytes | None) -> tuple[float, str]:
    if written is None:
        return 0.0, "the grader wrote no reward"
    try:
        reward = float(written)
    except ValueError:
        reward = math.nan
    if not 0.0 <= reward <= 1.0:
        return 0.0, f"the grader's reward {written[:40].decode('utf-8', 'replace')!r} is no number from 0 to 1"
    return reward, ""
