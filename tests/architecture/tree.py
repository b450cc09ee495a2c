"""The source tree, read as syntax: nothing is imported to be checked."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sandlot"


@cache
def modules() -> dict[Path, ast.Module]:
    """Every Python file of the package with its syntax tree, but for templates, which are other people's packages."""
    return {
        path: ast.parse(path.read_text(encoding="utf-8"), str(path))
        for path in sorted(SOURCE.rglob("*.py"))
        if "template" not in path.relative_to(SOURCE).parts
    }


def unit_of(path: Path) -> str:
    """The unit that a file belongs to: its first-level folder or module; `facade` for the package's own `__init__`."""
    first = path.relative_to(SOURCE).parts[0]
    return "facade" if first == "__init__.py" else first.removesuffix(".py")


def imports(path: Path, tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every module of sandlot that a file imports, hidden imports included, with the line."""
    package = ("sandlot", *path.relative_to(SOURCE).with_suffix("").parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names if alias.name.split(".")[0] == "sandlot")
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package[: -node.level], *([base] if base else [])])
            if base == "sandlot":
                yield from ((f"sandlot.{alias.name}", node.lineno) for alias in node.names)
            elif base.startswith("sandlot."):
                yield base, node.lineno
