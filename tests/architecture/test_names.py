"""Words that say nothing are not names here, and every module says what it is."""

from __future__ import annotations

import ast
import re

from tests.architecture.tree import SOURCE, modules

BANNED = re.compile(
    r"(^|_)(util|utils|helper|helpers|manager|handler|handlers|common|misc|data|process)(_|$)|^do_", re.IGNORECASE
)
BANNED_WORDS_IN_CLASSES = re.compile(r"(Util|Helper|Manager|Handler|Common|Misc)")
FROM_OUTSIDE = {"exception_handler", "error_handlers", "HTMLParser", "add_exception_handler"}


def test_files_functions_and_classes_have_names_that_say_something() -> None:
    wrong = []
    for path, tree in modules().items():
        names = [part.removesuffix(".py") for part in path.relative_to(SOURCE).parts]
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names.append(node.name)
            elif isinstance(node, ast.ClassDef) and BANNED_WORDS_IN_CLASSES.search(node.name):
                wrong.append(f"{path.relative_to(SOURCE)}: {node.name}")
        wrong += [
            f"{path.relative_to(SOURCE)}: {name}" for name in names if BANNED.search(name) and name not in FROM_OUTSIDE
        ]
    assert not wrong, "\n".join(wrong)


def test_every_module_opens_with_what_it_is() -> None:
    silent = [str(path.relative_to(SOURCE)) for path, tree in modules().items() if not ast.get_docstring(tree)]
    assert not silent


def test_broad_excepts_name_their_boundary() -> None:
    wrong = []
    for path, tree in modules().items():
        lines = path.read_text(encoding="utf-8").splitlines()
        for node in ast.walk(tree):
            if not isinstance(node, ast.ExceptHandler):
                continue
            caught = ast.unparse(node.type) if node.type else "BaseException"
            goes_on = any(isinstance(each, ast.Raise) and each.exc is None for each in ast.walk(node))
            broad = caught == "Exception" or (caught == "BaseException" and not goes_on)
            if broad and "boundary" not in " ".join(lines[node.lineno - 1 : node.lineno + 1]).lower():
                wrong.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert not wrong, "\n".join(wrong)
