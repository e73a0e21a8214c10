"""Figures of the U-Maze: the path that each stage saw over the returns, and how the paths of metrics differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from geodesic.distributions import FloatArray
from geodesic.experiments.paths import StagePath, path_stages
from geodesic.experiments.results import RunResult, StageDistribution, by_label
from geodesic.report.contexts import Plane
from geodesic.report.style import PATH, WALL, Look, legend_width, looks, new_figure, short_steps, styled

_COLUMNS = 6
_MOST = 12
_CHOSEN = "#D55E00"
# The lighter half of the greys, so that a low return is not taken for a wall.
_RETURNS = ListedColormap(colormaps["Greys_r"](np.linspace(0.45, 1.0, 128)))


@styled
def stages(run: RunResult, plane: Plane) -> Figure:
    """For each of up to twelve stages: return model (grey), possible barycenters (colour), the chosen one (rings).

    A stage without a snapshot of its metric shows what it trained on.
    """
    shown = _spread(path_stages(run), _MOST)
    columns = min(_COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure = new_figure(max(2.15 * columns + 1.5, 5.4), 2.45 * rows + 1.0)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat[len(shown) :]:
        axes.set_visible(False)
    heat = _heat_scale(shown)
    for axes, stage in zip(grid.flat, shown):
        _draw_stage(axes, stage, heat)
        _draw_arena(axes, plane)
        axes.set_title(f"stage {stage.stage}, α = {stage.alpha:.3g}\nfrom step {short_steps(stage.step)}", fontsize=9)
    for axes in grid.flat[max(0, len(shown) - columns) : len(shown)]:
        axes.set_xlabel(plane.names[0])
        axes.tick_params(labelbottom=True)
    for axes in grid[:, 0]:
        axes.set_ylabel(plane.names[1])
    _keys(figure, grid.ravel().tolist(), shown, heat)
    figure.suptitle(f"{run.env}, {run.label}, seed {run.seed}: goals of each stage")
    return figure


@styled
def path_summary(runs: Sequence[RunResult], paths: Mapping[str, Sequence[StagePath]]) -> Figure:
    """Feasible share, length and speed of the path by alpha, for each label; thin lines are seeds, thick their mean.

    paths: label -> the path of each seed.
    """
    figure = new_figure(9.3 + legend_width(paths), 3.6)
    panels = figure.subplots(1, 3)
    styles = looks(runs)
    for label in by_label(runs):
        if label in paths:
            _summary_lines(list(panels), paths[label], styles[label], label)
    titles = ("share of reachable goals", "length of the path so far", "speed of the path")
    units = ("share of the stage's mass", "W2, in arena units", "W2 per unit of α")
    for axes, title, unit in zip(panels, titles, units):
        axes.set_title(title, loc="left")
        axes.set_xlabel("α of the stage")
        axes.set_ylabel(unit)
        axes.set_xlim(-0.03, 1.03)
        axes.grid(axis="y")
        axes.set_axisbelow(True)
    panels[0].set_ylim(-0.05, 1.05)
    for axes in panels[1:]:
        axes.set_ylim(bottom=0)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper")
    return figure


def _summary_lines(panels: list[Axes], seeds: Sequence[StagePath], look: Look, label: str) -> None:
    for axes, name in zip(panels, ("feasible", "lengths", "speeds")):
        lines = [_known(path.alphas, getattr(path, name)) for path in seeds]
        lines = [(alphas, values) for alphas, values in lines if len(alphas)]
        if not lines:
            continue
        for alphas, values in lines if len(lines) > 1 else ():
            axes.plot(alphas, values, color=look.colour, linewidth=0.7, alpha=0.35)
        grid = np.unique(np.concatenate([alphas for alphas, _ in lines]).round(9))
        mean = np.mean([np.interp(grid, alphas, values) for alphas, values in lines], axis=0)
        axes.plot(grid, mean, color=look.colour, linestyle=look.line, marker="o", markersize=4, label=label)


def _known(alphas: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    held = np.isfinite(values)
    return alphas[held], values[held]


def _spread(stages: Sequence[StageDistribution], most: int) -> list[StageDistribution]:
    """At most so many stages, evenly spread, the first and the last among them."""
    if len(stages) <= most:
        return list(stages)
    return [stages[index] for index in np.linspace(0, len(stages) - 1, most).round().astype(int)]


def _heat_scale(stages: Sequence[StageDistribution]) -> Normalize | None:
    """One scale for the returns of all stages."""
    heats = [stage.snapshot["heat"] for stage in stages if "heat" in stage.snapshot]
    return Normalize(min(float(h.min()) for h in heats), max(float(h.max()) for h in heats)) if heats else None


def _draw_stage(axes: Axes, stage: StageDistribution, heat: Normalize | None) -> None:
    snapshot = stage.snapshot
    if "heat" in snapshot:
        axes.pcolormesh(
            snapshot["heat_x"],
            snapshot["heat_y"],
            snapshot["heat"],
            cmap=_RETURNS,
            norm=heat,
            shading="nearest",
            zorder=0,
        )
    if "potential" in snapshot:
        path = snapshot["potential"]
        for share, points in zip(np.linspace(0, 1, len(path)), path):
            axes.scatter(points[:, 0], points[:, 1], s=5, color=[colormaps[PATH](share)], alpha=0.7, linewidth=0)
    held = stage.particles.merged()
    axes.scatter(
        held.points[:, 0], held.points[:, 1], s=14, facecolor="none", edgecolor=_CHOSEN, linewidth=0.7, zorder=4
    )


def _draw_arena(axes: Axes, plane: Plane) -> None:
    for x0, y0, x1, y1 in plane.walls:
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, color=WALL, alpha=0.9, linewidth=0, zorder=0.5))
    axes.set_xlim(plane.low[0], plane.high[0])
    axes.set_ylim(plane.low[1], plane.high[1])
    axes.set_aspect("equal")
    axes.tick_params(labelsize=8)
    axes.locator_params(nbins=4)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(WALL)


def _keys(figure: Figure, axes: list[Axes], stages: Sequence[StageDistribution], heat: Normalize | None) -> None:
    """Colour bars for what is there, and a legend for the rings and the wall."""
    if any("potential" in stage.snapshot for stage in stages):
        figure.colorbar(
            ScalarMappable(Normalize(0, 1), PATH), ax=axes, label="α of the possible path", aspect=30, pad=0.01
        )
    if heat is not None:
        figure.colorbar(ScalarMappable(heat, _RETURNS), ax=axes, label="modelled return", aspect=30, pad=0.01)
    ring = Line2D([], [], linestyle="", marker="o", markerfacecolor="none", color=_CHOSEN, label="goals trained on")
    block = Rectangle((0, 0), 1, 1, color=WALL, alpha=0.9, linewidth=0, label="wall")
    figure.legend(handles=[ring, block], loc="outside lower center", ncols=2)
