"""Stages: what each trained on, what its metric modelled, how far each particle moved, and the paths of methods."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from geodesic.analysis.paths import StagePath, path_stages
from geodesic.checks import FloatArray
from geodesic.records.reader import RunResult, by_label
from geodesic.records.schema import StageDistribution
from geodesic.report import style
from geodesic.report.panels import CellPanel, areas, draw_plane, in_plane, probability_bar
from geodesic.report.scene import Plane, Scene
from geodesic.report.style import Style, evenly, new_figure, new_grid, small_panel, stage_title, step_axis, styled

COLUMNS = 6
MOST_CELLS = 36  # stages of one figure
MOST_PLANES = 12
MOST_PROGRESS = 6  # stages whose points are drawn in the plane
BINS = 20  # of the progress
# attribute of a path -> title and unit of its panel
PANELS = {
    "feasible": ("fraction of feasible contexts", "fraction of the stage's mass"),
    "lengths": ("length of the path so far", "W2, in context units"),
    "speeds": ("speed of the path", "W2 per unit of α"),
}
# The lighter half of the greys, so that a low return does not look like a wall.
RETURNS = ListedColormap(colormaps["Greys_r"](np.linspace(0.45, 1.0, 128)))

Line = tuple[FloatArray, FloatArray]  # alphas (n,) and the values there (n,)


@styled
def stages(run: RunResult, scene: Scene) -> Figure:
    """Draw the stages of a run on cells or in a plane.

    On cells, each of up to 36 stages is shaded by its probabilities. In a plane, each of up to 12 stages shows the
    contexts trained on (rings), and where a learned metric was fitted its return model (grey) and the possible
    barycenters (colour).

    Args:
        run: A run with stages.
        scene: A context space of cells or one plane.

    Returns:
        The figure.
    """
    cells = scene.plot.cells is not None
    every = list(run.curriculum) if cells else path_stages(run)
    shown = evenly(every, MOST_CELLS if cells else MOST_PLANES)
    columns = min(COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    size = (1.75 * columns + 1.1, 2.05 * rows + 0.5) if cells else (2.15 * columns + 1.5, 2.45 * rows + 1.15)
    figure = new_figure(max(size[0], 5.4), size[1])
    grid = new_grid(figure, len(shown), columns, shared=not cells)
    for axes, stage in zip(grid, shown):
        axes.set_title(stage_title(stage, stage.stage in run.explored), fontsize=9)
    some = "each stage" if len(shown) == len(every) else f"{len(shown)} of {len(every)} stages"
    title = f"{run.task}, {run.label}, seed {run.seed}: contexts of {some}"
    if cells:
        panel = CellPanel(scene, [stage.particles for stage in shown])
        for axes, stage in zip(grid, shown):
            panel.draw(axes, stage.particles, "")
        probability_bar(figure, grid, panel)
        title = "; ".join([title, *panel.key])
    else:
        _fill_planes(figure, grid, shown, scene)
    figure.suptitle(title)
    return figure


def _heat_norm(shown: Sequence[StageDistribution], scene: Scene) -> Normalize | None:
    """One scale for the modelled scores of all stages; None without any, or if other values are drawn."""
    heats = [stage.snapshot["heat"] for stage in shown if "heat" in stage.snapshot]
    if not heats or set(scene.planes[0]) != {0, 1}:
        return None
    return Normalize(min(float(heat.min()) for heat in heats), max(float(heat.max()) for heat in heats))


def _fill_planes(figure: Figure, grid: Sequence[Axes], shown: Sequence[StageDistribution], scene: Scene) -> None:
    heat = _heat_norm(shown, scene)
    for axes, stage in zip(grid, shown):
        _draw_stage(axes, stage, scene, heat)
    panels, columns = grid[: len(shown)], min(COLUMNS, len(shown))
    for axes in panels[-columns:]:
        axes.set_xlabel(scene.space.labels[scene.planes[0][0]])
    for axes in panels[::columns]:
        axes.set_ylabel(scene.space.labels[scene.planes[0][1]])
    if any("potential" in stage.snapshot for stage in shown):
        figure.colorbar(_progress_scale(), ax=grid, label="α of the possible path", aspect=30, pad=0.01)
    if heat is not None:
        label = "modelled score" + (", other values at their middle" if scene.space.dim > 2 else "")
        figure.colorbar(ScalarMappable(heat, RETURNS), ax=grid, label=label, aspect=30, pad=0.01)
    handles = _marks(scene)
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def _draw_stage(axes: Axes, stage: StageDistribution, scene: Scene, heat: Normalize | None) -> None:
    plane = scene.planes[0]
    if heat is not None and "heat" in stage.snapshot:
        values, x, y = (stage.snapshot[name] for name in ("heat", "heat_x", "heat_y"))
        if plane == (1, 0):  # the model lies on (y, x) of the first two values, whichever of them is drawn along x
            values, x, y = values.T, y, x
        axes.pcolormesh(x, y, values, cmap=RETURNS, norm=heat, shading="nearest", zorder=0)
    draw_plane(axes, scene, plane, alpha=0.9, zorder=0.5)
    if "potential" in stage.snapshot:
        path = stage.snapshot["potential"][:, :, list(plane)]
        for points, colour in zip(path, colormaps[style.PATH](np.linspace(0, 1, len(path)))):
            axes.scatter(points[:, 0], points[:, 1], s=5, color=[colour], alpha=0.7, linewidth=0)
    x, y, fractions = in_plane(stage.particles, plane)
    axes.scatter(x, y, s=areas(fractions), facecolor="none", edgecolor=style.ACCENT, linewidth=0.7, zorder=4)
    small_panel(axes, style.WALL)
    if scene.to_scale(plane):
        axes.set_aspect("equal")


def _progress_scale() -> ScalarMappable:
    return ScalarMappable(Normalize(0, 1), style.PATH)


def _marks(scene: Scene) -> list[Line2D | Patch]:
    """Legend entries for the rings, the goals and the walls."""
    ring = Line2D([], [], linestyle="", marker="o", fillstyle="none", color=style.ACCENT, label="contexts trained on")
    star: dict[str, Any] = {"marker": "*", "markersize": 9, "color": style.GOAL, "markeredgecolor": style.INK}
    goals = [Line2D([], [], linestyle="", label=scene.plot.star, **star)] if scene.plot.goals else []
    walls = [Patch(color=style.WALL, alpha=0.9, linewidth=0, label="wall")] if scene.plot.walls else []
    return [ring, *goals, *walls]


def has_progress(run: RunResult) -> bool:
    """Whether the particles of a run move individually, so that its stages recorded the progress of each."""
    return any("progress" in stage.snapshot for stage in run.curriculum)


@styled
def progress(run: RunResult, scene: Scene) -> Figure:
    """Draw how far the particles of a run have moved along their paths.

    Above, the mass at each progress over the steps. Below, for up to six stages, where the particles are, if contexts
    have a plane and each particle is one point of it.

    Args:
        run: A run whose stages recorded the progress of each particle.
        scene: The context space.

    Returns:
        The figure.
    """
    placed = [stage for stage in run.curriculum if len(stage.snapshot.get("progress", ())) == len(stage.particles)]
    placed = evenly(placed, MOST_PROGRESS) if scene.planes else []
    figure = new_figure(max(2.15 * len(placed), 6.0) + 1.0, 5.6 if placed else 3.2)
    rows = figure.subfigures(2 if placed else 1, 1, squeeze=False)[:, 0]
    _over_time(figure if not placed else rows[0], run)
    if placed:
        panels = rows[1].subplots(1, len(placed), squeeze=False, sharex=True, sharey=True)[0]
        for axes, stage in zip(panels, placed):
            _draw_progress(axes, stage, scene, scene.planes[0])
        panels[0].set_ylabel(scene.space.labels[scene.planes[0][1]])
        rows[1].colorbar(_progress_scale(), ax=panels.tolist(), label="progress", aspect=30, pad=0.01)
    figure.suptitle(f"{run.task}, {run.label}, seed {run.seed}: progress of each particle")
    return figure


def _over_time(place: Figure, run: RunResult) -> None:
    """The mass in each of twenty parts of the path over the steps, and its mean."""
    axes = place.subplots()
    stages = run.curriculum
    fractions = np.stack([progress_histogram(stage) for stage in stages], axis=1)
    edges = np.array([*(stage.step for stage in stages), max(run.steps, stages[-1].step + 1)], dtype=np.float64)
    mesh = axes.pcolormesh(edges, np.linspace(0, 1, BINS + 1), fractions, cmap=style.HEAT, vmin=0, vmax=1)
    alphas = [stage.alpha for stage in [*stages, stages[-1]]]
    axes.step(edges, alphas, where="post", color=style.colour_of("gradient"))
    axes.set_ylabel("progress")
    axes.set_title("mass by progress; line: α, the mean", loc="left")
    step_axis(axes)
    place.colorbar(mesh, ax=axes, label="fraction of mass", aspect=30, pad=0.01)


def progress_histogram(stage: StageDistribution) -> FloatArray:
    """Return the fraction of the mass in each part of the path, shape (20,); all at alpha before any particle moved."""
    progress = stage.snapshot.get("progress", np.array([stage.alpha]))
    mass = stage.snapshot.get("mass", np.ones(1))
    counts = np.histogram(progress, np.linspace(0, 1, BINS + 1), weights=mass)[0]
    return np.asarray(counts / max(counts.sum(), 1e-300))


def _draw_progress(axes: Axes, stage: StageDistribution, scene: Scene, plane: Plane) -> None:
    draw_plane(axes, scene, plane)
    x, y = stage.particles.points[:, list(plane)].T
    sizes = np.maximum(areas(stage.particles.weights), 6.0)
    axes.scatter(x, y, s=sizes, c=stage.snapshot["progress"], cmap=style.PATH, vmin=0, vmax=1, linewidth=0)
    small_panel(axes)
    axes.set_xlabel(scene.space.labels[plane[0]])
    axes.set_title(stage_title(stage), fontsize=9)


@styled
def path_summary(runs: Sequence[RunResult], paths: Mapping[str, Sequence[StagePath]]) -> Figure:
    """Draw the feasible fraction, the length and the speed of each label's path by alpha.

    Thin lines are seeds, thick lines their mean. A path that goes back is not a function of alpha: its seeds have no
    mean.

    Args:
        runs: The runs.
        paths: For each label, the path of each seed.

    Returns:
        The figure.
    """
    figure = new_figure(9.3 + style.legend_width(paths), 3.6)
    panels = figure.subplots(1, len(PANELS))
    styles = style.styles_of(runs)
    for axes, (name, (title, unit)) in zip(panels, PANELS.items()):
        for label in by_label(runs):
            lines = [_known(path.alphas, getattr(path, name)) for path in paths.get(label, ())]
            _draw(axes, [line for line in lines if len(line[0])], styles[label], label)
        axes.set_title(title, loc="left")
        axes.set(xlabel="α of the stage", xlim=(-0.03, 1.03), ylim=(0, None))
        style.value_axis(axes, unit)
    panels[0].set_ylim(-0.05, 1.05)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper")
    return figure


def _known(alphas: FloatArray, values: FloatArray) -> Line:
    known = np.isfinite(values)
    return alphas[known], values[known]


def _draw(axes: Axes, seeds: Sequence[Line], own: Style, label: str) -> None:
    """The lines of the seeds, and their mean if there is one; the legend has the label once."""
    if all((np.diff(alphas) >= 0).all() for alphas, _ in seeds):
        for alphas, values in seeds if len(seeds) > 1 else ():
            axes.plot(alphas, values, color=own.colour, linewidth=0.7, alpha=0.35)
        seeds = [_mean(seeds)] if len(seeds) > 1 else seeds
    for place, (alphas, values) in enumerate(seeds):
        (line,) = axes.plot(alphas, values, color=own.colour, linestyle=own.line, marker="o", markersize=4)
        line.set_label(label if not place else "_")


def _mean(seeds: Sequence[Line]) -> Line:
    grid = np.unique(np.concatenate([alphas for alphas, _ in seeds]).round(9))
    return grid, np.mean([np.interp(grid, alphas, values) for alphas, values in seeds], axis=0)
