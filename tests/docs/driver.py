"""Runs the Python blocks of a page in one interpreter: reads `{"code", "name", "folder"}` a line, answers
`{"output", "error"}` a line."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import traceback
from typing import Any


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    names: dict[str, Any] = {"__name__": "__main__"}
    sys.path.insert(0, "")
    for line in sys.stdin:
        asked = json.loads(line)
        os.chdir(asked["folder"])
        output, error = io.StringIO(), ""
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            try:
                exec(compile(asked["code"], asked["name"], "exec"), names)
            except BaseException:  # boundary: the page's own code; the test shows what it raised
                error = traceback.format_exc()
        answers.write(json.dumps({"output": output.getvalue(), "error": error}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
