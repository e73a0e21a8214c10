"""What a benchmark says: one line per method over all tasks, the table of each task, and the files with both."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import wrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from geodesic.analysis.aggregate import TAUS, Aggregate, TaskScores, aggregate
from geodesic.analysis.intervals import Estimate
from geodesic.analysis.statistics import of_seeds, summarise, window_of
from geodesic.checks import FloatArray, IntArray, as_path
from geodesic.errors import count, printable
from geodesic.records.files import write_atomically
from geodesic.records.reader import RunResult, by_label
from geodesic.report.curves import LearningCurves
from geodesic.report.style import INK, new_figure, step_axis, styled, styles_of, value_axis
from geodesic.report.tables import TERMINAL, as_text, format_table, interval_text, lay_out
from geodesic.report.text import format_known
from geodesic.runs.benchmark import load_benchmark
from geodesic.tasks.suites import Benchmark

Cell = tuple[str, object]  # the text, and the value to sort by

REFERENCES = ("uniform", "target-only")  # what the others are compared with: the first one that was trained
BANDS = 4  # that can be distinguished in one figure
SCALE = ("task", "steps", "learner", "score", "floor", "top", "solved above", "seeds")
SCORES = ("task", "label", "seed", "steps", "final_score", "normalised", "success", "stays_above")


@dataclass(frozen=True, eq=False)
class BenchmarkResults:
    """The results of a benchmark, read from its folder.

    Args:
        folder: The folder.
        suite: The name of the suite.
        tasks: For each task that has runs, the task and the runs.
    """

    folder: Path
    suite: str
    tasks: dict[str, tuple[Benchmark, list[RunResult]]]

    @classmethod
    def read(cls, folder: str | Path) -> BenchmarkResults:
        """Read the benchmark in a folder; nothing that it names is run.

        Raises:
            InvalidInput: If the folder holds no benchmark or no run.
            CheckpointError: If a file in it is damaged.
        """
        path = as_path(folder)
        return cls(path, *load_benchmark(path))

    @cached_property
    def runs(self) -> list[RunResult]:
        """All runs."""
        return [run for _, runs in self.tasks.values() for run in runs]

    @cached_property
    def reference(self) -> str | None:
        """The label that the others are compared with."""
        labels = {run.method: run.label for run in reversed(self.runs)}
        return next((labels[name] for name in REFERENCES if name in labels), None)

    @cached_property
    def scores(self) -> list[TaskScores]:
        """The results of each task."""
        return [_scores_of(member, runs) for member, runs in self.tasks.values()]

    @cached_property
    def rows(self) -> list[Aggregate]:
        """One row for each method with a finished run."""
        return aggregate(self.scores, self.reference)

    def sentences(self) -> list[str]:
        """Say what was trained and what a normalised score is."""
        labels, done = by_label(self.runs), sum(run.finished for run in self.runs)
        finished = "all finished" if done == len(self.runs) else f"{done} of them finished"
        return [
            f"Suite {self.suite}: {count(len(labels), 'method')} on {count(len(self.tasks), 'task')}, "
            f"{count(len(self.runs), 'run')}, {finished}.",
            "A normalised score is 0 at a task's floor and 1 at its top; every task has the same weight.",
        ]


def _scores_of(member: Benchmark, runs: Sequence[RunResult]) -> TaskScores:
    window = window_of(runs)
    seeds = {label: of_seeds(group, group[0].solved, window) for label, group in by_label(runs).items()}
    return TaskScores(
        member.task,
        {label: member.normalised(own.finals) for label, own in seeds.items()},
        {label: np.where(np.isnan(own.times), np.inf, own.times) for label, own in seeds.items()},
    )


def header(results: BenchmarkResults) -> tuple[str, ...]:
    """The columns of the table with one line per method."""
    chance = f"P(better than {results.reference})" if results.reference else "P(better)"
    return ("method", "IQM", chance, "rank of time", "solved", *results.tasks, "runs")


def cells(row: Aggregate, results: BenchmarkResults) -> list[Cell]:
    """The cells of a method's line, each with the value to sort by."""

    def interval(estimate: Estimate) -> tuple[str, float]:
        return interval_text(estimate, "{:.2f}".format), estimate.value

    means = [row.mean.get(task, math.nan) for task in results.tasks]
    missing = "" if row.tasks == len(results.tasks) else f", {row.tasks}/{len(results.tasks)} tasks"
    return [
        (row.label, row.label),
        interval(row.iqm),
        interval(row.better),
        (interval_text(row.rank, "{:.1f}".format), row.rank.value),
        (f"{row.solved:.0%}", row.solved),
        *((format_known(mean, ".2f", "-"), mean) for mean in means),
        (f"{row.runs}{missing}", row.runs),
    ]


def notes(results: BenchmarkResults) -> list[str]:
    """Explain the columns."""
    chance = f" P: the probability that a seed is better than one of {results.reference}, mean over tasks"
    lines = [
        "IQM: interquartile mean of the normalised final scores of all tasks and seeds. Rank of time: to stay above "
        "the threshold, 1 is first. Solved: seeds that stay above the threshold to the end, mean over tasks. Then the "
        "mean normalised score of each task.",
        "Brackets: 95 % intervals, by the stratified bootstrap over seeds for IQM and rank, which is too narrow with "
        f"few seeds.{f'{chance}, with an interval that holds for any number of seeds.' if results.reference else ''}",
    ]
    if any(row.tasks < len(results.tasks) for row in results.rows):
        lines.append("Methods that lack tasks are not comparable in IQM, P and solved: compare them task by task.")
    return lines


def summary_table(results: BenchmarkResults, markdown: bool = False) -> str:
    """Write the table with one line per method, and what its columns mean.

    Args:
        results: The results.
        markdown: Whether to write Markdown instead of plain text.

    Returns:
        The table; the best interquartile mean comes first.
    """
    lines = [header(results), *(tuple(text for text, _ in cells(row, results)) for row in results.rows)]
    remarks = notes(results)
    if markdown:
        return "\n\n".join([lay_out(lines, markdown), *remarks])
    return "\n".join([lay_out(lines), *(line for note in remarks for line in wrap(note, TERMINAL))])


def scale_cells(results: BenchmarkResults) -> list[list[Cell]]:
    """The budget of each task, and the scores that count as 0 and 1, each with the value to sort by."""
    found = []
    for name, (member, runs) in results.tasks.items():
        config, seeds = runs[0].config, [len(group) for group in by_label(runs).values()]
        many = str(max(seeds)) if min(seeds) == max(seeds) else f"{min(seeds)} to {max(seeds)}"
        words = [(text, text) for text in (printable(str(config.learner)), config.score_name)]
        levels = [(f"{value:g}", value) for value in (member.floor, member.top, runs[0].solved)]
        found.append([(name, name), (f"{member.steps:,}", member.steps), *words, *levels, (many, max(seeds))])
    return found


def scale_table(results: BenchmarkResults, markdown: bool = False) -> str:
    """Write the budget of each task, and the scores that count as 0 and 1."""
    return lay_out([SCALE, *(tuple(text for text, _ in line) for line in scale_cells(results))], markdown)


def task_tables(results: BenchmarkResults, markdown: bool = False) -> dict[str, str]:
    """Write the table of each task, as `geodesic compare` does."""
    return {name: format_table(summarise(runs, runs[0].solved), markdown) for name, (_, runs) in results.tasks.items()}


def write_tables(results: BenchmarkResults) -> list[Path]:
    """Write benchmark.md with all tables, and for other programs aggregate.csv and scores.csv.

    Returns:
        The paths of the files.
    """
    parts = ["# Benchmark", *results.sentences(), summary_table(results, True), "## Tasks", scale_table(results, True)]
    for name, table in task_tables(results, True).items():
        parts += [f"### {name}", table]
    texts = {
        "benchmark.md": "\n\n".join([*parts, ""]),
        "aggregate.csv": aggregate_csv(results),
        "scores.csv": scores_csv(results),
    }
    for name, text in texts.items():
        write_atomically(results.folder / name, lambda file, text=text: file.write(text.encode()))  # type: ignore[misc]
    return [results.folder / name for name in texts]


def aggregate_csv(results: BenchmarkResults) -> str:
    """Write one line per method; the ends of each interval are in columns _low and _high."""
    fields = ("iqm", "better", "rank")
    ends = [f"{name}{end}" for name in fields for end in ("", "_low", "_high")]
    lines: list[Sequence[object]] = [("label", "tasks", "runs", *ends, "solved", *results.tasks)]
    for row in results.rows:
        estimates = [getattr(row, name) for name in fields]
        numbers = [value for each in estimates for value in (each.value, each.low, each.high)]
        means = [row.mean.get(task, math.nan) for task in results.tasks]
        lines.append((as_text(row.label), row.tasks, row.runs, *map(_number, [*numbers, row.solved, *means])))
    return _csv(lines)


def scores_csv(results: BenchmarkResults) -> str:
    """Write one line per finished run: its final score on the target, normalised too, and the time to the threshold."""
    lines: list[Sequence[object]] = [SCORES]
    for name, (member, runs) in results.tasks.items():
        window = window_of(runs)
        for run in runs:
            own = of_seeds([run], run.solved, window)
            for k in range(len(own)):
                values = (own.finals[k], member.normalised(own.finals)[k], own.successes[k], own.times[k])
                lines.append((name, as_text(run.label), run.seed, run.steps, *map(_number, values)))
    return _csv(lines)


def _csv(lines: Sequence[Sequence[object]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()


def _number(value: float) -> str:
    """A number with six digits; empty if it is unknown."""
    return "" if math.isnan(value) else f"{value:.6g}"


@styled
def profile_figure(results: BenchmarkResults) -> Figure:
    """Draw the performance profiles: for each method the fraction of its runs above a normalised score.

    Bands are 95 % intervals; with many methods only lines are drawn. The page has the legend.
    """
    figure, axes = _axes("normalised score τ", "fraction of runs above τ")
    for row in results.rows:
        _line(axes, results, row.label, TAUS, row.profile)
        if len(results.rows) <= BANDS:
            axes.fill_between(
                TAUS, row.low, row.high, color=styles_of(results.runs)[row.label].colour, alpha=0.15, linewidth=0
            )
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02)
    return figure


@styled
def curves_figure(runs: Sequence[RunResult], results: BenchmarkResults) -> Figure:
    """Draw the interquartile means of the evaluations of one task."""
    drawn = LearningCurves.of(runs)
    figure, axes = _axes("", drawn.axis)
    for label, curve in drawn.curves.items():
        _line(axes, results, label, curve.steps, curve.middle)
    if math.isfinite(drawn.level):
        axes.axhline(drawn.level, color=INK, linewidth=1, linestyle=(0, (2, 2)), zorder=1)
    step_axis(axes)
    return figure


def _axes(x: str, y: str) -> tuple[Figure, Axes]:
    figure = new_figure(6.0, 3.4)
    axes = figure.subplots()
    value_axis(axes, y)
    axes.set_xlabel(x)
    return figure, axes


def _line(axes: Axes, results: BenchmarkResults, label: str, x: FloatArray | IntArray, y: FloatArray) -> None:
    """A line with the colour, the pattern and the number of its method on the page."""
    look, place = styles_of(results.runs)[label], list(by_label(results.runs)).index(label)
    axes.plot(x, y, color=look.colour, linestyle=look.line, gid=f"line-{place}")
