"""Theorems that the agent proves in Lean 4, in a file that is there from the start.

Invariants: the statement and all that stands before it must be as they were laid, else there is no reward; a sandbox
without Lean fails in set-up and is never a wrong proof.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any

from sandlot.engine import State
from sandlot.envs.composable.leftovers import file_left, place_of
from sandlot.envs.composable.loading import made, published
from sandlot.envs.composable.tasks import SandboxSpec, SandboxTaskSet
from sandlot.envs.rubric import Rubric, Score
from sandlot.envs.sandboxed import CommandTimeoutError
from sandlot.envs.sandboxed.requests import author_class
from sandlot.errors import Invalid, SandboxError

LEAN_PROJECT_PATH = "/workspace/mathlib4"
PROOF_FILE_PATH = "/tmp/proof.lean"
LEAN_GUARD_BEGIN_MARKER = "-- lean-guard: begin protected"
LEAN_GUARD_END_MARKER = "-- lean-guard: end protected"
LEAN_SYSTEM_PROMPT = f"""\
You prove a theorem in Lean 4 with Mathlib. Its statement stands in {PROOF_FILE_PATH}, with `sorry` for the proof.

Work in this loop: read the file, write a proof in place of `sorry`, compile it with
`cd {LEAN_PROJECT_PATH} && lake env lean {PROOF_FILE_PATH}`, read what the compiler says, and go on until it says
nothing. Compile after every change. A proof that you have not compiled does not count, nor does one with `sorry`,
`admit` or an axiom of your own. Make one tool call at a time.

Leave every line up to `{LEAN_GUARD_END_MARKER}` as it is, the marks included, and write below it only: a file whose
statement was changed earns nothing."""

_CANDIDATES = ("formal_statement", "statement", "theorem")
_CHEATS = re.compile(r"\b(?:sorry|admit|axiom|warn\.sorry|debug\.skipKernelTC)\b")
_DECLARATION = re.compile(r"^(?:theorem|lemma|example)\s", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*|/-.*?-/", re.DOTALL)


@dataclass(frozen=True)
class _Preset:
    name: str
    split: str = "train"
    header: str | None = None
    label: str | None = None
    one_import: bool = False


PRESETS = {
    "goedel-pset": _Preset("Goedel-LM/Goedel-Pset-v1"),
    "numina-lean": _Preset("AI-MO/NuminaMath-LEAN", label="uuid"),
    "deepseek-prover-v1": _Preset("deepseek-ai/DeepSeek-Prover-V1", header="header", label="name"),
    "kimina": _Preset("AI-MO/Kimina-Prover-Promptset", label="name"),
    "minif2f": _Preset("cat-searcher/minif2f-lean4", "test", header="header", label="id", one_import=True),
    "deepseek-proverbench": _Preset("deepseek-ai/DeepSeek-ProverBench", header="header", label="name"),
}
"""Published sets of theorems."""


class LeanRubric(Rubric):
    """1.0 where the file compiles, and is still about the theorem."""

    def __init__(self, taskset: LeanTaskSet, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.taskset = taskset
        self.add_reward_func(self.solved)

    async def solved(self, state: State, info: dict[str, Any]) -> Score:
        """Whether the theorem is proved."""
        state.update(lean_tampered=False, lean_compiled=False)
        text = await file_left(state, self.taskset.proof_file_path) or ""
        laid = starter_file(info)
        head = laid[: laid.index(LEAN_GUARD_END_MARKER) + len(LEAN_GUARD_END_MARKER)]
        if not text.startswith(head):
            state["lean_tampered"] = True
            return Score(0.0, feedback="the statement, or what stands before it, was changed")
        cheat = _CHEATS.search(_COMMENT.sub("", text[len(head) :]))
        if cheat:
            return Score(0.0, feedback=f"the proof uses {cheat.group()!r}")
        client, sandbox_id = place_of(state)
        try:
            done = await client.execute_command(
                sandbox_id, self.taskset.compile_command, timeout=float(self.taskset.compile_timeout)
            )
        except author_class(CommandTimeoutError):
            return Score(0.0, feedback=f"the compiler took longer than {self.taskset.compile_timeout} s")
        state["compile_output"] = output = done.stdout + done.stderr
        compiled = done.exit_code == 0 and not re.search(r"declaration uses .sorry", output)
        state["lean_compiled"] = compiled
        return Score(float(compiled), feedback=None if compiled else output[-500:])


class LeanTaskSet(SandboxTaskSet):
    """Theorems of one of the `PRESETS`, or of another data set with their columns."""

    default_workdir = LEAN_PROJECT_PATH

    def __init__(
        self,
        preset: str = "deepseek-prover-v1",
        dataset_name: str | None = None,
        dataset_split: str | None = None,
        filter_fn: str | None = None,
        docker_image: str = "lean4-mathlib",
        lean_project_path: str = LEAN_PROJECT_PATH,
        proof_file_path: str = PROOF_FILE_PATH,
        compile_timeout: int = 120,
        ds_num_proc: int | None = None,
        ds_keep_in_memory: bool = True,
    ) -> None:
        if preset not in PRESETS:
            raise Invalid(f"there is no set of theorems {preset!r}; there are {', '.join(PRESETS)}")
        chosen = PRESETS[preset]

        def read() -> Any:
            name, split = dataset_name or chosen.name, dataset_split or chosen.split
            rows = published(name, None, split, keep_in_memory=ds_keep_in_memory, num_proc=ds_num_proc)
            statement = next((column for column in _CANDIDATES if column in rows.column_names), None)
            if statement is None:
                raise Invalid(f"{name} has no column of statements; it has {', '.join(rows.column_names)}")
            return made(rows, lambda row: _row(row, statement, chosen))

        super().__init__(read, name=f"lean/{preset}", filter_fn=filter_fn)
        self.docker_image, self.lean_project_path = docker_image, lean_project_path
        self.proof_file_path, self.compile_timeout = proof_file_path, compile_timeout

    @property
    def compile_command(self) -> str:
        """What compiles the file, in a shell."""
        return f"cd {shlex.quote(self.lean_project_path)} && lake env lean {shlex.quote(self.proof_file_path)}"

    def get_instruction(self, info: dict[str, Any]) -> str:
        """The theorem, and how it is compiled."""
        parts = [f"Prove the following Lean 4 theorem. The proof file is at `{self.proof_file_path}`."]
        parts.append(f"```lean\n{info.get('formal_statement', '')}\n```")
        if info.get("header"):
            parts.append(f"The file begins with this header, which is there already:\n```lean\n{info['header']}\n```")
        parts.append(f"Compile it in your shell with\n`{self.compile_command}`")
        return "\n\n".join(parts)

    def get_sandbox_spec(self, info: dict[str, Any]) -> SandboxSpec:
        """One with Lean and Mathlib."""
        return SandboxSpec(image=self.docker_image)

    def get_workdir(self, info: dict[str, Any]) -> str:
        """The project in which Mathlib is built."""
        return self.lean_project_path

    async def setup(self, state: State) -> None:
        """Lays the file. `SandboxError` where there is no Lean."""
        client, sandbox_id = place_of(state)
        there = await client.execute_command(
            sandbox_id, f"test -d {shlex.quote(self.lean_project_path)} && command -v lake", timeout=30
        )
        if there.exit_code:
            raise SandboxError(
                f"the sandbox has no Lean project at {self.lean_project_path}, or no lake in its path; "
                f"the image {self.docker_image} brings both, and images are not fetched here"
            )
        laid = starter_file(state["info"])
        await client.upload_bytes(sandbox_id, self.proof_file_path, laid.encode())

    def get_rubric(self) -> LeanRubric:
        """The compiler."""
        return LeanRubric(self)


def starter_file(info: dict[str, Any]) -> str:
    """The file that the agent finds: imports and header, the guarded statement, and `sorry`."""
    statement = str(info.get("formal_statement", ""))
    if statement.strip().startswith("import "):
        found = _DECLARATION.search(statement)
        start = found.start() if found else 0
        head, statement = statement[:start], statement[start:]
    else:
        header = str(info.get("header") or "")
        has_imports = header.strip().startswith("import")
        head = header if has_imports else f"{info.get('imports') or 'import Mathlib'}\n\n{header}"
        if info.get("_normalize_mathlib_imports"):
            head = _one_import(head)
    guarded = [LEAN_GUARD_BEGIN_MARKER, _open_statement(statement), LEAN_GUARD_END_MARKER, "  sorry", ""]
    return "\n\n".join(part for part in (head.strip(), "\n".join(guarded)) if part)


def _row(row: dict[str, Any], statement: str, preset: _Preset) -> dict[str, Any]:
    info = {
        "formal_statement": row[statement],
        "header": (row.get(preset.header) if preset.header else None) or "",
        "imports": "import Mathlib",
        "_normalize_mathlib_imports": preset.one_import,
    }
    if preset.label and preset.label in row:
        info["name"] = str(row[preset.label])
    return {"question": row[statement], "info": info, "answer": ""}


def _open_statement(statement: str) -> str:
    """The statement up to `:= by`, whatever placeholder for the proof it came with."""
    bare = statement.rstrip()
    for ending in (r"\b(?:sorry|admit)", r"\bby", ":="):
        bare = re.sub(rf"\s*{ending}\s*$", "", bare)
    return f"{bare} := by"


def _one_import(head: str) -> str:
    """`import Mathlib` in place of imports of its parts."""
    lines = head.split("\n")
    parts = [number for number, line in enumerate(lines) if line.strip().startswith("import Mathlib")]
    kept = [line for number, line in enumerate(lines) if number not in parts[1:]]
    return "\n".join("import Mathlib" if number in parts[:1] else line for number, line in enumerate(kept))
