"""Judge a method on tasks that nothing was tuned on, written as newcomers to the library would write them.

    python -m benchmarks.studies.newcomers --methods target-only,uniform --reference gradient:step=0.1
    python -m benchmarks.studies.newcomers --tasks catch,lander --seeds 20 --out runs/newcomers
    python -m benchmarks.studies.newcomers --tasks reacher,maze,benchmarks.studies.newcomers.tuned_on:swing_up
    python -m benchmarks.studies.newcomers --read             # only print the tables

Each task is in a file in this folder. It has an easy source and a hard target that come to mind, a threshold guessed
from the reward, and the default learner. None of them was chosen by how well curricula do. --tasks also takes any other
task. Those in tuned_on.py are some that the default method's settings were chosen on, and its rule was changed because
of its losses on reacher, pendulum and drone, so that these are trained only if they are named.

All methods and seeds of a task train in one program, in this process. Each task has a comparison in a separate folder
under --out; call it again to resume. The reference is trained too. The table of a task is that of `geodesic compare`.
P(reference better) is the probability that a seed of the reference has a higher final score on the target than a seed
of this line's method, with its 95 % interval.

The summary has a line for each other method: in how many tasks the interval is above 1/2 (better) or below (worse), the
mean of the probability over the tasks, how many seeds solve the target, and how many of the reference's do.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.studies.newcomers import TASKS, reference
from geodesic.analysis.aggregate import mean_probability
from geodesic.analysis.statistics import Row, summarise
from geodesic.errors import GeodesicError
from geodesic.records import trackers
from geodesic.records.reader import load_comparison
from geodesic.report.tables import format_table
from geodesic.runs.compare import SEPARATOR, compare, plan_comparison
from geodesic.runs.executors import ThisProcess
from geodesic.training.configure import method_label

METHODS = "target-only,uniform,gradient:step=0.1,gradient:pace=adaptive"
HEADER = ("method", "tasks", "better", "worse", "mean P(reference better)", "solved", "by the reference")


def train(name: str, methods: Sequence[str], seeds: Sequence[int], out: Path, options: argparse.Namespace) -> bool:
    """Train what is missing of a task; whether all runs are finished."""
    task = reference(name)
    configs = plan_comparison(task, methods, seeds, options.steps, out, learner=options.learner)
    failed = compare(configs, out, executor=ThisProcess(), at_once=options.at_once).failed
    for run, reason in failed.items():
        print(f"{name}: {run} failed: {reason}", file=sys.stderr, flush=True)
    return not failed


def rows_of(out: Path, label: str) -> list[Row]:
    """A row for each method in the folder of a task."""
    runs = load_comparison(out)
    return summarise(runs, runs[0].solved, label)


def summary(tasks: dict[str, list[Row]], label: str) -> str:
    """A line for each method that the reference was compared with."""
    others = dict.fromkeys(row.label for rows in tasks.values() for row in rows if row.better is not None)
    lines = [HEADER, *(line(other, label, tasks) for other in others)]
    widths = [max(len(cells[k]) for cells in lines) for k in range(len(HEADER))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip() for cells in lines)


def line(other: str, label: str, tasks: dict[str, list[Row]]) -> tuple[str, ...]:
    """A method's line in the summary."""
    pairs = [
        (ours, row)
        for rows in tasks.values()
        for ours in rows
        for row in rows
        if (ours.label, row.label) == (label, other) and row.better is not None and not np.isnan(row.better.value)
    ]
    estimates = [row.better for _, row in pairs if row.better is not None]
    better, worse = sum(each.low > 0.5 for each in estimates), sum(each.high < 0.5 for each in estimates)
    mean = mean_probability(estimates, min((min(ours.finished, row.finished) for ours, row in pairs), default=0))
    solved = [f"{sum(row.reached for row in own)}/{sum(row.finished for row in own)}" for own in zip(*pairs)]
    ours, theirs = solved or ("-", "-")
    text = "-" if np.isnan(mean.value) else f"{mean.value:.2f} [{mean.low:.2f}, {mean.high:.2f}]"
    return (other, str(len(pairs)), str(better), str(worse), text, theirs, ours)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line's options."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.studies.newcomers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--reference", default="auto")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--steps", type=int, help="of each run (default: the task's)")
    parser.add_argument("--learner", help="such as sac (default: the task's)")
    parser.add_argument("--at-once", type=int, help="runs in one program (default: all of a task)")
    parser.add_argument("--read", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("runs/newcomers"))
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    os.environ.setdefault(trackers.VARIABLE, "none")
    methods = list(dict.fromkeys([options.reference, *SEPARATOR.split(options.methods)]))
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    label, complete, tasks = method_label(options.reference), True, {}
    for name in options.tasks.split(","):
        out = options.out / name.rpartition(":")[2]
        try:
            if not options.read:
                complete &= train(name, methods, seeds, out, options)
            tasks[name] = rows_of(out, label)
        except KeyboardInterrupt:
            print(f"stopped at {name}; call it again to resume", file=sys.stderr)
            return 1
        except GeodesicError as error:
            complete = False
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            continue
        print(f"\n{name}\n{format_table(tasks[name])}", flush=True)
    print(f"\n{len(tasks)} tasks, reference {label}\n{summary(tasks, label)}", flush=True)
    return 0 if complete else 1


if __name__ == "__main__":
    raise SystemExit(main())
