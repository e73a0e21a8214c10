"""Figures of tasks whose contexts are the cells of a grid: distributions as shaded cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import PowerNorm, to_rgba
from matplotlib.figure import Figure
from numpy.typing import NDArray

from geodesic.contexts import FloatArray, IntArray, Particles
from geodesic.records.reader import RunResult
from geodesic.report.style import (
    FAINT,
    GOAL,
    HEAT,
    INK,
    WALL,
    bare,
    evenly,
    goal_key,
    lines,
    new_figure,
    stage_title,
    stages_title,
    styled,
)

COLUMNS = 6
MOST = 36  # stages of one figure

Goals = Sequence[tuple[float, float]]


@styled
def panels(
    rows: Mapping[str, Sequence[Particles | None]],
    titles: Sequence[str],
    grid: IntArray,
    goals: Goals,
    title: str,
    star: str = "goal",
) -> Figure:
    """A row of grids for each label: cells (row, column) shaded by their probability; None where there is none yet.

    grid (rows, columns), 1 for walls; goals: (row, column) of each, and what they are.
    """
    shares = {label: [_on_grid(grid, particles) for particles in path] for label, path in rows.items()}
    norm = _norm([cells for path in shares.values() for cells in path])
    figure = new_figure(1.75 * len(titles) + 1.5, 1.85 * len(rows) + 0.7)
    grid_of_axes = figure.subplots(len(rows), len(titles), squeeze=False)
    for line, (label, path) in zip(grid_of_axes, shares.items()):
        line[0].set_ylabel(lines(label), fontsize=11, color=INK)
        for axes, cells in zip(line, path):
            _draw(axes, grid, goals, cells, norm)
    for axes, text in zip(grid_of_axes[0], titles):
        axes.set_title(text)
    _colour_bar(figure, grid_of_axes, norm)
    figure.suptitle("; ".join(filter(None, (title, goal_key(goals, star)))))
    return figure


@styled
def stages(run: RunResult, grid: IntArray, goals: Goals, star: str = "goal") -> Figure:
    """The distributions of a run's stages, in order, with the step at which each began."""
    shown = evenly(run.curriculum, MOST)
    shares = [_on_grid(grid, stage.particles) for stage in shown]
    columns = min(COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure = new_figure(max(1.75 * columns + 1.1, 5.4), 2.05 * rows + 0.5)
    norm = _norm(shares)
    grid_of_axes = figure.subplots(rows, columns, squeeze=False)
    for axes in grid_of_axes.flat[len(shown) :]:
        axes.set_visible(False)
    explored = run.explored
    for axes, stage, cells in zip(grid_of_axes.flat, shown, shares):
        _draw(axes, grid, goals, cells, norm)
        axes.set_title(stage_title(stage, stage.stage in explored), fontsize=9)
    _colour_bar(figure, grid_of_axes, norm)
    title = stages_title(run, len(shown), len(run.curriculum))
    figure.suptitle("; ".join(filter(None, (title, goal_key(goals, star)))))
    return figure


def _on_grid(grid: IntArray, particles: Particles | None) -> FloatArray:
    """Probability of each cell, shape of the grid."""
    shares = np.zeros(grid.shape)
    if particles is None:
        return shares
    rows, columns = np.round(particles.points).astype(int).T
    np.add.at(shares, (rows, columns), particles.weights)
    return shares


def _norm(cells: Sequence[FloatArray]) -> PowerNorm:
    """One scale for all panels; the square root keeps a broad distribution visible next to a narrow one."""
    return PowerNorm(0.5, 0.0, max(float(shares.max()) for shares in cells))


def _draw(axes: Axes, grid: IntArray, goals: Goals, shares: FloatArray, norm: PowerNorm) -> None:
    colours = colormaps[HEAT](norm(shares))
    colours[(grid == 1) & (shares == 0)] = to_rgba(WALL)  # a wall can be a context too, if nobody gets there
    axes.imshow(colours, interpolation="nearest")
    for row, column in goals:
        axes.scatter([column], [row], marker="*", s=80, facecolor=GOAL, edgecolor=INK, linewidth=0.7, zorder=3)
    axes.add_collection(LineCollection(_borders(*grid.shape), color=FAINT, linewidth=0.25, zorder=2), autolim=False)
    bare(axes)


def _borders(rows: int, columns: int) -> list[list[tuple[float, float]]]:
    """The lines between the cells and around them, from (x, y) to (x, y)."""
    across = [[(-0.5, row - 0.5), (columns - 0.5, row - 0.5)] for row in range(rows + 1)]
    down = [[(column - 0.5, -0.5), (column - 0.5, rows - 0.5)] for column in range(columns + 1)]
    return across + down


def _colour_bar(figure: Figure, axes: NDArray[np.object_], norm: PowerNorm) -> None:
    """Beside all panels; it belongs to two corners, as the layout measures it anew for each panel it belongs to."""
    corners = list(dict.fromkeys([axes[0, 0], axes[-1, -1]]))
    bar = figure.colorbar(ScalarMappable(norm, HEAT), ax=corners, shrink=0.85, pad=0.01, fraction=0.04, aspect=25)
    for panel in axes.ravel().tolist():
        panel.set_anchor(corners[0].get_anchor())
    bar.set_label("probability")
    bar.outline.set_visible(False)
