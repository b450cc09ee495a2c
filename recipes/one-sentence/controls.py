"""The demo's training on several seeds, and at learning rate 0, where nothing may improve. Half an hour on two cores.

    python recipes/one-sentence/controls.py --seeds 0 1 2

Runs are saved under outputs/controls; what is there already is not run again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from result import Runs, curve, table

from sandlot.store import list_runs

RECIPE = Path(__file__).resolve().parent
ROOT = RECIPE.parents[1]
ENVIRONMENT = str(ROOT / "environments" / "one_sentence")


def main() -> None:
    """Trains and evaluates each arm, then prints its table."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options.add_argument("--output", type=Path, default=ROOT / "outputs" / "controls")
    asked = options.parse_args()
    arms = [(f"seed {seed}", seed, []) for seed in asked.seeds]
    arms.append(("learning rate 0", asked.seeds[0], ["optimiser.learning_rate=0"]))
    for name, seed, settings in arms:
        folder = asked.output / name.replace(" ", "-")
        begin = time.monotonic()
        runs = arm(folder, seed, settings)
        print(f"\n{name}, {time.monotonic() - begin:.0f} s\n{table(runs)}\n{curve(runs.train)}", flush=True)


def arm(folder: Path, seed: int, settings: list[str]) -> Runs:
    """Measures the untrained model, trains it, and measures it again."""
    evaluation = ["-n", "100", "-r", "2", "--seed", str(seed)]
    before = once(folder / "before", "eval", ENVIRONMENT, "-m", "local:smollm2-135m", *evaluation)
    config = ["@", str(RECIPE / "config.toml"), f"env.id={ENVIRONMENT}", f"seed={seed}", *settings]
    train = once(folder / "train", "rl", *config)
    after = once(folder / "after", "eval", ENVIRONMENT, "-m", f"local:{train / 'merged'}", *evaluation)
    return Runs(before, train, after)


def once(folder: Path, *command: str) -> Path:
    """The run of `command` under `folder`: the one that is there and done, or a new one."""
    if not folder.is_dir() or not (found := finished(folder)):
        subprocess.run([sys.executable, "-m", "sandlot", *command, "--output", str(folder)], check=True, cwd=ROOT)
        found = finished(folder)
    return found[0]


def finished(folder: Path) -> list[Path]:
    """The runs under `folder` that are done."""
    return [entry.path for entry in list_runs(folder) if entry.run is not None and entry.run.status == "done"]


if __name__ == "__main__":
    main()
