"""The page of a benchmark: one line per method that can be sorted, the command behind it, and each task."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from geodesic.analysis.aggregate import improvement
from geodesic.analysis.intervals import UNKNOWN
from geodesic.analysis.statistics import summarise
from geodesic.errors import printable
from geodesic.records.files import clear_leftovers, write_atomically
from geodesic.records.reader import RunResult, by_label
from geodesic.registry import is_reference
from geodesic.report import benchmark
from geodesic.report.benchmark import BenchmarkResults
from geodesic.report.page import PAGE, charts, check_extra, render, story, themes
from geodesic.report.style import styles_of, svg
from geodesic.report.tables import notes, table_cells
from geodesic.tasks.suites import suite_of


@dataclass(frozen=True)
class TaskSection:
    """What the page shows of a task.

    Args:
        name: The name of the task.
        curves: Its learning curves, as an SVG element.
        header: The columns of its table.
        rows: The lines of its table.
        notes: What the columns mean.
        command: The command that draws its figures and its page.
    """

    name: str
    curves: str
    header: tuple[str, ...]
    rows: list[list[story.Cell]]
    notes: list[str]
    command: str


@dataclass(frozen=True)
class Chip:
    """A method in the legend.

    Args:
        label: The method with its options.
        dashes: The pattern of its lines.
    """

    label: str
    dashes: list[float]


def write_benchmark_report(results: BenchmarkResults) -> Path:
    """Write the page of a benchmark into its folder; nothing that the folder names is run.

    Args:
        results: The results.

    Returns:
        The path of the page, report.html in the folder.

    Raises:
        MissingExtra: If a library of the extra `report` is not installed.
    """
    check_extra()
    groups = by_label(results.runs)
    lines = {row.label: command(results, groups[row.label]) for row in results.rows}
    text = render(
        "benchmark",
        results=results,
        sentences=results.sentences(),
        again=command(results, results.runs),
        themes=themes(results.runs, []),
        chips=[Chip(label, dashes) for label, dashes in zip(groups, charts.dashes(results.runs))],
        header=benchmark.header(results),
        rows=[benchmark.cells(row, results) for row in results.rows],
        copies=[f"command-{k}" if line else "" for k, line in enumerate(lines.values())],
        notes=benchmark.notes(results),
        bands=len(results.rows) <= benchmark.BANDS,
        profile=_drawn(benchmark.profile_figure(results), results, "profile"),
        labels=list(lines),
        chances=[
            [UNKNOWN if ours == other else improvement(results.scores, ours, other) for other in lines]
            for ours in lines
        ],
        scale_header=benchmark.SCALE,
        scale=benchmark.scale_cells(results),
        tasks=[_section(results, name, runs) for name, (_, runs) in results.tasks.items()],
        commands=lines,
    )
    clear_leftovers(results.folder, PAGE)
    write_atomically(results.folder / PAGE, lambda file: file.write(text.encode()))
    return results.folder / PAGE


def command(results: BenchmarkResults, runs: Sequence[RunResult]) -> str:
    """Return the command that repeats runs, safe to paste; empty if one was passed as an object.

    Args:
        results: The results.
        runs: Some of their runs, which share the seeds of each task.
    """
    if any(run.config.objects for run in runs):
        return ""
    methods = ",".join(dict.fromkeys(map(_method, runs)))
    tasks: dict[tuple[int, int], list[str]] = {}  # by the first seed and the number of seeds
    for name, (_, own) in results.tasks.items():
        seeds = [run.seed for run in runs if run in own]
        if seeds:
            tasks.setdefault((min(seeds), max(seeds) - min(seeds) + 1), []).append(name)
    parts = []
    for (first, number), names in tasks.items():
        words = ["geodesic", "benchmark", "--suite", results.suite, "--methods", methods]
        words += ["--tasks", ",".join(names)] if len(names) < len(suite_of(results.suite)) else []
        words += ["--seeds", str(number), *(["--first-seed", str(first)] if first else [])]
        parts.append(printable(shlex.join([*words, "--out", str(results.folder)])))
    return " && ".join(parts)


def _method(run: RunResult) -> str:
    """A run's method as it was written; its label lacks the file or module of a reference."""
    config = run.config
    return f"{config.method.rpartition(':')[0]}:{config.label}" if is_reference(config.method) else config.label


def _section(results: BenchmarkResults, name: str, runs: Sequence[RunResult]) -> TaskSection:
    rows = summarise(runs, runs[0].solved)
    header, *lines = table_cells(rows)
    return TaskSection(
        name=name,
        curves=_drawn(benchmark.curves_figure(runs, results), results, name),
        header=header,
        rows=[story.summary_row(row, line) for row, line in zip(rows, lines)],
        notes=notes(rows),
        command=printable(shlex.join(["geodesic", "report", str(results.folder / name)])),
    )


def _drawn(figure: Figure, results: BenchmarkResults, name: str) -> str:
    """A figure as an SVG element whose names differ from those of the page's other figures."""
    styles = styles_of(results.runs).values()
    text = svg(figure, {style.colour: f"c{k}" for k, style in reversed([*enumerate(styles)])})
    for mark in ('id="', 'href="#', "url(#"):
        text = text.replace(mark, f"{mark}{name}-")
    return text
