"""Where in the context space methods train, or would: scatters of distributions, a row for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from geodesic.distributions import FloatArray, Particles
from geodesic.experiments.results import RunResult, by_label
from geodesic.report.style import COLOURS, FAINT, INK, WALL, lines, looks, new_figure, short_steps, styled

MOMENTS = (0.0, 0.25, 0.5, 0.75, 1.0)

Box = tuple[float, float, float, float]
Colour = tuple[float, float, float] | str


@dataclass(frozen=True)
class Plane:
    """The context space as it is drawn: bounds (d,), names of its first two axes, target, walls (x0, y0, x1, y1)."""

    low: FloatArray
    high: FloatArray
    names: tuple[str, str] = ("context 0", "context 1")
    target: Particles | None = None
    walls: Sequence[Box] = field(default_factory=tuple)


@styled
def moments(runs: Sequence[RunResult], plane: Plane) -> Figure:
    """The first seed of each label (rows) at five moments of its run (columns)."""
    first = [group[0] for group in by_label(runs).values()]
    styles = looks(runs)
    titles = [f"step {short_steps(share * first[0].steps)}" for share in MOMENTS]
    rows = {run.label: [at_moment(run, share) for share in MOMENTS] for run in first}
    colours: dict[str, Colour] = {label: look.colour for label, look in styles.items()}
    seeds = "one seed of each" if len(runs) > 1 else f"seed {first[0].seed}"
    return _rows(rows, titles, colours, plane, f"{first[0].env}: contexts trained on, {seeds}")


@styled
def interpolations(
    alphas: Sequence[float], paths: Mapping[str, Sequence[Particles]], plane: Plane, title: str
) -> Figure:
    """Paths between two distributions, a row each, at the given alphas."""
    titles = [f"α = {alpha:g}" for alpha in alphas]
    colours: dict[str, Colour] = {name: COLOURS.get(name, COLOURS["gradient"]) for name in paths}
    return _rows(paths, titles, colours, plane, title)


def at_moment(run: RunResult, share: float) -> Particles | None:
    """What a run trained on after this share of its steps: the distribution in force, else the episodes around it."""
    stage = run.in_force(share * run.steps)
    if stage is not None:
        return stage.particles
    near = np.argsort(np.abs(run.episodes.steps - share * run.steps), kind="stable")[:50]
    return Particles(run.episodes.contexts[near]) if len(near) and run.episodes.contexts.shape[1] else None


def _rows(
    rows: Mapping[str, Sequence[Particles | None]],
    titles: Sequence[str],
    colours: Mapping[str, Colour],
    plane: Plane,
    title: str,
) -> Figure:
    figure = new_figure(1.95 * len(titles) + 1.3, 1.75 * len(rows) + 1.1)
    grid = figure.subplots(len(rows), len(titles), squeeze=False, sharex=True, sharey=True)
    for line, (label, path) in zip(grid, rows.items()):
        for axes, particles in zip(line, path):
            _scatter(axes, particles, colours[label], plane.target)
            _frame(axes, plane)
        line[-1].yaxis.set_label_position("right")
        line[-1].set_ylabel(lines(label), fontsize=11, rotation=270, va="bottom", labelpad=8)
    for axes, text in zip(grid[0], titles):
        axes.set_title(text)
    figure.supxlabel(plane.names[0], fontsize=10)
    figure.supylabel(plane.names[1], fontsize=10)
    figure.suptitle(title + ("" if plane.target is None else "; black crosses: the target"))
    return figure


def _scatter(axes: Axes, particles: Particles | None, colour: Colour, target: Particles | None) -> None:
    if target is not None:
        points = _in_the_plane(target.points)
        axes.scatter(points[:, 0], points[:, 1], s=40, marker="+", color=INK, alpha=0.3, linewidth=0.7, zorder=1)
    if particles is None:
        axes.text(0.5, 0.5, "nothing yet", transform=axes.transAxes, ha="center", va="center", color=INK)
        return
    held = particles.merged()
    points = _in_the_plane(held.points)
    # A point's area is its weight, within limits that keep points visible and apart.
    sizes = np.clip(1200 * held.weights, 1.5, 60)
    axes.scatter(points[:, 0], points[:, 1], s=sizes, color=[colour], alpha=0.6, linewidth=0, zorder=2)


def _in_the_plane(points: FloatArray) -> FloatArray:
    """The first two coordinates; a single one is drawn on a line."""
    return points[:, :2] if points.shape[1] > 1 else np.column_stack([points[:, 0], np.zeros(len(points))])


def _frame(axes: Axes, plane: Plane) -> None:
    margin = 0.04 * (plane.high - plane.low)
    axes.set_xlim(plane.low[0] - margin[0], plane.high[0] + margin[0])
    if len(plane.low) > 1:
        axes.set_ylim(plane.low[1] - margin[1], plane.high[1] + margin[1])
    for x0, y0, x1, y1 in plane.walls:
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, color=WALL, alpha=0.3, linewidth=0, zorder=0))
    axes.tick_params(labelsize=8)
    axes.locator_params(nbins=4)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(FAINT)
