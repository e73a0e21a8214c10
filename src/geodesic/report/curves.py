"""Learning curves: of a comparison, and of a single run with its stages."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from geodesic.experiments.results import RunResult, by_label
from geodesic.experiments.statistics import Curve, iqm_curve, mean_curve, rolling_mean
from geodesic.report.style import COLOURS, FAINT, INK, kind, legend_width, looks, new_figure, step_axis, styled

_AXIS = {"returns": "return on the target", "successes": "success rate on the target"}
_WINDOW = 10
_EXPLORING = "exploring for the metric"


@styled
def mean_curves(runs: Sequence[RunResult], measure: str = "returns") -> Figure:
    """Mean over seeds with one standard deviation, after a rolling mean of 10 evaluations: the paper's plot."""
    curves = {label: mean_curve(group, measure, _WINDOW) for label, group in by_label(runs).items()}
    return _curves(runs, curves, measure, "mean and standard deviation")


@styled
def iqm_curves(runs: Sequence[RunResult], measure: str = "returns") -> Figure:
    """Interquartile mean over seeds with its 95 % bootstrap interval, smoothed in the same way."""
    curves = {
        label: iqm_curve(group, np.random.default_rng(0), measure, _WINDOW) for label, group in by_label(runs).items()
    }
    return _curves(runs, curves, measure, "interquartile mean and 95 % bootstrap interval")


def _curves(runs: Sequence[RunResult], curves: dict[str, Curve], measure: str, what: str) -> Figure:
    names = {label: f"{label} ({_seeds(group)})" for label, group in by_label(runs).items()}
    figure = new_figure(6.5 + legend_width(names.values()), 4.4)
    axes = figure.subplots()
    styles = looks(runs)
    for label, curve in curves.items():
        look = styles[label]
        axes.fill_between(curve.steps, curve.low, curve.high, color=look.colour, alpha=0.13, linewidth=0)
        marker = "o" if len(curve.steps) == 1 else None
        axes.plot(curve.steps, curve.middle, color=look.colour, linestyle=look.line, marker=marker, label=names[label])
    if measure == "returns":
        _threshold(axes, runs[0].threshold)
    _finish(axes, _AXIS[measure])
    axes.set_title(f"{runs[0].env}: {what} over seeds", loc="left")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")
    return figure


@styled
def single_run(run: RunResult) -> Figure:
    """Training returns, target return and alpha over the steps of one run; lines mark where stages began."""
    figure = new_figure(8.4, 6.6)
    training, target, alpha = figure.subplots(3, 1, sharex=True, height_ratios=[3, 3, 1.6])
    colour = COLOURS.get(kind(run), INK)
    _training(training, run, colour)
    _target(target, run, colour)
    _alpha(alpha, run, colour)
    for axes in (training, target, alpha):
        axes.set_xlim(0, max([run.steps, *run.evaluations.steps[-1:]]))
    step_axis(alpha)
    figure.suptitle(f"{run.env}, {run.label}, seed {run.seed}")
    figure.align_ylabels()
    return figure


def _stage_lines(axes: Axes, run: RunResult) -> None:
    """A line where each stage began; a stage that explored for a metric is a band."""
    ends = [*run.stages.steps[1:], run.steps]
    for start, end, event in zip(run.stages.steps, ends, run.stages.events):
        if event == "explore":
            axes.axvspan(start, end, color=FAINT, alpha=0.25, linewidth=0, zorder=0, label=_EXPLORING)
        elif start:
            axes.axvline(start, color=FAINT, linewidth=0.7, zorder=0)


def _legend(axes: Axes, **options: float) -> None:
    """A legend beside the axes, each entry once."""
    handles, labels = axes.get_legend_handles_labels()
    entries = dict(zip(labels, handles))
    axes.legend(entries.values(), entries.keys(), loc="upper left", bbox_to_anchor=(1.0, 1.0), **options)


def _training(axes: Axes, run: RunResult, colour: str) -> None:
    steps, returns = run.episodes.steps, run.episodes.returns
    axes.plot(steps, returns, ".", color=FAINT, markersize=2, alpha=0.7, label="episodes", rasterized=True)
    axes.plot(steps, rolling_mean(returns, 20), color=colour, linewidth=1.4, label="rolling mean of 20")
    _threshold(axes, run.mastery, "mastered above")
    _finish(axes, "return in training", steps=False)
    _stage_lines(axes, run)
    _legend(axes, markerscale=4)


def _target(axes: Axes, run: RunResult, colour: str) -> None:
    table = run.evaluations
    axes.plot(
        table.steps, table.returns, ".-", color=colour, alpha=0.35, linewidth=0.8, markersize=4, label="evaluations"
    )
    axes.plot(table.steps, rolling_mean(table.returns, _WINDOW), color=colour, label=f"rolling mean of {_WINDOW}")
    _stage_markers(axes, run, colour)
    _threshold(axes, run.threshold)
    _finish(axes, "return on the target", steps=False)
    _stage_lines(axes, run)
    _legend(axes)


def _stage_markers(axes: Axes, run: RunResult, colour: str) -> None:
    """A triangle on the curve where each stage after the first began, explorations left out."""
    table = run.evaluations
    began = [step for step, event in zip(run.stages.steps, run.stages.events) if step and event != "explore"]
    if not began or not len(table.steps):
        return
    heights = np.interp(began, table.steps, rolling_mean(table.returns, _WINDOW))
    axes.plot(began, heights, "^", color=colour, markeredgecolor="white", markersize=7, label="a stage began")


def _alpha(axes: Axes, run: RunResult, colour: str) -> None:
    steps = np.append(run.stages.steps, max([run.steps, *run.stages.steps]))
    alphas = np.append(run.stages.alphas, run.stages.alphas[-1:])
    if len(alphas) == len(steps):
        axes.step(steps, alphas, where="post", color=colour)
    axes.set_ylim(-0.05, 1.08)
    _finish(axes, "α of the stage")


def _threshold(axes: Axes, threshold: float, what: str = "solved above") -> None:
    if math.isfinite(threshold):
        axes.axhline(threshold, color=INK, linewidth=1, linestyle=(0, (2, 2)), zorder=1, label=f"{what} {threshold:g}")


def _finish(axes: Axes, label: str, steps: bool = True) -> None:
    axes.set_ylabel(label)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    step_axis(axes, steps)


def _seeds(group: Sequence[RunResult]) -> str:
    unfinished = sum(not run.finished for run in group)
    seeds = f"{len(group)} seed{'s' * (len(group) != 1)}"
    return f"{seeds}, {unfinished} unfinished" if unfinished else seeds
