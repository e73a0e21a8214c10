"""Check that a kill or an interrupt at a random moment changes no result, with real processes and signals.

    python -m benchmarks.reliability.chaos --kills 100 --interrupts 50
    python -m benchmarks.reliability.chaos --kills 4 --interrupts 2 --only maze --jobs 1

Each trial starts a command (a run, or a comparison with one or several runs per program, in processes or on Ray if it
is installed), sends one signal at a random moment, and resumes with the command from the message or the documentation
until it is finished. A kill hits the command or one of its workers. An interrupt hits the command alone or, like a
terminal's Ctrl-C, all of its processes. The results must then equal those of an undisturbed command byte for byte: the
tables, the curriculum, the arrays of the last checkpoint, and the summary without its times. Nothing else may be left:
no process (Ray's own agents have two minutes to notice that their cluster is gone, all others twenty seconds), no lock
and no temporary file. Linux only, because processes are found by their environment.
"""

from __future__ import annotations

import argparse
import collections
import random
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks.reliability.chaos_trials import Broken, Command, check_all_gone, check_clean, check_same_records

TASKS = {  # short, but with several stages
    "maze": ("--steps", "3000", "--threshold", "-60"),
    "point-mass": ("--steps", "6000", "--threshold", "2"),
    "u-maze": ("--steps", "7936", "--threshold", "-0.99"),
    "fetch-push": ("--steps", "1000", "--threshold", "-50.5", "--learner", "sac:learning_starts=500:buffer_size=2000"),
}
NEEDED = {"fetch-push": "mujoco"}
METHODS = (
    "auto:path_window=5", "gradient:window=5", "target-only", "uniform", "linear:window=5", "alp-gmm:fit_rate=40",
    "goal-gan:fit_rate=20", "spdl:steps_per_iteration=500", "wb-spdl:episodes_per_update=10",
    "currot:episodes_per_update=10",
)  # fmt: skip
SAVE_OFTEN = ("--save-every", "0.3", "--quiet")


@dataclass(frozen=True)
class Scenario:
    """A command, and its name in the counts."""

    kind: str
    words: tuple[str, ...]
    group: str  # scenarios of one group must end with the same results

    @property
    def is_comparison(self) -> bool:
        return self.words[0] == "compare"


def scenarios(tasks: list[str], ray: bool) -> list[Scenario]:
    """Every kind of command on these tasks."""
    found = []
    for index, task in enumerate(tasks):
        budget = (*TASKS[task], *SAVE_OFTEN)
        for method in METHODS:
            found.append(Scenario("run", ("run", task, "--method", method, *budget), f"{task} {method}"))
        for at_once, seeds in (("1", "1"), ("3", "2")):
            three = ",".join(METHODS[(3 * index + k) % len(METHODS)] for k in range(3))
            words = ("compare", task, "--methods", three, "--seeds", seeds, "--at-once", at_once, *budget)
            group = f"{task} compare {at_once}"
            name = "compare" if at_once == "1" else "compare, three at once"
            found.append(Scenario(name, (*words, "--workers", "2"), group))
            if ray and not index:  # how jobs are run does not depend on the task
                found.append(Scenario(f"{name}, Ray", (*words, "--executor", "ray"), group))
    return found


class Chaos:
    """Results of undisturbed commands, made once each, and trials that are compared with them."""

    def __init__(self, work: Path, seed: int) -> None:
        self.work = work
        self.rng = random.Random(seed)
        self.undisturbed: dict[str, Path] = {}
        self.seconds: dict[Scenario, float] = {}

    def prepare(self, scenario: Scenario) -> None:
        """Run the scenario without a signal, and time it."""
        folder = self.work / "whole" / scenario.kind / scenario.group.replace(":", "-")
        command = Command([*scenario.words, "--out", str(folder)])
        command.wait_until_ready()
        began = time.monotonic()
        code, complaint = command.wait()
        if code != 0:
            raise SystemExit(f"undisturbed, {command} ended with {code}: {complaint}")
        self.seconds[scenario] = time.monotonic() - began
        first = self.undisturbed.setdefault(scenario.group, folder)
        if first != folder:
            check_same_records(first, folder)
        print(f"undisturbed: {scenario.group} ({scenario.kind}), {self.seconds[scenario]:.1f} s", flush=True)

    def trial(self, number: int, scenario: Scenario, sent: signal.Signals, choice: random.Random) -> str:
        """Do one trial and return what was hit; raise `Broken` if something differs."""
        latest = self.seconds[scenario]
        while True:
            folder = self.work / f"trial-{number}-{latest:.3f}"
            command = Command([*scenario.words, "--out", str(folder)])
            command.wait_until_ready()
            if command.runs_for(choice.uniform(0, latest)):
                break
            command.wait()
            latest *= 0.7  # the machine was busier when the undisturbed command was timed
        target = choice.choice(["command", "worker"] if sent == signal.SIGKILL else ["command", "group"])
        if scenario.is_comparison and target == "worker":
            command.wait_for_workers(folder)
            command.runs_for(choice.uniform(0, latest / 3))
        hit = command.hit(sent, target if scenario.is_comparison else "command", folder)
        code, complaint = command.wait()
        command.check_gone()
        command.resume(code, complaint, folder, hit)
        check_clean(folder)
        check_same_records(self.undisturbed[scenario.group], folder)
        return f"{scenario.kind}: {sent.name} to the {hit}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--interrupts", type=int, default=50)
    parser.add_argument("--terminations", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(TASKS), help="only this task")
    parser.add_argument("--kinds", default="", help="only these kinds, separated by /")
    parser.add_argument("--jobs", type=int, default=1, help="trials at a time")
    options = parser.parse_args()
    tasks = [options.only] if options.only else [task for task in TASKS if find_spec(NEEDED.get(task, "jax"))]
    chosen = scenarios(tasks, find_spec("ray") is not None)
    if options.kinds:
        chosen = [scenario for scenario in chosen if scenario.kind in options.kinds.split("/")]
    with tempfile.TemporaryDirectory(prefix="chaos-") as work:
        return run(Chaos(Path(work), options.seed), chosen, options)


def run(chaos: Chaos, chosen: list[Scenario], options: argparse.Namespace) -> int:
    """Do all trials, and print how they ended."""
    sent = [signal.SIGKILL] * options.kills + [signal.SIGINT] * options.interrupts
    sent += [signal.SIGTERM] * options.terminations
    chaos.rng.shuffle(sent)
    order = chaos.rng.sample(chosen, len(chosen))
    drawn = [order[number % len(order)] for number in range(len(sent))]
    counts: collections.Counter[str] = collections.Counter()
    broken: list[str] = []

    def one(number: int) -> None:
        try:
            hit = chaos.trial(number, drawn[number], sent[number], random.Random(f"{options.seed} {number}"))
            counts[hit] += 1
            print(f"{number + 1} of {len(sent)}: {drawn[number].group}, {hit}", flush=True)
        except Broken as error:
            broken.append(f"{drawn[number].group}, {drawn[number].kind}, {sent[number].name}: {error}")
            print(f"{number + 1} of {len(sent)}: BROKEN: {broken[-1]}", flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(chaos.prepare, dict.fromkeys(drawn)))
        list(pool.map(one, range(len(sent))))
    try:
        check_all_gone()
    except Broken as error:
        broken.append(str(error))
    for hit, count in sorted(counts.items()):
        print(f"{count:5} {hit}")
    print(f"{sum(counts.values())} of {len(sent)} signals: same bytes, no orphan, no lock, no temporary file")
    for line in broken:
        print(f"broken: {line}")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
