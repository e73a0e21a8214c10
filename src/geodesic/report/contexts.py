"""Where in the context space methods train, or would: a row of distributions for each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from geodesic.contexts import Particles
from geodesic.records.reader import RunResult, by_label
from geodesic.report import cells
from geodesic.report.scene import Scene
from geodesic.report.style import (
    COLOURS,
    INK,
    OTHER,
    Colour,
    lines,
    looks,
    new_figure,
    short_steps,
    small_panel,
    styled,
)
from geodesic.report.views import View, views

MOMENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
EXPLORING = "exploring"

Rows = Mapping[str, Sequence[Particles | None]]  # label -> a distribution for each column; None: nothing yet


@styled
def moments(runs: Sequence[RunResult], scene: Scene) -> Figure:
    """The first seed of each label (rows) at five moments (columns), of all that it was asked for or has come to."""
    first = [group[0] for group in by_label(runs).values()]
    end = max(map(_come, first))
    steps = [share * end for share in MOMENTS]
    titles = [f"step {short_steps(step)}" for step in steps]
    rows = {run.label: [at_moment(run, step) for step in steps] for run in first}
    colours: dict[str, Colour] = {label: look.colour for label, look in looks(runs).items()}
    seeds = "one seed of each" if len(runs) > 1 else f"seed {first[0].seed}"
    exploring = {(row, k) for row, run in enumerate(first) for k, step in enumerate(steps) if _explores(run, step)}
    figure = _draw(rows, titles, colours, scene, f"{first[0].task}: contexts trained on, {seeds}")
    _mark(figure, exploring, len(rows), len(titles))
    return figure


@styled
def interpolations(
    alphas: Sequence[float], paths: Mapping[str, Sequence[Particles]], scene: Scene, name: str
) -> Figure:
    """Paths between the source and the target of the task of this name, a row each, at the given alphas."""
    titles = [f"α = {alpha:g}" for alpha in alphas]
    colours: dict[str, Colour] = {path: COLOURS.get(re.split("[ :(]", path)[0], OTHER) for path in paths}
    return _draw(paths, titles, colours, scene, f"{name}: contexts from source to target")


def _come(run: RunResult) -> int:
    """The steps of a run: of one that has not ended, those so far."""
    if run.finished:
        return run.steps
    return max((int(steps[-1]) for steps in (run.episodes.steps, run.evaluations.steps) if len(steps)), default=0)


def _explores(run: RunResult, step: float) -> bool:
    """Whether a run explored for a metric then."""
    stage = run.in_force(step)
    return stage is not None and stage.stage in run.explored


def _mark(figure: Figure, exploring: set[tuple[int, int]], rows: int, columns: int) -> None:
    """Say so in the panels of moments that explored: what is trained on there is not on the way to the target."""
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    lines = len(panels) // columns // rows  # panels of one method below each other
    for row, column in exploring:
        axes = panels[row * lines * columns + column]
        axes.text(0.5, 0.98, EXPLORING, transform=axes.transAxes, ha="center", va="top", fontsize=8, color=INK)


def at_moment(run: RunResult, step: float) -> Particles | None:
    """What a run trained on at this step: the distribution in force, else the episodes around it."""
    stage = run.in_force(step)
    if stage is not None:
        return stage.particles
    near = np.argsort(np.abs(run.episodes.steps - step), kind="stable")[:50]
    return Particles(run.episodes.contexts[near]) if len(near) and run.episodes.contexts.shape[1] else None


def _draw(rows: Rows, titles: Sequence[str], colours: Mapping[str, Colour], scene: Scene, title: str) -> Figure:
    if scene.cells is not None:
        return cells.panels(rows, titles, scene.cells, scene.drawing.goals, title, scene.drawing.star)
    shown = views(scene)
    figure = new_figure(1.95 * len(titles) + 1.3, 1.75 * len(rows) * len(shown) + 1.1)
    alike = len(shown) == 1
    grid = figure.subplots(len(rows) * len(shown), len(titles), squeeze=False, sharex=alike, sharey=alike)
    parts = [(label, view) for label in rows for view in shown]
    for line, (label, view) in zip(grid, parts):
        _row(line, rows[label], label, view, colours[label])
    for axes, text in zip(grid[0], titles):
        axes.set_title(text)
    _name_axes(figure, grid, [view for _, view in parts], alike)
    figure.suptitle("\n".join(part for part in (title, _key(shown, scene)) if part))
    return figure


def _row(line: NDArray[np.object_], path: Sequence[Particles | None], label: str, view: View, colour: Colour) -> None:
    for axes, particles in zip(line, path):
        view.draw(axes, particles, colour)
        if particles is None:
            axes.text(0.5, 0.5, "nothing yet", transform=axes.transAxes, ha="center", va="center", color=INK)
        small_panel(axes)
    beside = {"xytext": (8, 0), "textcoords": "offset points", "rotation": 270, "va": "center", "fontsize": 11}
    line[-1].annotate(lines(label), (1.0, 0.5), xycoords="axes fraction", **beside)


def _name_axes(figure: Figure, grid: NDArray[np.object_], shown: Sequence[View], alike: bool) -> None:
    """The names of the axes: once where all panels have the same, else at the beginning of each row."""
    if alike:
        figure.supxlabel(shown[0].labels[0], fontsize=10)
        figure.supylabel(shown[0].labels[1], fontsize=10)
        return
    for line, view in zip(grid, shown):
        line[0].set_ylabel(view.labels[1], fontsize=9)
        for axes in line:
            axes.set_xlabel(view.labels[0], fontsize=9)
        for axes in line[1:]:
            axes.tick_params(labelleft=False)


def _key(shown: Sequence[View], scene: Scene) -> str:
    """What the marks mean, and what is left out."""
    told = list(dict.fromkeys(text for view in shown for text in view.key))
    drawn = {column for plane in scene.planes for column in plane}
    if 0 < len(drawn) < scene.dim:
        told.append(f"{len(drawn)} of {scene.dim} context values")
    return "; ".join(told)
