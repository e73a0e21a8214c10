"""Write the leaderboard of the documentation from recorded results.

    geodesic benchmark --methods all --seeds 5 --first-seed 1000 --out runs/leaderboard
    python -m benchmarks.leaderboard --record runs/leaderboard    # keep the numbers of its runs in the repository
    python -m benchmarks.leaderboard                              # write the tables into docs/results/leaderboard.md

The numbers of each run are in benchmarks/leaderboard/scores.csv, as `geodesic benchmark` writes them. Everything
between the markers of the page is replaced.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from geodesic.analysis.aggregate import Aggregate, TaskScores, aggregate, improvement
from geodesic.analysis.intervals import Estimate, interquartile_mean
from geodesic.errors import count
from geodesic.report.benchmark import REFERENCES, BenchmarkResults, scores_csv
from geodesic.report.tables import interval_text, lay_out
from geodesic.report.text import format_known, record
from geodesic.tasks.suites import DEFAULT, choose

HERE = Path(__file__).parent
SCORES = HERE / "scores.csv"
PAGE = HERE.parents[1] / "docs" / "results" / "leaderboard.md"

Run = dict[str, str]  # a line of the file


def read(path: Path) -> list[Run]:
    """The recorded runs."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def number(text: str) -> float:
    return float(text) if text else np.nan


def scores_of(runs: Sequence[Run]) -> list[TaskScores]:
    """The results of each task of the suite."""
    found = []
    for member in choose(DEFAULT):
        own = [run for run in runs if run["task"] == member.task]
        if any(int(run["steps"]) != member.steps for run in own):
            raise SystemExit(f"{member.task} was recorded with another budget than {member.steps} steps")
        labels = dict.fromkeys(run["label"] for run in own)

        def column(label: str, name: str, own: list[Run] = own) -> np.ndarray:
            return np.array([number(run[name]) for run in own if run["label"] == label])

        if own:
            reached = {label: column(label, "stays_above") for label in labels}
            times = {label: np.where(np.isnan(own), np.inf, own) for label, own in reached.items()}
            scores = {label: member.normalised(column(label, "final_score")) for label in labels}
            found.append(TaskScores(member.task, scores, times))
    return found


def interval(estimate: Estimate, form: str = ".2f") -> str:
    return interval_text(estimate, lambda value: format(value, form))


def methods_table(rows: Sequence[Aggregate], tasks: Sequence[TaskScores], reference: str) -> str:
    """One line per method, those with all tasks first."""
    header = ("method", "IQM", f"P(better than {reference})", "rank of time", "solved", "tasks", "runs")
    lines: list[tuple[str, ...]] = [header]
    for row in sorted(rows, key=lambda row: -row.tasks):
        shown = interval(row.iqm), interval(row.better), interval(row.rank, ".1f"), f"{row.solved:.0%}"
        lines.append((f"`{row.label}`", *shown, f"{row.tasks}/{len(tasks)}", str(row.runs)))
    return lay_out(lines, markdown=True)


def tasks_table(rows: Sequence[Aggregate], tasks: Sequence[TaskScores]) -> str:
    """The interquartile mean of the normalised score of each method on each task, and how many seeds solved it."""
    lines: list[tuple[str, ...]] = [("method", *(task.task for task in tasks))]
    for row in sorted(rows, key=lambda row: -row.tasks):
        cells = []
        for task in tasks:
            own, times = task.scores.get(row.label, np.zeros(0)), task.times.get(row.label, np.zeros(0))
            known = format_known(float(interquartile_mean(own)), ".2f", "-") if len(own) else "-"
            cells.append(f"{known} ({np.isfinite(times).sum()}/{len(own)})" if len(own) else "-")
        lines.append((f"`{row.label}`", *cells))
    return lay_out(lines, markdown=True)


def scale_table(runs: Sequence[Run]) -> str:
    """The budget and the scale of each task."""
    lines: list[tuple[str, ...]] = [("task", "steps", "floor: 0", "top: 1", "seeds")]
    for member in choose(DEFAULT):
        seeds = sorted({int(run["seed"]) for run in runs if run["task"] == member.task})
        if seeds:
            ends = f"{seeds[0]} to {seeds[-1]}"
            lines.append((f"`{member.task}`", f"{member.steps:,}", f"{member.floor:g}", f"{member.top:g}", ends))
    return lay_out(lines, markdown=True)


def baseline_lines(rows: Sequence[Aggregate], tasks: Sequence[TaskScores], reference: str) -> list[str]:
    """In how many tasks each method is better or worse than the reference, by the interval."""
    found = []
    for row in sorted(rows, key=lambda row: -row.tasks):
        if row.label == reference:
            continue
        each = [improvement([task], row.label, reference) for task in tasks]
        better, worse = sum(one.low > 0.5 for one in each), sum(one.high < 0.5 for one in each)
        known = sum(not np.isnan(one.value) for one in each)
        found.append(f"- `{row.label}`: better in {better}, worse in {worse} of {known} tasks")
    return found


def text_of(runs: Sequence[Run]) -> str:
    """Everything between the markers of the page."""
    tasks = scores_of(runs)
    labels = {run["label"] for run in runs}
    reference = next(name for name in REFERENCES if name in labels)
    rows = aggregate(tasks, reference)
    parts = [
        f"Recorded: {count(len(labels), 'method')} on {len(tasks)} of the suite's {len(choose(DEFAULT))} tasks, "
        f"{count(len(runs), 'run')}.",
        methods_table(rows, tasks, reference),
        "Normalised score, interquartile mean over the seeds of each task; in parentheses the seeds that stay above "
        "the threshold to the end:",
        tasks_table(rows, tasks),
        "The scale and the seeds:",
        scale_table(runs),
        f"Beside `{reference}`, task by task, where the 95 % interval of the probability of improvement does not "
        "contain one half:",
        "\n".join(baseline_lines(rows, tasks, reference)),
    ]
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.leaderboard",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--record", type=Path, metavar="DIR", help="keep the numbers of the benchmark in this folder")
    options = parser.parse_args(arguments)
    if options.record is not None:
        SCORES.write_text(scores_csv(BenchmarkResults.read(options.record)), encoding="utf-8")
        print(f"wrote {SCORES.name}")
        return 0
    record(PAGE, "leaderboard", text_of(read(SCORES)))
    print(f"wrote {PAGE.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
