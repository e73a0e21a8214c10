"""Figures of the Maze: distributions over its cells, and the distances between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm, to_rgba
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from geodesic.distributions import FloatArray, Particles
from geodesic.experiments.results import RunResult
from geodesic.report.style import FAINT, GOAL, HEAT, INK, WALL, bare, lines, new_figure, short_steps, styled

_COLUMNS = 6


@styled
def interpolations(
    grid: ArrayLike, goal: ArrayLike, alphas: Sequence[float], paths: Mapping[str, Sequence[Particles]]
) -> Figure:
    """Paths between two distributions, a row each: cells (row, column) shaded by their probability at each alpha.

    grid (rows, columns), 1 for walls; goal (2,); paths: name -> one distribution per alpha.
    """
    titles = [f"α = {alpha:g}" for alpha in alphas]
    return _panels(np.asarray(grid), np.asarray(goal), titles, paths, "maze: start cells from source to target")


@styled
def moments(
    grid: ArrayLike, goal: ArrayLike, steps: Sequence[float], rows: Mapping[str, Sequence[Particles | None]]
) -> Figure:
    """What each method trained on at the given steps: a row per method; None where it had not come so far."""
    titles = [f"step {short_steps(step)}" for step in steps]
    return _panels(np.asarray(grid), np.asarray(goal), titles, rows, "maze: start cells trained on, one seed of each")


@styled
def stages(grid: ArrayLike, goal: ArrayLike, run: RunResult) -> Figure:
    """The distributions of a run's stages, in order, with the step at which each began."""
    walls, cells = np.asarray(grid), [_on_grid(np.asarray(grid), stage.particles) for stage in run.curriculum]
    columns = min(_COLUMNS, len(cells))
    rows = math.ceil(len(cells) / columns)
    figure = new_figure(max(1.75 * columns + 1.1, 5.4), 2.05 * rows + 0.5)
    norm = _norm(cells)
    grid_of_axes = figure.subplots(rows, columns, squeeze=False)
    for axes in grid_of_axes.flat[len(cells) :]:
        axes.set_visible(False)
    for axes, stage, shares in zip(grid_of_axes.flat, run.curriculum, cells):
        _draw(axes, walls, np.asarray(goal), shares, norm)
        axes.set_title(f"stage {stage.stage}, α = {stage.alpha:.3g}\nfrom step {short_steps(stage.step)}", fontsize=9)
    _colour_bar(figure, grid_of_axes, norm)
    figure.suptitle(f"{run.label}, seed {run.seed}: start cells of each stage; star: the goal")
    return figure


@styled
def distance_matrix(matrix: ArrayLike, to_goal: ArrayLike, name: str) -> Figure:
    """Distances between start cells as a heat map, cells ordered by their steps to the goal.

    matrix (n, n); to_goal (n,). Lines part the cells that are equally far.
    """
    steps = np.asarray(to_goal)
    order = np.argsort(steps, kind="stable")
    values = np.asarray(matrix, dtype=np.float64)[np.ix_(order, order)]
    figure = new_figure(6.6, 5.4)
    axes = figure.subplots()
    image = axes.imshow(values, cmap="viridis", interpolation="nearest")
    _distance_ticks(axes, steps[order])
    axes.set_title(f"{name[:1].upper()}{name[1:]} between the {len(steps)} start cells")
    figure.colorbar(image, ax=axes, label=name)
    return figure


def _distance_ticks(axes: Axes, steps: NDArray[np.int64]) -> None:
    """A tick per distance to the goal, in the middle of the cells that have it."""
    distances = np.unique(steps)
    middles = [float(np.flatnonzero(steps == distance).mean()) for distance in distances]
    labels = [f"{distance:g}" for distance in distances]
    borders = np.flatnonzero(np.diff(steps)) + 0.5
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(middles, labels, fontsize=8)
        axis.set_tick_params(length=0)
    for border in borders:
        axes.axhline(border, color="white", linewidth=0.4, alpha=0.6)
        axes.axvline(border, color="white", linewidth=0.4, alpha=0.6)
    axes.set_xlabel("start cells, ordered by steps to the goal")
    axes.set_ylabel("start cells, ordered by steps to the goal")


def _panels(
    grid: NDArray[np.int64],
    goal: NDArray[np.int64],
    titles: list[str],
    rows: Mapping[str, Sequence[Particles | None]],
    title: str,
) -> Figure:
    shares = {name: [_on_grid(grid, particles) for particles in path] for name, path in rows.items()}
    norm = _norm([cells for path in shares.values() for cells in path])
    figure = new_figure(1.75 * len(titles) + 1.5, 1.85 * len(rows) + 0.7)
    grid_of_axes = figure.subplots(len(rows), len(titles), squeeze=False)
    for line, (name, path) in zip(grid_of_axes, shares.items()):
        for axes, cells in zip(line, path):
            _draw(axes, grid, goal, cells, norm)
        line[0].set_ylabel(lines(name), fontsize=11, color=INK)
    for axes, text in zip(grid_of_axes[0], titles):
        axes.set_title(text)
    _colour_bar(figure, grid_of_axes, norm)
    figure.suptitle(f"{title}; star: the goal")
    return figure


def _on_grid(grid: NDArray[np.int64], particles: Particles | None) -> FloatArray:
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


def _draw(axes: Axes, grid: NDArray[np.int64], goal: NDArray[np.int64], shares: FloatArray, norm: PowerNorm) -> None:
    colours = colormaps[HEAT](norm(shares))
    colours[grid == 1] = to_rgba(WALL)
    axes.imshow(colours, interpolation="nearest")
    axes.scatter([goal[1]], [goal[0]], marker="*", s=70, color=GOAL, edgecolor="white", linewidth=0.6, zorder=3)
    for line in np.arange(grid.shape[0] + 1) - 0.5:
        axes.axhline(line, color=FAINT, linewidth=0.25)
    for line in np.arange(grid.shape[1] + 1) - 0.5:
        axes.axvline(line, color=FAINT, linewidth=0.25)
    bare(axes)


def _colour_bar(figure: Figure, axes: NDArray[np.object_], norm: PowerNorm) -> None:
    mappable = ScalarMappable(norm, HEAT)
    bar = figure.colorbar(mappable, ax=axes.ravel().tolist(), shrink=0.85, pad=0.01, fraction=0.04, aspect=25)
    bar.set_label("probability")
    bar.outline.set_visible(False)
