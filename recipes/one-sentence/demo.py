"""The main job from end to end, on this machine's CPU, by the same commands that you would type.

It starts a hub, publishes an environment, installs that release into a clean place, measures a real language model on
held-out tasks, trains it on the release's training tasks, and measures it again. Everything it makes is in ./demo.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from result import Runs, curve, run_id, sentences, table

from sandlot.store import list_runs

ROOT = Path(__file__).resolve().parents[2]
RECIPE = Path(__file__).resolve().parent
FOLDER = ROOT / "demo"
PLACE = FOLDER / "place"
BASE = "local:smollm2-135m"
RELEASE = "ada/one-sentence@0.1.0"
COMMAND = [sys.executable, "-m", "sandlot"]
IN_PLACE = [str(PLACE / "bin" / "python"), "-m", "sandlot"]


class Plan:
    """How much is done, and how long each phase takes on two cores that have nothing else to do."""

    def __init__(self, *, quick: bool, seed: int, rate: float | None) -> None:
        self.seed = seed
        self.rate = rate
        self.steps = 12 if quick else 40
        self.tasks = 40 if quick else 100
        self.evaluation = 20 if quick else 40
        self.training = 100 if quick else 360


class Screen:
    """Says what is going on: a heading for each phase, its commands, what they say, and how long it took."""

    def __init__(self, phases: int) -> None:
        self.phases = phases
        self.number = 0
        self.times: list[tuple[str, float]] = []

    @contextlib.contextmanager
    def phase(self, title: str, expected: float) -> Iterator[None]:
        """One phase, which should take `expected` seconds."""
        self.number += 1
        print(f"\n{self.number}/{self.phases}  {title}  (about {readable(expected)})", flush=True)
        begin = time.monotonic()
        yield
        took = time.monotonic() - begin
        self.times.append((title, took))
        print(f"     done in {readable(took)}", flush=True)

    def run(self, *command: str) -> None:
        """Runs `command` and shows what it says. A command that fails ends the demo."""
        shown = re.sub(r"^.*-m sandlot", "sandlot", " ".join(command)).replace(f"{ROOT}/", "").replace(f"{ROOT}", ".")
        print(f"     $ {shown}", flush=True)
        process = subprocess.Popen(
            command, cwd=FOLDER, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout is not None
        advice = False
        try:
            for line in process.stdout:
                # What to type next is advice for a person; here the next phase does it.
                advice = line.startswith("next:") or (advice and line.startswith("      "))
                if not advice:
                    print(f"     {line.rstrip()}", flush=True)
            code = process.wait()
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)
            raise
        if code:
            sys.exit(f"     that failed with exit code {code}; everything so far is in {FOLDER.relative_to(ROOT)}/")


def main() -> None:
    """Runs all phases and shows the result."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    options.add_argument("--quick", action="store_true", help="four minutes: fewer steps, fewer tasks")
    options.add_argument("--seed", type=int, default=0, help="of the order of tasks and of every draw")
    options.add_argument("--learning-rate", type=float, help="0 is the control: nothing may improve")
    options.add_argument("--no-wait", action="store_true", help="stop the hub at the end instead of keeping it open")
    asked = options.parse_args()
    plan = Plan(quick=asked.quick, seed=asked.seed, rate=asked.learning_rate)
    begin = time.monotonic()
    minutes = 4 if asked.quick else 8
    print(f"Sandlot's main job on this machine, in about {minutes} minutes on two idle cores. It downloads 93 MB of")
    print("model weights once and keeps 541 MB of them in your cache; all else goes to ./demo, which is made anew.")
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    os.environ["XDG_CONFIG_HOME"] = str(FOLDER / "config")  # The demo's account is none of your settings.
    os.environ.pop("SANDLOT_HOME", None)
    screen = Screen(phases=7)
    with hub_of(screen) as url:
        runs = job(screen, plan)
        show(screen, runs, url, time.monotonic() - begin)
        if sys.stdin.isatty() and not asked.no_wait:
            print("\nThe hub stays open until you press Ctrl-C.")
            with contextlib.suppress(KeyboardInterrupt):
                signal.pause()
    print("To open it again: .venv/bin/sandlot hub serve --data-dir demo/hub")


@contextlib.contextmanager
def hub_of(screen: Screen) -> Iterator[str]:
    """Fetches the model, then starts a hub with one user, and stops it at the end."""
    with screen.phase("Fetch the weights of SmolLM2-135M-Instruct", 20):
        screen.run(*COMMAND, "model", "pull", "smollm2-135m")
    with screen.phase("Start a hub", 8):
        data = FOLDER / "hub"
        print("     $ sandlot hub serve --data-dir demo/hub --port 0", flush=True)
        with (FOLDER / "hub.log").open("w") as log:
            hub = subprocess.Popen(
                [*COMMAND, "hub", "serve", "--data-dir", str(data), "--port", "0"],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert hub.stdout is not None
        url = hub.stdout.readline().strip()
        if not url:
            sys.exit(f"     the hub did not start:\n{(FOLDER / 'hub.log').read_text()}")
        print(f"     the hub is at {url}", flush=True)
        screen.run(*COMMAND, "hub", "user", "create", "ada", "--no-password", "--data-dir", str(data))
        screen.run(*COMMAND, "hub", "key", "create", "ada", "--save-for", url, "--data-dir", str(data))
        screen.run(*COMMAND, "config", "set", "hub", url)
    try:
        yield url
    finally:
        hub.terminate()
        hub.wait(timeout=30)


def job(screen: Screen, plan: Plan) -> Runs:
    """Publishes, installs, evaluates, trains and evaluates again; gives the three runs."""
    with screen.phase("Build the environment and publish it", 15):
        package = str(ROOT / "environments" / "one_sentence")
        screen.run(*COMMAND, "env", "push", package, "--visibility", "public")
    with screen.phase("Install that release from the hub into a clean place", 10):
        clean_place()
        screen.run(*COMMAND, "env", "install", RELEASE, "--python", str(PLACE / "bin" / "python"))
    shared = ["-n", str(plan.tasks), "-r", "2", "--seed", str(plan.seed), "--push", "--public", "-o", "runs"]
    with screen.phase("Measure the model on held-out tasks", plan.evaluation):
        screen.run(*IN_PLACE, "eval", RELEASE, "-m", BASE, *shared)
        before = newest("eval")
    with screen.phase("Train it with RL on the training tasks of the same release", plan.training):
        rate = [] if plan.rate is None else [f"optimiser.learning_rate={plan.rate}"]
        settings = [f"steps={plan.steps}", f"seed={plan.seed}", f"env.id={RELEASE}", *rate]
        config = str(RECIPE / "config.toml")
        screen.run(*IN_PLACE, "rl", "@", config, *settings, "--push", "--public", "--output", "runs")
    with screen.phase("Measure the trained model on the same held-out tasks", plan.evaluation):
        train = newest("train")
        model = f"local:{(train / 'merged').relative_to(FOLDER)}"
        screen.run(*IN_PLACE, "eval", RELEASE, "-m", model, *shared)
    return Runs(before, train, newest("eval"))


def newest(kind: str) -> Path:
    """The folder of the run of that kind which began last."""
    return next(entry.path for entry in list_runs(FOLDER / "runs") if entry.run is not None and entry.run.kind == kind)


def clean_place() -> None:
    """A new virtual environment that has none of the environments here.

    It sees the packages of this interpreter behind its own, so that torch is not installed a second time.
    """
    subprocess.run([sys.executable, "-m", "venv", str(PLACE)], check=True)
    site = subprocess.run(
        [str(PLACE / "bin" / "python"), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    behind = [entry for entry in sys.path if entry.endswith("site-packages")] + [str(ROOT / "src")]
    (Path(site) / "behind.pth").write_text("\n".join(behind) + "\n")


def show(screen: Screen, runs: Runs, url: str, seconds: float) -> None:
    """The last screen: before and after, the curve, what the model wrote, and where all of it can be read."""
    print("\n" + "─" * 78)
    print(f"SmolLM2-135M-Instruct on {RELEASE}, held-out words and lengths\n")
    print(table(runs))
    print("\nreward of the training rollouts, step by step")
    print(curve(runs.train))
    print("\n" + sentences(runs))
    print("\ntimes    " + ", ".join(f"{title.split()[0].lower()} {readable(took)}" for title, took in screen.times))
    print(f"         {readable(seconds)} in all")
    print("\nEvery rollout can be read here:")
    for words, folder in (("before", runs.before), ("training", runs.train), ("after", runs.after)):
        print(f"  {words:12} {url}/runs/{run_id(folder)}")
    print(f"  {'environment':12} {url}/{RELEASE.partition('@')[0]}")


def readable(seconds: float) -> str:
    """`75` as `1 min 15 s`."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nstopped; what was made is in ./demo")
