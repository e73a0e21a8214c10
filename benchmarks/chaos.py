"""Whether a kill or an interrupt at any moment changes a result: real processes, real signals, byte for byte.

    python -m benchmarks.chaos --kills 100 --interrupts 50
    python -m benchmarks.chaos --kills 4 --interrupts 2 --only maze --jobs 1

Each trial starts a command (a run, a comparison alone or several at once, in processes or on Ray where it is
installed), sends one signal at a random moment, and goes on with the command that the message or the documents say,
until it is finished. A kill hits the command or one of its workers; an interrupt hits the command alone or, as a
terminal's Ctrl-C does, all of its processes. Then everything that lasts must equal what an undisturbed command left:
the tables, the curriculum, the last checkpoint's arrays, the summary without its times. Besides, nothing may remain:
no process (Ray's own agents have two minutes to notice that their cluster is gone, all others twenty seconds), no lock,
no temporary file. Linux only: processes are told by their environment.
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

from benchmarks.chaos_trials import Broken, Command, all_gone, same_records, settled

TASKS = {  # short, and still through several stages
    "maze": ("--steps", "3000", "--threshold", "-60"),
    "point-mass": ("--steps", "6000", "--threshold", "2"),
    "u-maze": ("--steps", "7936", "--threshold", "-0.99"),
    "fetch-push": ("--steps", "1000", "--threshold", "-50.5", "--learner", "sac:learning_starts=500:buffer_size=2000"),
}
NEEDED = {"fetch-push": "mujoco"}
METHODS = (
    "gradient:window=5", "target-only", "uniform", "linear:window=5", "alp-gmm:fit_rate=40", "goal-gan:fit_rate=20",
    "spdl:steps_per_iteration=500", "wb-spdl:episodes_per_update=10", "currot:episodes_per_update=10",
)  # fmt: skip
OFTEN = ["--save-every", "0.3", "--quiet"]


@dataclass(frozen=True)
class Scenario:
    """A command, and what it is called in the count."""

    kind: str
    words: tuple[str, ...]
    like: str  # scenarios that must end alike

    @property
    def several(self) -> bool:
        return self.words[0] == "compare"


def scenarios(tasks: list[str], ray: bool) -> list[Scenario]:
    found = []
    for index, task in enumerate(tasks):
        budget = (*TASKS[task], *OFTEN)
        for method in METHODS:
            found.append(Scenario("run", ("run", task, "--method", method, *budget), f"{task} {method}"))
        for at_once in ("1", "3"):
            three = ",".join(METHODS[(3 * index + k) % len(METHODS)] for k in range(3))
            words = ("compare", task, "--methods", three, "--seeds", "2", "--at-once", at_once, *budget)
            like = f"{task} compare {at_once}"
            name = "compare" if at_once == "1" else "compare, three at once"
            found.append(Scenario(name, (*words, "--workers", "2"), like))
            if ray:
                found.append(Scenario(f"{name}, Ray", (*words, "--executor", "ray"), like))
    return found


class Chaos:
    """Undisturbed results, made once each, and trials against them."""

    def __init__(self, work: Path, seed: int) -> None:
        self.work = work
        self.rng = random.Random(seed)
        self.whole: dict[str, Path] = {}
        self.seconds: dict[Scenario, float] = {}

    def prepare(self, scenario: Scenario) -> None:
        """What the scenario leaves undisturbed, and how long it takes."""
        folder = self.work / "whole" / scenario.kind / scenario.like.replace(":", "-")
        command = Command([*scenario.words, "--out", str(folder)])
        command.until_ready()
        began = time.monotonic()
        code, complaint = command.ended()
        if code != 0:
            raise SystemExit(f"undisturbed, {command} ended with {code}: {complaint}")
        self.seconds[scenario] = time.monotonic() - began
        first = self.whole.setdefault(scenario.like, folder)
        if first != folder:
            same_records(first, folder)
        print(f"undisturbed: {scenario.like} ({scenario.kind}), {self.seconds[scenario]:.1f} s", flush=True)

    def trial(self, number: int, scenario: Scenario, sent: signal.Signals, choice: random.Random) -> str:
        """What was hit; raises where something is not as it should be."""
        latest = self.seconds[scenario]
        while True:
            folder = self.work / f"trial-{number}-{latest:.3f}"
            command = Command([*scenario.words, "--out", str(folder)])
            command.until_ready()
            if command.lives_for(choice.uniform(0, latest)):
                break
            command.ended()
            latest *= 0.7  # the machine was busier when the undisturbed command was timed
        target = choice.choice(["command", "worker"] if sent == signal.SIGKILL else ["command", "group"])
        if scenario.several and target == "worker":
            command.until_held(folder)
            command.lives_for(choice.uniform(0, latest / 3))
        hit = command.hit(sent, target if scenario.several else "command", folder)
        code, complaint = command.ended()
        command.gone()
        command.go_on(code, complaint, folder, hit)
        settled(folder)
        same_records(self.whole[scenario.like], folder)
        return f"{scenario.kind}: {sent.name} to the {hit}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--interrupts", type=int, default=50)
    parser.add_argument("--terminations", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(TASKS), help="of one task")
    parser.add_argument("--kinds", default="", help="of these kinds, by the first letters, with / between")
    parser.add_argument("--jobs", type=int, default=1, help="trials side by side")
    options = parser.parse_args()
    tasks = [options.only] if options.only else [task for task in TASKS if find_spec(NEEDED.get(task, "jax"))]
    chosen = scenarios(tasks, find_spec("ray") is not None)
    if options.kinds:
        chosen = [scenario for scenario in chosen if scenario.kind in options.kinds.split("/")]
    with tempfile.TemporaryDirectory(prefix="chaos-") as work:
        return run(Chaos(Path(work), options.seed), chosen, options)


def run(chaos: Chaos, chosen: list[Scenario], options: argparse.Namespace) -> int:
    sent = [signal.SIGKILL] * options.kills + [signal.SIGINT] * options.interrupts
    sent += [signal.SIGTERM] * options.terminations
    chaos.rng.shuffle(sent)
    order = chaos.rng.sample(chosen, len(chosen))
    drawn = [order[number % len(order)] for number in range(len(sent))]
    counts: collections.Counter[str] = collections.Counter()
    broken: list[str] = []

    def one(number: int) -> None:
        try:
            told = chaos.trial(number, drawn[number], sent[number], random.Random(f"{options.seed} {number}"))
            counts[told] += 1
            print(f"{number + 1} of {len(sent)}: {drawn[number].like}, {told}", flush=True)
        except Broken as error:
            broken.append(f"{drawn[number].like}, {drawn[number].kind}, {sent[number].name}: {error}")
            print(f"{number + 1} of {len(sent)}: BROKEN: {broken[-1]}", flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(chaos.prepare, dict.fromkeys(drawn)))
        list(pool.map(one, range(len(sent))))
    try:
        all_gone()
    except Broken as error:
        broken.append(str(error))
    for told, count in sorted(counts.items()):
        print(f"{count:5} {told}")
    print(f"{sum(counts.values())} of {len(sent)} signals: same bytes, no orphan, no lock, no temporary file")
    for line in broken:
        print(f"broken: {line}")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
