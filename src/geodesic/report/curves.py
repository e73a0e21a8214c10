"""Learning curves: of a comparison, and of a single run with its stages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from geodesic.analysis.curves import Column, Curve, iqm_curve, mean_curve
from geodesic.analysis.statistics import drawn_window, rolling_mean
from geodesic.contexts import SCORE_NAMES, FloatArray
from geodesic.curricula.gradient.staged import DISTANCE
from geodesic.errors import count
from geodesic.records.reader import RunResult, by_label
from geodesic.report import style
from geodesic.report.style import FAINT, INK, LineStyle, new_figure, new_grid, step_axis, styled, styles_of, value_axis
from geodesic.report.text import smoothing

LEFT = "distance to the target,\nin diagonals of the space"
FEW_BANDS = 4  # that can be distinguished on top of each other
COLUMNS = 3  # of panels, where there are more
EPISODES = 20  # in a rolling mean of training scores
PART = "share of "  # begins the names of numbers that are shares of a mixture's parts
PART_COLOURS = ("#4477aa", "#ee9944", "#bbbbbb")  # their colours

Statistic = Literal["iqm", "mean"]
STATISTICS = {"iqm": (iqm_curve, "interquartile mean"), "mean": (mean_curve, "mean")}


# How the start of a stage is drawn, by what ended the stage before, and without a colour in the run's.
NEUTRAL = "another event"
MARKS: dict[str, dict[str, Any]] = {
    "mastered": {"label": "next stage: mastered", "marker": "^", "markersize": 8},
    "step cap": {"label": "next stage: step cap", "marker": "X", "markersize": 9, "color": INK},
    NEUTRAL: {"label": "next stage", "marker": "o", "markersize": 6},
}
STARTS: dict[str, LineStyle] = {"step cap": (0, (3, 2))}  # the vertical lines; solid after every other event


@dataclass(frozen=True, eq=False)
class LearningCurves:
    """The curves of a comparison, as figures and pages draw them.

    Args:
        curves: For each label, a statistic over seeds with its band.
        names: For each label, what a legend says.
        styles: For each label, its colour and line style.
        axis: What the y axis says.
        level: The score above which the target counts as solved; NaN to draw none.
        caption: Which statistic is drawn, and what the bands are.
        window: The number of evaluations in a centred mean.
    """

    curves: dict[str, Curve]
    names: dict[str, str]
    styles: dict[str, style.Style]
    axis: str
    level: float
    caption: str
    window: int

    @classmethod
    def of(cls, runs: Sequence[RunResult], statistic: Statistic = "iqm", column: Column = "scores") -> LearningCurves:
        """Compute the curves of runs on one task.

        Args:
            runs: The runs.
            statistic: "iqm" for the interquartile mean with its 95 % interval (the range, for too few seeds), or
                "mean" for the mean with one standard deviation: the paper's plot. Both after a centred mean.
            column: Which evaluations: "scores" or "successes".

        Returns:
            The curves.
        """
        compute, words = STATISTICS[statistic]
        groups = by_label(runs)
        window = drawn_window(runs)
        curves = {label: compute(group, column, window) for label, group in groups.items()}
        bands = " or ".join(dict.fromkeys(curve.band for curve in curves.values()))
        scored = column == "scores"
        return cls(
            curves=curves,
            names={label: f"{label} ({_seeds(group)})" for label, group in groups.items()},
            styles=styles_of(runs),
            axis=f"{runs[0].score_name if scored else SCORE_NAMES['success']} on the target",
            level=runs[0].solved if scored else math.nan,
            caption=f"{words} over seeds; band: {bands}",
            window=window,
        )


def columns_of(runs: Sequence[RunResult]) -> list[Column]:
    """Return which evaluations have curves: scores, and successes where they are known and are not the score."""
    known = runs[0].score != "success" and any(np.isfinite(run.evaluations.successes).any() for run in runs)
    return ["scores", "successes"] if known else ["scores"]


@styled
def learning_curves(runs: Sequence[RunResult], statistic: Statistic = "iqm", column: Column = "scores") -> Figure:
    """Draw the learning curves of a comparison; see `LearningCurves.of` for the arguments.

    More than four bands in one panel cannot be distinguished: each label then has a panel, with the others in grey.
    """
    drawn = LearningCurves.of(runs, statistic, column)
    smoothed = f"lines: {smoothing(drawn.window)}" + ("; points: before smoothing" if drawn.window > 1 else "")
    title = f"{runs[0].task}: {drawn.caption}\n{smoothed}"
    return (_together if len(drawn.curves) <= FEW_BANDS else _apart)(drawn, title)


def _together(drawn: LearningCurves, title: str) -> Figure:
    figure = new_figure(6.5 + style.legend_width(drawn.names.values()), 4.6)
    axes = figure.subplots()
    for label in drawn.curves:
        _curve(axes, drawn, label)
    _level(axes, drawn.level, "solved above")
    value_axis(axes, drawn.axis)
    step_axis(axes)
    axes.set_title(title, loc="left", fontsize="medium")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")
    return figure


def _apart(drawn: LearningCurves, title: str) -> Figure:
    curves = drawn.curves
    figure = new_figure(3.2 * COLUMNS, 2.3 * math.ceil(len(curves) / COLUMNS) + 0.8)
    grid = new_grid(figure, len(curves), COLUMNS, shared=True)
    for axes, label in zip(grid, curves):
        for other in (curve for name, curve in curves.items() if name != label):
            axes.plot(other.steps, other.middle, color=FAINT, linewidth=0.7, label="_other", zorder=0)
        _curve(axes, drawn, label)
        _level(axes, drawn.level, "solved above")
        value_axis(axes)
        step_axis(axes, label=False)
        axes.set_title(drawn.names[label], loc="left", fontsize="medium")
    figure.supxlabel("environment steps", fontsize=10)
    figure.supylabel(drawn.axis, fontsize=10)
    dotted = f"; dotted: solved above {drawn.level:g}" if math.isfinite(drawn.level) else ""
    figure.suptitle(f"{title}; grey: the other methods{dotted}", fontsize="medium", x=0.01, ha="left")
    return figure


def _curve(axes: Axes, drawn: LearningCurves, label: str) -> None:
    """The smoothed curve with its band, over the evaluations before smoothing."""
    curve, own = drawn.curves[label], drawn.styles[label]
    axes.fill_between(curve.steps, curve.low, curve.high, color=own.colour, alpha=0.13, linewidth=0)
    axes.plot(curve.steps, curve.raw, ".", color=own.colour, alpha=0.3, markersize=2.5, label="_raw", zorder=1)
    marker = "o" if len(curve.steps) == 1 else None
    axes.plot(curve.steps, curve.middle, color=own.colour, linestyle=own.line, marker=marker, label=drawn.names[label])


@styled
def single_run(run: RunResult) -> Figure:
    """Draw training scores, target score and alpha over the steps of one run.

    Args:
        run: The run. Lines mark where its stages started, shaded bands the stages that explored for a metric.

    Returns:
        The figure.
    """
    parts = parts_of(run)
    figure = new_figure(8.4, 8.0 if parts else 6.6)
    panels = figure.subplots(3 + bool(parts), 1, sharex=True, height_ratios=[3, 3, 1.6, *([1.6] if parts else [])])
    training, target, alpha = panels[:3]
    colour = style.colour_of(run.method, run.metric)
    _training(training, run, colour)
    _target(target, run, colour)
    _alpha(alpha, run, colour, last=not parts)
    if parts:
        _mixture(panels[3], run, parts)
    alpha.set_xlim(0, max([run.steps, *run.evaluations.steps[-1:]]))
    figure.suptitle(f"{run.task}, {run.label}, seed {run.seed}")
    figure.align_ylabels()
    return figure


def _training(axes: Axes, run: RunResult, colour: str) -> None:
    steps, scores = run.episodes.steps, run.episodes.scores
    axes.plot(steps, scores, ".", color=FAINT, markersize=2, alpha=0.7, label="episodes", rasterized=True)
    smooth = rolling_mean(scores, EPISODES)
    axes.plot(steps, smooth, color=colour, linewidth=1.4, label=f"rolling mean of {EPISODES} episodes")
    _level(axes, run.threshold, "mastered above")
    _finish(axes, run, f"{run.score_name} in training", markerscale=4)


def _target(axes: Axes, run: RunResult, colour: str) -> None:
    steps, scores = run.evaluations.steps, run.evaluations.scores
    axes.plot(steps, scores, ".-", color=colour, alpha=0.35, linewidth=0.8, markersize=4, label="evaluations")
    window = drawn_window([run])
    smooth = rolling_mean(scores, window, centred=True)
    axes.plot(steps, smooth, color=colour, label=smoothing(window) if window > 1 else "_smooth")
    for event, starts in _stage_starts(run).items() if len(steps) else ():
        look = {"color": colour, "linestyle": "", "markeredgecolor": "white", "zorder": 3, **MARKS[event]}
        axes.plot(starts, np.interp(starts, steps, smooth), **look)
    _level(axes, run.solved, "solved above")
    _finish(axes, run, f"{run.score_name} on the target")


def _alpha(axes: Axes, run: RunResult, colour: str, last: bool) -> None:
    steps = np.append(run.stages.steps, max([run.steps, *run.stages.steps]))
    alphas = np.append(run.stages.alphas, run.stages.alphas[-1:])
    if len(alphas) == len(steps):
        axes.step(steps, alphas, where="post", color=colour, label="α")
    distances = run.stages.numbers().get(DISTANCE, np.zeros(0))
    if len(distances):
        values = np.append(distances, distances[-1:])
        axes.step(steps, values, where="post", color=INK, linewidth=0.9, linestyle=(0, (2, 2)), label=LEFT)
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes.set_ylim(-0.05, 1.08)
    value_axis(axes, "α of the stage")
    step_axis(axes, label=last)


def parts_of(run: RunResult) -> dict[str, FloatArray]:
    """The shares (n,) of the parts of each stage's mixture, by the name of the part; empty for most methods."""
    numbers = run.stages.numbers()
    return {name.removeprefix(PART): values for name, values in numbers.items() if name.startswith(PART)}


def _mixture(axes: Axes, run: RunResult, parts: dict[str, FloatArray]) -> None:
    steps = np.append(run.stages.steps, max([run.steps, *run.stages.steps]))
    heights = np.nan_to_num([np.append(values, values[-1:]) for values in parts.values()])
    axes.stackplot(steps, heights, labels=list(parts), colors=PART_COLOURS, step="post")
    axes.set_ylim(0, 1)
    axes.set_ylabel("share of steps")
    step_axis(axes)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), reverse=True)


def _finish(axes: Axes, run: RunResult, label: str, **legend: float) -> None:
    """Axes, a line where each stage started, a band for each that explored, and a legend with each entry once."""
    value_axis(axes, label)
    step_axis(axes, label=False)
    for event, starts in _stage_starts(run).items():
        for step in starts:
            axes.axvline(step, color=FAINT, linewidth=0.7, linestyle=STARTS.get(event, "-"), zorder=0)
    ends = np.append(run.stages.steps[1:], run.steps)
    for explores, start, end in zip(run.stages.explores, run.stages.steps, ends):
        if explores:
            axes.axvspan(start, end, color=FAINT, alpha=0.25, linewidth=0, zorder=0, label=style.EXPLORING)
    handles, labels = axes.get_legend_handles_labels()
    entries = dict(zip(labels, handles))
    axes.legend(entries.values(), entries.keys(), loc="upper left", bbox_to_anchor=(1.0, 1.0), **legend)


def _stage_starts(run: RunResult) -> dict[str, list[int]]:
    """The steps at which stages on the way to the target started, for each of the `MARKS`; the first stage has none."""
    starts: dict[str, list[int]] = {}
    for step, event, explores in zip(run.stages.steps.tolist(), run.stages.events, run.stages.explores):
        if step and not explores:
            starts.setdefault(event if event in MARKS else NEUTRAL, []).append(step)
    return starts


def _level(axes: Axes, level: float, words: str) -> None:
    if math.isfinite(level):
        axes.axhline(level, color=INK, linewidth=1, linestyle=(0, (2, 2)), zorder=1, label=f"{words} {level:g}")


def _seeds(group: Sequence[RunResult]) -> str:
    unfinished = sum(not run.finished for run in group)
    return count(len(group), "seed") + (f", {unfinished} unfinished" if unfinished else "")
