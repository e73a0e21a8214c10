"""The stages of a run in a plane: what each trained on, and what its metric saw where it was fitted anew."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from geodesic.analysis.paths import path_stages
from geodesic.records.reader import RunResult
from geodesic.records.stages import StageDistribution
from geodesic.report.scene import Plane, Scene
from geodesic.report.style import (
    GOAL,
    INK,
    PATH,
    WALL,
    evenly,
    new_figure,
    small_panel,
    stage_title,
    stages_title,
    styled,
)
from geodesic.report.views import TICKS, areas, draw_goals, draw_walls, in_plane

COLUMNS = 6
MOST = 12  # stages of one figure
CHOSEN = "#D55E00"
# The lighter half of the greys, so that a low return is not taken for a wall.
RETURNS = ListedColormap(colormaps["Greys_r"](np.linspace(0.45, 1.0, 128)))


@dataclass(frozen=True, eq=False)
class Heat:
    """The modelled returns of all stages on one scale."""

    norm: Normalize
    label: str

    @classmethod
    def of(cls, stages: Sequence[StageDistribution], scene: Scene) -> Heat | None:
        """None where no stage has them. A model is pictured over the first two values, the others at their middle."""
        heats = [stage.snapshot["heat"] for stage in stages if "heat" in stage.snapshot]
        if not heats or set(scene.planes[0]) != {0, 1}:
            return None
        norm = Normalize(min(float(heat.min()) for heat in heats), max(float(heat.max()) for heat in heats))
        return cls(norm, "modelled return" if scene.dim == 2 else "modelled return, other values at their middle")


@styled
def stages(run: RunResult, scene: Scene) -> Figure:
    """For each of up to twelve stages: return model (grey), possible barycenters (colour), the chosen one (rings).

    A stage without a snapshot of its metric shows what it trained on.
    """
    passed = path_stages(run)
    shown = evenly(passed, MOST)
    columns = min(COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure = new_figure(max(2.15 * columns + 1.5, 5.4), 2.45 * rows + 1.15)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat[len(shown) :]:
        axes.set_visible(False)
    heat = Heat.of(shown, scene)
    for axes, stage in zip(grid.flat, shown):
        _draw(axes, stage, scene, heat)
        axes.set_title(stage_title(stage), fontsize=9)
    _name_axes(list(grid.flat[: len(shown)]), columns, scene)
    _keys(figure, grid.ravel().tolist(), shown, scene, heat)
    figure.suptitle(stages_title(run, len(shown), len(passed)))
    return figure


def _name_axes(panels: Sequence[Axes], columns: int, scene: Scene) -> None:
    x, y = scene.planes[0]
    for axes in panels[-columns:]:
        axes.set_xlabel(scene.labels[x])
        axes.tick_params(labelbottom=True)
    for axes in panels[::columns]:
        axes.set_ylabel(scene.labels[y])


def _draw(axes: Axes, stage: StageDistribution, scene: Scene, heat: Heat | None) -> None:
    plane = scene.planes[0]
    if heat is not None and "heat" in stage.snapshot:
        _draw_heat(axes, stage, plane, heat)
    draw_walls(axes, scene, plane, alpha=0.9, zorder=0.5)
    if "potential" in stage.snapshot:
        path = stage.snapshot["potential"][:, :, list(plane)]
        for share, points in zip(np.linspace(0, 1, len(path)), path):
            axes.scatter(points[:, 0], points[:, 1], s=5, color=[colormaps[PATH](share)], alpha=0.7, linewidth=0)
    x, y, shares = in_plane(stage.particles, plane)
    axes.scatter(x, y, s=areas(shares), facecolor="none", edgecolor=CHOSEN, linewidth=0.7, zorder=4)
    draw_goals(axes, scene, plane)
    _frame(axes, scene, plane)


def _draw_heat(axes: Axes, stage: StageDistribution, plane: Plane, heat: Heat) -> None:
    """The model lies on (y, x) of the first two values, whichever of them is drawn along x."""
    values, x, y = (stage.snapshot[name] for name in ("heat", "heat_x", "heat_y"))
    if plane == (1, 0):
        values, x, y = values.T, y, x
    axes.pcolormesh(x, y, values, cmap=RETURNS, norm=heat.norm, shading="nearest", zorder=0)


def _frame(axes: Axes, scene: Scene, plane: Plane) -> None:
    x, y = plane
    axes.set_xlim(scene.low[x], scene.high[x])
    axes.set_ylim(scene.low[y], scene.high[y])
    if scene.to_scale(plane):
        axes.set_aspect("equal")
    axes.locator_params(nbins=TICKS)
    small_panel(axes)
    for spine in axes.spines.values():
        spine.set_color(WALL)


def _keys(
    figure: Figure, axes: list[Axes], stages: Sequence[StageDistribution], scene: Scene, heat: Heat | None
) -> None:
    """Colour bars for what is there, and a legend for the rings, the walls and the goals."""
    if any("potential" in stage.snapshot for stage in stages):
        path = ScalarMappable(Normalize(0, 1), PATH)
        figure.colorbar(path, ax=axes, label="α of the possible path", aspect=30, pad=0.01)
    if heat is not None:
        figure.colorbar(ScalarMappable(heat.norm, RETURNS), ax=axes, label=heat.label, aspect=30, pad=0.01)
    marks = [Line2D([], [], linestyle="", marker="o", fillstyle="none", color=CHOSEN, label="contexts trained on")]
    if scene.drawing.goals:
        name = scene.drawing.star
        marks.append(
            Line2D([], [], linestyle="", marker="*", markersize=9, color=GOAL, markeredgecolor=INK, label=name)
        )
    walls = [Patch(color=WALL, alpha=0.9, linewidth=0, label="wall")] if scene.drawing.walls else []
    handles = [*marks, *walls]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
