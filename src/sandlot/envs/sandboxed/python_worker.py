"""Runs Python code that a model wrote, inside of a sandbox: the program at the other end of `PythonEnv`.

Invariants: it needs nothing but Python's own library; a request is read whole from one pipe and answered whole on the
other; what the code prints, or its children, goes into the answer.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import traceback
from typing import Any

_KEPT = 1_000_000
"""Characters of each stream that are kept: above what a model is shown, below what would hurt."""
_OUT, _ERR = "/tmp/.python_stdout", "/tmp/.python_stderr"


def run(code: str, names: dict[str, Any]) -> dict[str, Any]:
    """Runs `code`: how it ended, and the value of a last expression as text."""
    try:
        tree = ast.parse(code, "<python>")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<python>", "exec"), names)
        if not isinstance(last, ast.Expr):
            return {"status": "ok", "result": None}
        value = eval(compile(ast.Expression(last.value), "<python>", "eval"), names)
        return {"status": "ok", "result": None if value is None else repr(value)[:_KEPT]}
    except BaseException as error:  # boundary: the model's code, which may also exit
        shown = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
        lines = traceback.format_exception(type(error), shown, shown.__traceback__)
        return {"status": "error", "result": "".join(lines)[-_KEPT:]}


def captured(code: str, names: dict[str, Any]) -> dict[str, Any]:
    """The result of `run`, with what was printed meanwhile."""
    for number, path in ((1, _OUT), (2, _ERR)):
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(target, number)
        os.close(target)
    result = run(code, names)
    sys.stdout.flush()
    sys.stderr.flush()
    return {**result, "stdout": _read(_OUT), "stderr": _read(_ERR)}


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(_KEPT)


def main(requests: str, answers: str) -> None:
    """Answers requests until the sandbox is closed."""
    for path in (requests, answers):
        if os.path.exists(path):
            os.remove(path)
        os.mkfifo(path)
    names: dict[str, Any] = {"__name__": "__main__"}
    while True:
        with open(requests, encoding="utf-8") as asked:
            request = json.loads(asked.read())
        result = captured(request["code"], names)
        with open(answers, "w", encoding="utf-8") as told:
            told.write(json.dumps({"seq": request["seq"], **result}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
