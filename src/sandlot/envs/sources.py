"""Which files of a package's folder are published, and which are left out and why.

Invariants: what git ignores is never published, nor are virtual environments, caches, outputs and files that by their
name hold secrets; a file whose text holds a key stops the publishing; nothing outside the folder is reached through a
link. The .gitignore files in the folder hold with and without git; where git is there, so do the user's other rules.
"""

from __future__ import annotations

import fnmatch
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sandlot.errors import Invalid

_CACHES = ("__pycache__", "*.pyc", "*.egg-info", ".*_cache", ".ipynb_checkpoints", ".tox", ".nox", "node_modules")
_LEFT_OUT = (".git", ".hg", ".svn", ".venv", "venv", ".DS_Store", ".idea", ".vscode", *_CACHES)
_LEFT_OUT_AT_TOP = ("outputs", "dist", "build")
_SECRET_NAMES = (
    ".env", ".env.*", "*.env", ".envrc", ".netrc", ".pypirc", ".npmrc", "*.pem", "*.p12", "*.pfx", "id_rsa", "id_dsa",
    "id_ecdsa", "id_ed25519", "credentials.json", "credentials.toml", "secrets.toml", "secrets.json",
)  # fmt: skip
_NOT_SECRET = (".env.example", ".env.sample", ".env.template", "example.env", "sample.env")

_KEYS = re.compile(
    rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"
    rb"|\b(?:sk-(?:proj-|ant-[a-z0-9]+-|or-v1-)?[A-Za-z0-9_-]{32,}|hf_[A-Za-z0-9]{30,}|gh[pousr]_[A-Za-z0-9]{36,}"
    rb"|github_pat_[A-Za-z0-9_]{50,}|xox[abprs]-[A-Za-z0-9-]{20,}|AKIA[0-9A-Z]{16}|AIza[A-Za-z0-9_-]{35}"
    rb"|slk_[A-Za-z0-9_-]{40,})"
)
_SCANNED_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Sources:
    """The files of a folder that are published, as sorted relative paths, and the others with the reason."""

    root: Path
    sent: list[str]
    left_out: dict[str, str] = field(default_factory=dict)
    """Path of the file, or of the whole folder with a slash at its end, and why it stays."""


def list_sources(root: Path) -> Sources:
    """Sorts the files under `root`. `Invalid` for a link that leads out of it."""
    ignored = _ignored_by_git(root)
    sent: list[str] = []
    left_out: dict[str, str] = {}
    for path, reason in _walk(root, root.resolve(), ignored):
        if reason is None:
            sent.append(path)
        else:
            left_out[path] = reason
    return Sources(root, sorted(sent), dict(sorted(left_out.items())))


def find_secrets(sources: Sources) -> list[str]:
    """`path:line` of everything in the files to be sent that looks like a key."""
    found = []
    for path in sources.sent:
        with (sources.root / path).open("rb") as file:
            text = file.read(_SCANNED_BYTES)
        for match in _KEYS.finditer(text):
            line = text.count(b"\n", 0, match.start()) + 1
            found.append(f"{path}:{line}")
    return found


def copy_sources(sources: Sources, target: Path) -> None:
    """Writes the files to be sent under `target`, links as what they point to, with their executable bits."""
    for path in sources.sent:
        origin, copy = sources.root / path, target / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(origin.read_bytes())
        copy.chmod(0o755 if origin.stat().st_mode & 0o100 else 0o644)


def _ignored_by_git(root: Path) -> Ignored:
    command = ["git", "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"]
    try:
        answer = subprocess.run(command, cwd=root, capture_output=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return Ignored()  # There is no git, or this is no work tree: the .gitignore files are read in any case.
    return Ignored(extra=frozenset(answer.stdout.decode(errors="surrogateescape").split("\0")) - {""})


def _walk(folder: Path, root: Path, ignored: Ignored, prefix: str = "") -> Iterator[tuple[str, str | None]]:
    rules = ignored.inside(folder, prefix)
    for entry in sorted(folder.iterdir()):
        path = prefix + entry.name
        is_folder = entry.is_dir()
        shown = path + "/" if is_folder else path
        reason = _reason(entry, prefix) or ("ignored by git" if rules.matches(path, is_folder) else None)
        if reason is not None:
            yield shown, reason
        elif not entry.resolve().is_relative_to(root):
            raise Invalid(
                f"{shown} is a link to {entry.resolve()}, which is outside of the package",
                hint=f"copy what it points to into {root.name}, or ignore it in .gitignore",
            )
        elif is_folder and entry.is_symlink():
            raise Invalid(f"{shown} is a link to a folder", hint="put the folder itself in its place")
        elif is_folder:
            yield from _walk(entry, root, rules, shown)
        elif entry.is_file():
            yield path, None
        else:
            yield path, "not a file"


def _reason(entry: Path, prefix: str) -> str | None:
    name = entry.name
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in _LEFT_OUT):
        return "never published"
    if not prefix and name in _LEFT_OUT_AT_TOP and entry.is_dir():
        return "never published"
    if (entry / "pyvenv.cfg").exists():
        return "a virtual environment"
    if name.lower() in _NOT_SECRET:
        return None
    return "may hold secrets" if any(fnmatch.fnmatchcase(name.lower(), each) for each in _SECRET_NAMES) else None


@dataclass(frozen=True, slots=True)
class _Rule:
    base: str
    pattern: re.Pattern[str]
    folders_only: bool
    keeps: bool


@dataclass(frozen=True, slots=True)
class Ignored:
    """What the .gitignore files on the way down say. The last rule that matches a path decides."""

    rules: tuple[_Rule, ...] = ()
    extra: frozenset[str] = frozenset()
    """Paths below the root that git itself says it ignores, folders with a slash: also by a user's own rules."""

    def inside(self, folder: Path, prefix: str) -> Ignored:
        """These rules and those of the .gitignore in `folder`, which is at `prefix`."""
        file = folder / ".gitignore"
        if not file.is_file():
            return self
        added = _read_rules(file.read_text(encoding="utf-8", errors="replace"), prefix)
        return Ignored((*self.rules, *added), self.extra)

    def matches(self, path: str, is_folder: bool) -> bool:
        """Whether `path` is ignored, given that the folders above it are not."""
        if (path + "/" if is_folder else path) in self.extra:
            return True
        for rule in reversed(self.rules):
            applies = (is_folder or not rule.folders_only) and path.startswith(rule.base)
            if applies and rule.pattern.fullmatch(path[len(rule.base) :]):
                return not rule.keeps
        return False


def _read_rules(text: str, base: str) -> list[_Rule]:
    rules = []
    for line in text.splitlines():
        line = re.sub(r"(?<!\\)\s+$", "", line)
        if not line or line.startswith("#"):
            continue
        keeps = line.startswith("!")
        pattern = line[1:] if keeps else line
        folders_only = pattern.endswith("/")
        pattern = pattern.rstrip("/")
        if pattern:
            rules.append(_Rule(base, _translated(pattern), folders_only, keeps))
    return rules


def _translated(pattern: str) -> re.Pattern[str]:
    """A gitignore pattern as a regular expression over the path below the file it stands in (gitignore(5))."""
    anchored = "/" in pattern
    pattern = pattern.lstrip("/") if pattern.startswith("/") else pattern
    pieces = [] if anchored else ["(?:.*/)?"]
    index = 0
    while index < len(pattern):
        rest = pattern[index:]
        if rest.startswith("**/") and (index == 0 or pattern[index - 1] == "/"):
            piece, width = "(?:.*/)?", 3
        elif rest == "**" and anchored and (index == 0 or pattern[index - 1] == "/"):
            piece, width = ".+", 2
        else:
            piece, width = _translated_character(rest)
        pieces.append(piece)
        index += width
    try:
        return re.compile("".join(pieces), re.DOTALL)
    except re.error:
        return re.compile(re.escape(pattern))


def _translated_character(rest: str) -> tuple[str, int]:
    if rest[0] == "*":
        width = len(rest) - len(rest.lstrip("*"))
        return "[^/]*", width
    if rest[0] == "?":
        return "[^/]", 1
    if rest[0] == "[":
        group = re.match(r"\[([!^]?)(\]?[^\]]*)\]", rest)
        if group:
            negated, members = group.groups()
            escaped = members.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
            return f"(?!/)[{'^' if negated else ''}{escaped}]", group.end()
    if rest[0] == "\\" and len(rest) > 1:
        return re.escape(rest[1]), 2
    return re.escape(rest[0]), 1
