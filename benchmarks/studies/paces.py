"""Compare GRADIENT's paces with other methods: how early and how reliably they solve a task, and their final scores.

    python -m benchmarks.studies.paces                                     # PointMass, three seeds
    python -m benchmarks.studies.paces maze point-mass u-maze --seeds 20 --first-seed 1000 --at-once 20
    python -m benchmarks.studies.paces point-mass --steps 800000 --goal 80 --methods gradient,gradient:pace=particles
    python -m benchmarks.studies.paces fetch-push --read --until 190000    # only print the table as of that step

Each task is a `geodesic compare` in a separate folder under --out; call it again to resume. The columns are: seeds
that solve the task for good; seeds whose final score is above --goal (default: the level that counts as solved); median
steps until the task is solved for good, and until it is solved first; interquartile means of the final scores;
the probability that a seed solves the task earlier than one of the first method with a fixed step; and the probability
that it ends higher than one of CURROT. Brackets hold 95 % intervals. Settings are chosen on seeds below 100, and
reported on others.

With --ends the final scores of all seeds follow for each method, lowest first, and then by seed: the step of the first
successful training episode, the step at which a source was found, and the number of stages that explored (to fit the
metric or to find a source).

With --read nothing is trained. With --until the table is about runs cut at that step: all that have reached it,
finished or not.
"""

from __future__ import annotations

import argparse
from dataclasses import fields, replace
from itertools import compress
from pathlib import Path
from typing import TypeVar

import numpy as np

from geodesic.analysis.intervals import Estimate, iqm_of, median_of, probability_of_improvement
from geodesic.analysis.statistics import WINDOW, Seeds, of_seeds
from geodesic.cli import main as geodesic
from geodesic.records.reader import RunResult, by_label, load_comparison
from geodesic.records.schema import EpisodeTable, EvaluationTable, StageTable

Table = TypeVar("Table", EpisodeTable, EvaluationTable, StageTable)

METHODS = (
    "gradient",
    "gradient:pace=adaptive",
    "gradient:pace=adaptive:source=auto",
    "gradient:pace=particles",
    "gradient:pace=particles:source=auto",
    "currot",
    "spdl",
    "wb-spdl",
    "procurl-target",
    "uniform",
    "target-only",
)
HEADER = (
    "method",
    "seeds",
    "solved",
    "at the goal",
    "stays above",
    "first above",
    "final IQM",
    "P(first)",
    "P(faster)",
    "P(better)",
)


def cell(estimate: Estimate | None, unit: float = 1.0, digits: int = 1) -> str:
    """A value with its interval, if there are enough seeds for one."""
    if estimate is None or np.isnan(estimate.value):
        return "-"
    if np.isinf(estimate.value):
        return "never"
    value, low, high = (f"{x / unit:z.{digits}f}" for x in (estimate.value, estimate.low, estimate.high))
    return value if np.isnan(estimate.low) else f"{value} [{low}, {high}]"


def line(label: str, own: Seeds, first: Seeds | None, currot: Seeds | None, goal: float) -> tuple[str, ...]:
    """A row of the table."""
    known = None if first in (None, own) else first
    earlier = probability_of_improvement(-own.firsts, -known.firsts) if known else None
    faster = probability_of_improvement(-own.times, -known.times) if known else None
    better = None if currot in (None, own) else probability_of_improvement(own.finals, currot.finals)
    return (
        label,
        str(len(own)),
        str(int(np.isfinite(own.times).sum())),
        str(int((own.finals > goal).sum())),
        cell(median_of(own.times), 1e3),
        cell(median_of(own.firsts), 1e3),
        cell(iqm_of(own.finals), digits=2),
        cell(earlier, digits=2),
        cell(faster, digits=2),
        cell(better, digits=2),
    )


def table(runs: list[RunResult], goal: float | None) -> str:
    """The table of all methods of a task; times in thousands of steps."""
    solved = runs[0].solved
    seeds = {label: of_seeds(group, solved, WINDOW) for label, group in by_label(runs).items()}
    seeds = {label: own for label, own in seeds.items() if len(own)}
    fixed = (own for label, own in seeds.items() if not any(part.startswith("pace=") for part in label.split(":")))
    first = next(fixed, next(iter(seeds.values()), None))
    level = solved if goal is None else goal
    rows = [HEADER, *(line(label, own, first, seeds.get("currot"), level) for label, own in seeds.items())]
    widths = [max(len(row[k]) for row in rows) for k in range(len(HEADER))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def ends(runs: list[RunResult]) -> str:
    """All final scores by method: seeds may end in groups that an interquartile mean hides."""
    lines = []
    for label, group in by_label(runs).items():
        finals = np.sort(of_seeds(group, runs[0].solved).finals)
        lines.append(f"{label}: " + " ".join(f"{score:z.4g}" for score in finals))
        lines.append("  first success " + " ".join(first_success(run) for run in group))
        found = [run.stages.steps[np.array(run.stages.events) == "source found"] for run in group]
        if any(map(len, found)):
            lines.append("  source found " + " ".join(str(steps[0]) if len(steps) else "-" for steps in found))
        fits = [int(run.stages.explores.sum()) for run in group]
        if any(fits):
            lines.append("  explored " + " ".join(map(str, fits)))
    return "\n".join(lines)


def first_success(run: RunResult) -> str:
    """The step of the first successful episode; "-" if none succeeded, "?" if none was recorded."""
    steps = run.episodes.steps[run.episodes.successes > 0]
    return str(steps[0]) if len(steps) else "-" if len(run.episodes.steps) else "?"


def until(runs: list[RunResult], step: int) -> list[RunResult]:
    """The runs that were evaluated at this step or later, cut there."""
    reached = [run for run in runs if len(run.evaluations.steps) and run.evaluations.steps[-1] >= step]
    if not reached:
        raise SystemExit(f"expected runs that have reached step {step}, got none")
    return [_until(run, int(run.evaluations.steps[run.evaluations.steps <= step][-1])) for run in reached]


def _until(run: RunResult, step: int) -> RunResult:
    tables = _first(run.episodes, step), _first(run.evaluations, step), _first(run.stages, step)
    return replace(run, episodes=tables[0], evaluations=tables[1], stages=tables[2], finished=True)


def _first(table: Table, step: int) -> Table:
    kept = table.steps <= step
    columns = ((column.name, getattr(table, column.name)) for column in fields(table))
    return replace(
        table,
        **{
            name: tuple(compress(values, kept)) if isinstance(values, tuple) else values[kept]
            for name, values in columns
        },
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=["point-mass"])
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--threshold", type=float)
    parser.add_argument("--goal", type=float)
    parser.add_argument("--at-once", type=int)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--read", action="store_true")
    parser.add_argument("--until", type=int)
    parser.add_argument("--ends", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("runs/paces"))
    options = parser.parse_args()
    passed = ("methods", "seeds", "first_seed", "steps", "threshold", "at_once", "workers")
    given = {f"--{name.replace('_', '-')}": getattr(options, name) for name in passed}
    words = [f"{name}={value}" for name, value in given.items() if value is not None]
    failed = 0
    for task in options.tasks:
        out = options.out / task.replace(":", "-").replace("/", "-")
        if not options.read:
            failed |= geodesic(["compare", task, "--quiet", "--out", str(out), *words])
        runs = load_comparison(out)
        runs = runs if options.until is None else until(runs, options.until)
        source = str(out) if options.read else " ".join(words)
        source += "" if options.until is None else f", until step {options.until}"
        print(f"\n{task}: {source}\n{table(runs, options.goal)}\n", flush=True)
        if options.ends:
            print(ends(runs), flush=True)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
