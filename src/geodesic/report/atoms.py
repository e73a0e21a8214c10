"""How far each atom of a gated run has come along its own way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from geodesic.checks import FloatArray
from geodesic.records.reader import RunResult
from geodesic.records.stages import StageDistribution
from geodesic.report.scene import Plane, Scene
from geodesic.report.style import COLOURS, HEAT, PATH, evenly, new_figure, small_panel, stage_title, step_axis, styled
from geodesic.report.views import TICKS, areas, draw_goals, draw_walls

BINS = 20
MOST = 6  # stages that are drawn in the plane


def is_gated(run: RunResult) -> bool:
    """Whether stages left the progress of their atoms."""
    return any("progress" in stage.snapshot for stage in run.curriculum)


@styled
def atoms(run: RunResult, scene: Scene) -> Figure:
    """Above, the mass at each share of its way, by the step; below, for up to six stages, where the atoms stand.

    The lower row is there where contexts have a plane and each atom is one point of it.
    """
    placed = evenly([stage for stage in run.curriculum if _placed(stage)], MOST) if scene.planes else []
    figure = new_figure(max(2.15 * len(placed), 6.0) + 1.0, 5.6 if placed else 3.2)
    rows = figure.subfigures(2 if placed else 1, 1, squeeze=False)[:, 0]
    _over_time(figure if not placed else rows[0], run)
    if placed:
        panels = rows[1].subplots(1, len(placed), squeeze=False, sharex=True, sharey=True)[0]
        for axes, stage in zip(panels, placed):
            _in_plane(axes, stage, scene, scene.planes[0])
        panels[0].set_ylabel(scene.labels[scene.planes[0][1]])
        bar = ScalarMappable(Normalize(0, 1), PATH)
        rows[1].colorbar(bar, ax=panels.tolist(), label="share of its way", aspect=30, pad=0.01)
    figure.suptitle(f"{run.task}, {run.label}, seed {run.seed}: how far each atom has come")
    return figure


def _over_time(place: Figure, run: RunResult) -> None:
    """The mass in each of twenty parts of the way, as time passes, and its mean."""
    axes = place.subplots()
    stages = run.curriculum
    shares = np.stack([histogram(stage) for stage in stages], axis=1)
    edges = np.array([*(stage.step for stage in stages), max(run.steps, stages[-1].step + 1)], dtype=np.float64)
    mesh = axes.pcolormesh(edges, np.linspace(0, 1, BINS + 1), shares, cmap=HEAT, vmin=0, vmax=1)
    axes.step(edges, [*(stage.alpha for stage in stages), stages[-1].alpha], where="post", color=COLOURS["gradient"])
    axes.set_ylabel("share of its way")
    axes.set_title("mass by how far it has come; line: α, the mean", loc="left")
    step_axis(axes)
    place.colorbar(mesh, ax=axes, label="share of mass", aspect=30, pad=0.01)


def histogram(stage: StageDistribution) -> FloatArray:
    """The share of the mass (BINS,) in each part of the way; all of it at its alpha where no atom has left."""
    progress = stage.snapshot.get("progress", np.array([stage.alpha]))
    mass = stage.snapshot.get("mass", np.ones(1))
    counts = np.histogram(progress, np.linspace(0, 1, BINS + 1), weights=mass)[0]
    return np.asarray(counts / max(counts.sum(), 1e-300))


def _placed(stage: StageDistribution) -> bool:
    return len(stage.snapshot.get("progress", ())) == len(stage.particles)


def _in_plane(axes: Axes, stage: StageDistribution, scene: Scene, plane: Plane) -> None:
    draw_walls(axes, scene, plane, alpha=0.3)
    draw_goals(axes, scene, plane)
    x, y = stage.particles.points[:, list(plane)].T
    shares: Sequence[float] = stage.snapshot["progress"].tolist()
    sizes = np.maximum(areas(stage.particles.weights), 6.0)
    axes.scatter(x, y, s=sizes, c=shares, cmap=PATH, vmin=0, vmax=1, linewidth=0)
    for line, column in ((axes.set_xlim, plane[0]), (axes.set_ylim, plane[1])):
        line(scene.low[column], scene.high[column])
    axes.locator_params(nbins=TICKS)
    axes.set_xlabel(scene.labels[plane[0]])
    axes.set_title(stage_title(stage), fontsize=9)
    small_panel(axes)
