"""A page of the documentation as the blocks that are run.

What a block is, by the language of its fence:

- `python`: run, all blocks of a page in one interpreter. `console`: each line after `$ ` is run in a shell that keeps
  its folder and its variables; the lines below are its output. `bash`: the whole block is run as a script.
- `toml`: parsed; `# config: eval` or `# config: rl` in it checks it as such a config. `json`: parsed.
- A `python`, `toml` or `json` block whose first line is a path in a comment (`# my_env.py`) is written to that file.
- `text`: the output of the block before it.

A `…` in output stands for anything. A comment above a block changes that, and says why:
`<!-- not run: REASON -->`, `<!-- exit 2 -->`. A comment above the first block names a page's set-up:
`<!-- set-up: tiny-model -->`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt

RUN = ("python", "console", "bash")
WRITTEN = ("python", "toml", "json")
LANGUAGES = (*RUN, "toml", "json", "text")
SET_UPS = ("tiny-model",)
SET_UP_COMMANDS = ("make demo", "make test")
"""The two commands that set everything up. They are run by continuous integration as they are."""

_COMMENT = re.compile(r"<!--\s*(.*?)\s*-->", re.DOTALL)
_FILE = re.compile(r"#\s*([\w./-]+\.(?:py|toml|json|jsonl))\s*$")
_CONFIG = re.compile(r"^#\s*config:\s*(\w+)\s*$", re.MULTILINE)
_NOT_RUN = re.compile(r"not run:\s*(.*)", re.DOTALL)
_SHORTEST_REASON = 15


class Wrong(AssertionError):
    """A page that does not keep to what is written above."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    language: str
    text: str
    line: int
    exit_code: int = 0
    reason: str = ""
    """Why it is not run."""

    @property
    def file(self) -> str | None:
        """The file that it is the text of."""
        match = _FILE.match(self.text.split("\n", 1)[0])
        return match[1] if match and self.language in WRITTEN else None

    @property
    def config(self) -> str | None:
        """The kind of config that it is."""
        match = _CONFIG.search(self.text)
        return match[1] if match else None


@dataclass(frozen=True, slots=True)
class Page:
    """A page's blocks in order."""

    path: Path
    blocks: list[Block]
    links: list[str]
    set_up: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a console block and the output that is shown below it."""

    text: str
    shown: list[str]

    @property
    def is_background(self) -> bool:
        """Whether it goes on running."""
        return self.text.endswith("&")


def read_page(path: Path) -> Page:
    """The page in a file. `Wrong` names file and line."""
    blocks: list[Block] = []
    links: list[str] = []
    set_up: set[str] = set()
    notes: list[str] = []
    for token in MarkdownIt("commonmark").parse(path.read_text(encoding="utf-8")):
        if token.type == "html_block":
            notes += _COMMENT.findall(token.content)
        elif token.type == "fence":
            line = (token.map or [0])[0] + 1
            blocks.append(_block(token.info.strip(), token.content, notes, place=f"{path.name}:{line}", line=line))
            notes = []
        elif token.type == "inline":
            links += [str(each.attrs["href"]) for each in token.children or [] if each.type == "link_open"]
        for note in notes:
            if note.startswith("set-up:"):
                set_up |= {name.strip() for name in note.removeprefix("set-up:").split(",")}
        notes = [note for note in notes if not note.startswith("set-up:")]
    if unknown := set_up - set(SET_UPS):
        raise Wrong(f"{path.name}: there is no set-up {', '.join(unknown)}; there is {', '.join(SET_UPS)}")
    return Page(path, blocks, links, set_up)


def _block(language: str, text: str, notes: list[str], *, place: str, line: int) -> Block:
    if language not in LANGUAGES:
        raise Wrong(f"{place}: a block of the language {language!r} is not checked; use {', '.join(LANGUAGES)}")
    exit_code, reason = 0, ""
    for note in notes:
        not_run = _NOT_RUN.match(note)
        if not_run:
            reason = not_run[1].strip()
            if len(reason) < _SHORTEST_REASON:
                raise Wrong(f"{place}: 'not run' needs a reason that a reader understands")
        elif re.fullmatch(r"exit \d+", note):
            exit_code = int(note.removeprefix("exit "))
        else:
            raise Wrong(f"{place}: the comment {note!r} means nothing; see tests/docs/page.py")
    return Block(language, text, line, exit_code, reason)


def commands(block: Block) -> list[Command]:
    """The commands of a console block. `Wrong` if it does not begin with one."""
    found: list[Command] = []
    lines = block.text.rstrip("\n").split("\n")
    if not lines[0].startswith("$ "):
        raise Wrong(f"line {block.line}: a console block begins with '$ '")
    while lines:
        line = lines.pop(0)
        if not line.startswith("$ "):
            found[-1].shown.append(line)
            continue
        text = line.removeprefix("$ ")
        while text.endswith("\\") and lines:
            text = f"{text}\n{lines.pop(0).removeprefix('> ')}"
        found.append(Command(text.strip(), []))
    return found


def missing_line(shown: list[str], output: str) -> str | None:
    """The first of the shown lines that the output does not have, in this order; None if it has them all."""
    remaining = [" ".join(line.split()) for line in output.splitlines()]
    for line in shown:
        wanted = " ".join(line.split())
        if wanted in ("", "…"):
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in re.split(r" ?… ?", wanted)))
        found = next((index for index, each in enumerate(remaining) if pattern.fullmatch(each)), None)
        if found is None:
            return line
        del remaining[: found + 1]
    return None
