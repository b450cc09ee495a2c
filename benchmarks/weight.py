"""What it costs to begin: CPU seconds and memory of importing, of one rollout, and of `sandlot --help`."""

from __future__ import annotations

import json
import subprocess
import sys

ONE_ROLLOUT = """
import sandlot as sl
from sandlot.testing import ScriptedModel
env = sl.SingleTurnEnv(dataset=[{"question": "?", "answer": "a"}], rubric=sl.Rubric([lambda answer: 1.0]))
assert env.evaluate(model=ScriptedModel("a")).reward == [1.0]
"""
CASES = {
    "python alone": "pass",
    "import sandlot": "import sandlot",
    "import and one rollout": ONE_ROLLOUT,
    "sandlot --help": "import sys; sys.stdout = sys.stderr; from sandlot.cli.main import run; run(['--help'])",
}
TRIES = 5


def main() -> None:
    """Prints the least of five tries for each case."""
    print(f"{'what':26}{'CPU s':>8}{'MB':>8}")
    for name, code in CASES.items():
        found = [_measured(code) for _ in range(TRIES)]
        print(f"{name:26}{min(cpu for cpu, _ in found):>8.3f}{min(memory for _, memory in found):>8.0f}", flush=True)


def _measured(code: str) -> tuple[float, float]:
    script = (
        f"{code}\nimport json, resource\nused = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]), flush=True)"
    )
    if "sys.stdout = sys.stderr" in code:
        script = script.replace("flush=True)", "flush=True, file=sys.__stdout__)")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    cpu, memory = json.loads(done.stdout.splitlines()[-1])
    return cpu, memory
