"""Learning curves: of a comparison, and of a single run with its stages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from geodesic.analysis.curves import Column, Curve, iqm_curve, mean_curve
from geodesic.analysis.measures import WINDOW, rolling_mean
from geodesic.records.reader import RunResult, by_label
from geodesic.report.style import (
    COLOURS,
    FAINT,
    INK,
    OTHER,
    LineStyle,
    Look,
    kind,
    legend_width,
    looks,
    new_figure,
    step_axis,
    styled,
)
from geodesic.report.text import MEASURES, measured

FEW_BANDS = 4  # that can be told apart on top of each other
COLUMNS = 3  # of panels, where there are more
EPISODES = 20  # that a rolling mean of training scores joins
EXPLORING = "exploring"


@dataclass(frozen=True)
class Mark:
    """How the beginning of a stage is drawn; without a colour, in the run's."""

    label: str
    marker: str
    size: float
    colour: str | None
    line: LineStyle


# By what ended the stage before; whatever else begins a stage gets the neutral mark.
MARKS = {
    "mastered": Mark("next stage: mastered", "^", 8, None, "-"),
    "step cap": Mark("next stage: step cap", "X", 9, INK, (0, (3, 2))),
}
NEUTRAL = Mark("next stage", "o", 6, None, "-")


@styled
def mean_curves(runs: Sequence[RunResult], column: Column = "scores") -> Figure:
    """Mean over seeds with one standard deviation, after a rolling mean of 10 evaluations: the paper's plot."""
    curves = {label: mean_curve(group, column) for label, group in by_label(runs).items()}
    return _curves(runs, curves, column, "mean")


@styled
def iqm_curves(runs: Sequence[RunResult], column: Column = "scores") -> Figure:
    """Interquartile mean over seeds with its 95 % interval, smoothed in the same way; the range of too few seeds."""
    curves = {label: iqm_curve(group, column) for label, group in by_label(runs).items()}
    return _curves(runs, curves, column, "interquartile mean")


def _curves(runs: Sequence[RunResult], curves: dict[str, Curve], column: Column, what: str) -> Figure:
    """All in one panel; more than four bands cannot be told apart, and get a panel each, with the others in grey."""
    names = {label: f"{label} ({_seeds(group)})" for label, group in by_label(runs).items()}
    level = runs[0].solved if column == "scores" else math.nan
    words = measured(runs[0]) if column == "scores" else MEASURES["success"]
    bands = " or ".join(dict.fromkeys(curve.band for curve in curves.values()))
    smoothed = f"lines: rolling mean of {WINDOW} evaluations; points: before smoothing"
    title = f"{runs[0].task}: {what} over seeds; band: {bands}\n{smoothed}"
    draw = _together if len(curves) <= FEW_BANDS else _apart
    return draw(curves, names, looks(runs), level, f"{words} on the target", title)


def _together(
    curves: dict[str, Curve], names: dict[str, str], styles: dict[str, Look], level: float, words: str, title: str
) -> Figure:
    figure = new_figure(6.5 + legend_width(names.values()), 4.6)
    axes = figure.subplots()
    for label, curve in curves.items():
        _curve(axes, curve, styles[label], names[label])
    _level(axes, level, "solved above")
    _finish(axes, words)
    axes.set_title(title, loc="left", fontsize="medium")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")
    return figure


def _apart(
    curves: dict[str, Curve], names: dict[str, str], styles: dict[str, Look], level: float, words: str, title: str
) -> Figure:
    rows = math.ceil(len(curves) / COLUMNS)
    figure = new_figure(3.2 * COLUMNS, 2.3 * rows + 0.8)
    grid = figure.subplots(rows, COLUMNS, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(curves) :]:
        axes.set_visible(False)
    for axes, (label, curve) in zip(grid.flat, curves.items()):
        for other in (each for name, each in curves.items() if name != label):
            axes.plot(other.steps, other.middle, color=FAINT, linewidth=0.7, label="_other", zorder=0)
        _curve(axes, curve, styles[label], names[label])
        _level(axes, level, "solved above")
        _finish(axes, "", steps=False)
        axes.set_title(names[label], loc="left", fontsize="medium")
    for axes in grid.flat[max(0, len(curves) - COLUMNS) : len(curves)]:
        axes.tick_params(labelbottom=True)
    figure.supxlabel("environment steps", fontsize=10)
    figure.supylabel(words, fontsize=10)
    dotted = f"; dotted: solved above {level:g}" if math.isfinite(level) else ""
    figure.suptitle(f"{title}; grey: the other methods{dotted}", fontsize="medium", x=0.01, ha="left")
    return figure


def _curve(axes: Axes, curve: Curve, look: Look, name: str) -> None:
    """The smoothed curve with its band, over the evaluations that it smooths."""
    axes.fill_between(curve.steps, curve.low, curve.high, color=look.colour, alpha=0.13, linewidth=0)
    axes.plot(curve.steps, curve.raw, ".", color=look.colour, alpha=0.3, markersize=2.5, label="_raw", zorder=1)
    marker = "o" if len(curve.steps) == 1 else None
    axes.plot(curve.steps, curve.middle, color=look.colour, linestyle=look.line, marker=marker, label=name)


@styled
def single_run(run: RunResult) -> Figure:
    """Training scores, target score and alpha over the steps of one run; lines mark where stages began."""
    figure = new_figure(8.4, 6.6)
    training, target, alpha = figure.subplots(3, 1, sharex=True, height_ratios=[3, 3, 1.6])
    colour = COLOURS.get(kind(run), OTHER)
    _training(training, run, colour)
    _target(target, run, colour)
    _alpha(alpha, run, colour)
    for axes in (training, target, alpha):
        axes.set_xlim(0, max([run.steps, *run.evaluations.steps[-1:]]))
    step_axis(alpha)
    figure.suptitle(f"{run.task}, {run.label}, seed {run.seed}")
    figure.align_ylabels()
    return figure


def _training(axes: Axes, run: RunResult, colour: str) -> None:
    steps, scores = run.episodes.steps, run.episodes.scores
    axes.plot(steps, scores, ".", color=FAINT, markersize=2, alpha=0.7, label="episodes", rasterized=True)
    axes.plot(
        steps, rolling_mean(scores, EPISODES), color=colour, linewidth=1.4, label=f"rolling mean of {EPISODES} episodes"
    )
    _level(axes, run.threshold, "mastered above")
    _finish(axes, f"{measured(run)} in training", steps=False)
    _stage_lines(axes, run)
    _legend(axes, markerscale=4)


def _target(axes: Axes, run: RunResult, colour: str) -> None:
    steps, scores = run.evaluations.steps, run.evaluations.scores
    axes.plot(steps, scores, ".-", color=colour, alpha=0.35, linewidth=0.8, markersize=4, label="evaluations")
    axes.plot(steps, rolling_mean(scores, WINDOW), color=colour, label=f"rolling mean of {WINDOW} evaluations")
    _stage_marks(axes, run, colour)
    _level(axes, run.solved, "solved above")
    _finish(axes, f"{measured(run)} on the target", steps=False)
    _stage_lines(axes, run)
    _legend(axes)


def _alpha(axes: Axes, run: RunResult, colour: str) -> None:
    steps = np.append(run.stages.steps, max([run.steps, *run.stages.steps]))
    alphas = np.append(run.stages.alphas, run.stages.alphas[-1:])
    if len(alphas) == len(steps):
        axes.step(steps, alphas, where="post", color=colour)
    axes.set_ylim(-0.05, 1.08)
    _finish(axes, "α of the stage")


def _stage_lines(axes: Axes, run: RunResult) -> None:
    """A line where each stage after the first began; a stage that explored for a metric is a band."""
    for mark, steps in _begun(run).items():
        for step in steps:
            axes.axvline(step, color=FAINT, linewidth=0.7, linestyle=mark.line, zorder=0)
    ends = np.append(run.stages.steps[1:], run.steps)
    for explores, start, end in zip(run.stages.explores, run.stages.steps, ends):
        if explores:
            axes.axvspan(start, end, color=FAINT, alpha=0.25, linewidth=0, zorder=0, label=EXPLORING)


def _stage_marks(axes: Axes, run: RunResult, colour: str) -> None:
    """A mark on the curve where each stage after the first began, by what ended the one before."""
    table = run.evaluations
    if not len(table.steps):
        return
    smooth = rolling_mean(table.scores, WINDOW)
    for mark, steps in _begun(run).items():
        heights = np.interp(steps, table.steps, smooth)
        (line,) = axes.plot(steps, heights, mark.marker, color=mark.colour or colour, label=mark.label)
        line.set(markersize=mark.size, markeredgecolor="white", zorder=3)


def _begun(run: RunResult) -> dict[Mark, list[int]]:
    """The steps at which stages on the way to the target began, for each mark; the first is no news."""
    begun: dict[Mark, list[int]] = {}
    for step, event, explores in zip(run.stages.steps.tolist(), run.stages.events, run.stages.explores):
        if step and not explores:
            begun.setdefault(MARKS.get(event, NEUTRAL), []).append(step)
    return begun


def _legend(axes: Axes, **options: float) -> None:
    """A legend beside the axes, each entry once."""
    handles, labels = axes.get_legend_handles_labels()
    entries = dict(zip(labels, handles))
    axes.legend(entries.values(), entries.keys(), loc="upper left", bbox_to_anchor=(1.0, 1.0), **options)


def _level(axes: Axes, level: float, what: str) -> None:
    if math.isfinite(level):
        axes.axhline(level, color=INK, linewidth=1, linestyle=(0, (2, 2)), zorder=1, label=f"{what} {level:g}")


def _finish(axes: Axes, label: str, steps: bool = True) -> None:
    axes.set_ylabel(label)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    step_axis(axes, steps)


def _seeds(group: Sequence[RunResult]) -> str:
    unfinished = sum(not run.finished for run in group)
    seeds = f"{len(group)} seed{'s' * (len(group) != 1)}"
    return f"{seeds}, {unfinished} unfinished" if unfinished else seeds
