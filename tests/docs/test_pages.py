"""Every fenced block of the README and of docs/ is run as it is written, and every link leads somewhere."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from tests.docs.page import RUN, SET_UP_COMMANDS, Block, Wrong, missing_line, read_page
from tests.docs.playground import ROOT, playground

from sandlot.config import build
from sandlot.evals import EvalFile
from sandlot.train import TrainConfig

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKED = [*PAGES, *sorted(ROOT.glob("*.md")), *sorted((ROOT / "environments").glob("*/README.md"))]
CONFIGS = {"eval": EvalFile, "rl": TrainConfig}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [path for path in PAGES if "```" in path.read_text(encoding="utf-8")], ids=name_of)
def test_every_block_of_a_page_does_what_the_page_says(path: Path, tmp_path: Path) -> None:
    page = read_page(path)
    with playground(tmp_path, page) as place:
        output = ""
        for block in page.blocks:
            if block.reason or is_set_up(block):
                continue
            check_data(block, path)
            if block.file:
                place.write(block.file, block.text)
            elif block.language in RUN:
                output = place.run(block)
            elif block.language == "text":
                missing = missing_line(block.text.splitlines(), output)
                assert missing is None, f"{path.name}:{block.line} shows {missing!r}, but this was printed:\n{output}"


@pytest.mark.parametrize("path", sorted(set(LINKED)), ids=name_of)
def test_every_link_leads_to_a_file(path: Path) -> None:
    targets = [link.partition("#")[0] for link in read_links(path) if "://" not in link and not link.startswith("#")]
    assert not [target for target in targets if not (path.parent / target).exists()]


def read_links(path: Path) -> list[str]:
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").parse(path.read_text(encoding="utf-8"))
    return [str(each.attrs["href"]) for token in tokens for each in token.children or [] if each.type == "link_open"]


def is_set_up(block: Block) -> bool:
    """Whether the block is nothing but the two commands that set everything up."""
    lines = [line.removeprefix("$ ") for line in block.text.strip().splitlines()]
    return block.language in ("console", "bash") and all(line.startswith(SET_UP_COMMANDS) for line in lines)


def check_data(block: Block, path: Path) -> None:
    """Parses data, and checks what says that it is a config."""
    if block.language == "json":
        json.loads(block.text.split("\n", 1)[1] if block.file else block.text)
    if block.language == "toml":
        table = tomllib.loads(block.text)
        if block.config:
            if block.config not in CONFIGS:
                raise Wrong(f"{path.name}:{block.line}: there is no config {block.config!r}")
            build(CONFIGS[block.config], table, source=f"{path.name}:{block.line}")
