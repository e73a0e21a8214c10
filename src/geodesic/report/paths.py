"""How the paths of methods differ: the feasible share, length and speed of their stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from geodesic.analysis.paths import StagePath
from geodesic.contexts import FloatArray
from geodesic.records.reader import RunResult, by_label
from geodesic.report.style import Look, legend_width, looks, new_figure, styled

# attribute of a path -> title and unit of its panel
PANELS = {
    "feasible": ("share of feasible contexts", "share of the stage's mass"),
    "lengths": ("length of the path so far", "W2, in context units"),
    "speeds": ("speed of the path", "W2 per unit of α"),
}

Line = tuple[FloatArray, FloatArray]  # alphas (n,) and the values there (n,)


@styled
def path_summary(runs: Sequence[RunResult], paths: Mapping[str, Sequence[StagePath]]) -> Figure:
    """Feasible share, length and speed of the path by alpha, for each label; thin lines are seeds, thick their mean.

    paths: label -> the path of each seed. A path that goes back is no function of alpha: its seeds have no mean.
    """
    figure = new_figure(9.3 + legend_width(paths), 3.6)
    panels = figure.subplots(1, len(PANELS))
    styles = looks(runs)
    for axes, (name, (title, unit)) in zip(panels, PANELS.items()):
        for label in by_label(runs):
            lines = [_known(path.alphas, getattr(path, name)) for path in paths.get(label, ())]
            _draw(axes, [line for line in lines if len(line[0])], styles[label], label)
        axes.set_title(title, loc="left")
        axes.set_xlabel("α of the stage")
        axes.set_ylabel(unit)
        axes.set_xlim(-0.03, 1.03)
        axes.set_ylim(bottom=0)
        axes.grid(axis="y")
        axes.set_axisbelow(True)
    panels[0].set_ylim(-0.05, 1.05)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper")
    return figure


def _known(alphas: FloatArray, values: FloatArray) -> Line:
    known = np.isfinite(values)
    return alphas[known], values[known]


def _draw(axes: Axes, seeds: Sequence[Line], look: Look, label: str) -> None:
    """The lines of the seeds, and their mean where there is one; the label stands in the legend once."""
    if all((np.diff(alphas) >= 0).all() for alphas, _ in seeds):
        for alphas, values in seeds if len(seeds) > 1 else ():
            axes.plot(alphas, values, color=look.colour, linewidth=0.7, alpha=0.35)
        seeds = [_mean(seeds)] if len(seeds) > 1 else seeds
    for place, (alphas, values) in enumerate(seeds):
        (line,) = axes.plot(alphas, values, color=look.colour, linestyle=look.line, marker="o", markersize=4)
        line.set_label(label if not place else "_")


def _mean(seeds: Sequence[Line]) -> Line:
    grid = np.unique(np.concatenate([alphas for alphas, _ in seeds]).round(9))
    return grid, np.mean([np.interp(grid, alphas, values) for alphas, values in seeds], axis=0)
