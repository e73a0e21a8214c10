"""How one distribution over contexts is drawn: bars along a line or on a support, points in a plane, shaded cells.

A figure draws a panel on matplotlib's axes. A page draws the same axes once, as SVG, and fills them stage by stage from
rows of integers: value = offset + number * scale, one number for each field.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, MaxNLocator

from geodesic.contexts import ContextSpace, FloatArray, Particles
from geodesic.records.schema import StageDistribution
from geodesic.report.scene import Plane, Scene
from geodesic.report.style import FAINT, GOAL, HEAT, INK, TARGET, WALL, evenly, goal_key

BINS = 20
MOST_BARS = 40
TICKS = 4
CHARACTERS = 30  # of tick labels that fit below a panel
FINE = 999  # steps of a coordinate or a fraction in a page
POINTS = 64  # of a stage in a page; larger distributions are thinned
FRACTION = 1 / FINE

# What one number of a row means: its name in the page, the value of number 0, and the step between two numbers.
Field = tuple[str, float, float]


class Panel:
    """One way to draw distributions, the same in every panel of a row."""

    labels: tuple[str, str] = ("", "")  # of the x and the y axis
    key: tuple[str, ...] = ()  # what the marks mean
    fields: tuple[Field, ...]  # of the rows of a page
    shape: dict[str, Any]  # how a page draws a row
    aspect: float  # height over width

    def draw(self, axes: Axes, particles: Particles | None, colour: str) -> None:
        """Draw a distribution, if there is one, with the walls, the goals and the target."""
        raise NotImplementedError

    def rows(self, stage: StageDistribution) -> FloatArray:
        """Return what a page draws of a stage, shape (n, fields)."""
        raise NotImplementedError


def panels_of(scene: Scene, shown: Sequence[Particles | None] = ()) -> list[Panel]:
    """Choose how the contexts of a scene are drawn.

    Args:
        scene: The context space.
        shown: The distributions that will be drawn; shades of cells have one scale for all of them.

    Returns:
        One panel, or one for each plane.
    """
    if scene.plot.cells is not None:
        return [CellPanel(scene, shown)]
    if scene.space.dim > 1:
        return [PlanePanel(scene, plane) for plane in scene.planes]
    if scene.space.support is not None:
        return [BarPanel(scene, np.unique(scene.space.support[:, 0]))]
    (part,) = scene.space.parts()
    return [LinePanel(scene) if isinstance(part, tuple) or len(part) > MOST_BARS else BarPanel(scene, part)]


def integers(panel: Panel, stage: StageDistribution) -> list[int]:
    """Write the rows of a stage as integers, one row after the other."""
    _, offsets, scales = (np.array(column) for column in zip(*panel.fields))
    numbers: list[int] = np.round((panel.rows(stage) - offsets) / scales).astype(int).ravel().tolist()
    return numbers


class MassPanel(Panel):
    """Contexts of one value: a bar for the mass at each of several places."""

    aspect = 0.75

    def __init__(self, scene: Scene, key: str, first: float, step: float) -> None:
        self.target = scene.target
        self.labels = (scene.space.labels[0], "fraction of mass")
        if scene.target is not None:
            self.key = (key,)
        self.fields = (("x", first, step), ("fraction", 0, FRACTION))

    def fractions(self, particles: Particles) -> FloatArray:
        """Return the mass at each place, shape (places,)."""
        raise NotImplementedError

    def rows(self, stage: StageDistribution) -> FloatArray:
        """Return the x and the mass of each place that has any."""
        fractions, (_, first, step) = self.fractions(stage.particles), self.fields[0]
        some = np.flatnonzero(fractions)
        return np.column_stack([first + some * step, fractions[some]])


class LinePanel(MassPanel):
    """Contexts of one value: the fraction of the mass in each of twenty equal parts of their range."""

    def __init__(self, scene: Scene) -> None:
        self.edges = np.linspace(scene.low[0], scene.high[0], BINS + 1)
        width = float(self.edges[1] - self.edges[0])
        super().__init__(scene, "black line: the target", float(self.edges[0]), width)
        self.shape = {"kind": "bars", "left": 0, "right": width}

    def draw(self, axes: Axes, particles: Particles | None, colour: str) -> None:
        """Draw the mass as filled steps, and the target as an outline."""
        if particles is not None:
            axes.stairs(self.fractions(particles), self.edges, fill=True, color=colour, alpha=0.6, linewidth=0)
        if self.target is not None:
            axes.stairs(self.fractions(self.target), self.edges, color=INK, linewidth=0.9)
        axes.set_xlim(self.edges[0], self.edges[-1])
        axes.locator_params(nbins=TICKS)

    def fractions(self, particles: Particles) -> FloatArray:
        """Return the mass within each part, shape (BINS,)."""
        values = np.clip(particles.points[:, 0], self.edges[0], self.edges[-1])
        return np.histogram(values, self.edges, weights=particles.weights)[0]


class BarPanel(MassPanel):
    """A discrete space of one value: a bar for each of the values (n,), in order, evenly spaced."""

    def __init__(self, scene: Scene, values: FloatArray) -> None:
        super().__init__(scene, "black outlines: the target", 0.0, 1.0)
        self.values = values
        self.names = category_names(scene.space, 0) or [f"{value:g}" for value in values]
        self.shape = {"kind": "bars", "left": -0.4, "right": 0.4, "names": self.names}

    def draw(self, axes: Axes, particles: Particles | None, colour: str) -> None:
        """Draw the mass as bars, and the target as outlines."""
        places = np.arange(len(self.values))
        if particles is not None:
            axes.bar(places, self.fractions(particles), width=0.8, color=[colour], alpha=0.6, linewidth=0)
        if self.target is not None:
            axes.bar(places, self.fractions(self.target), width=0.8, facecolor="none", edgecolor=INK, linewidth=0.9)
        axes.set_xlim(-0.7, len(places) - 0.3)
        every = math.ceil(sum(len(name) + 1 for name in self.names) / CHARACTERS)
        axes.set_xticks(places[::every], self.names[::every])
        axes.locator_params("y", nbins=TICKS)

    def fractions(self, particles: Particles) -> FloatArray:
        """Return the mass on each point of the support, shape (n,)."""
        nearest = np.abs(particles.points[:, :1] - self.values).argmin(axis=1)
        return np.asarray(np.bincount(nearest, particles.weights, len(self.values)), dtype=np.float64)


class PlanePanel(Panel):
    """Two values of a context: a dot for each point, its area by the mass, over walls, goals and the target."""

    def __init__(self, scene: Scene, plane: Plane) -> None:
        self.scene, self.plane = scene, plane
        self.labels = (scene.space.labels[plane[0]], scene.space.labels[plane[1]])
        self.places = scene.places(plane)
        target = {"grey crosses" if scene.places(each) is None else "black rings": None for each in scene.planes}
        marks = {
            f"{' and '.join(target)}: the target": scene.target is not None,
            "grey boxes: walls": scene.walls(plane),
            goal_key(scene.plot.goals, scene.plot.star): scene.goals(plane),
        }
        self.key = tuple(text for text, drawn in marks.items() if drawn)
        low = scene.low[list(plane)]
        width, height = sides = scene.high[list(plane)] - low
        steps, first = scene.space.steps[list(plane)], scene.space.low[list(plane)]
        x, y = (
            (name, float(value), float(step)) if step > 0 else (name, float(start), float(side) / FINE)
            for name, start, side, value, step in zip("xy", low, sides, first, steps)
        )
        self.fields = (x, y, ("fraction", 0, FRACTION), ("progress", 0, FRACTION))
        self.aspect = float(height / width) if scene.to_scale(plane) else 1.0
        area = (1200.0, 6.0, 60.0) if self.places is None else (260.0, 0.0, 260.0)
        names = [category_names(scene.space, column) for column in plane]
        self.shape = {"kind": "dots", "area": area, "names": names}

    def draw(self, axes: Axes, particles: Particles | None, colour: str) -> None:
        """Draw the points over the walls, the goals and the target; on few places, over the empty ones too."""
        places, target = self.places, self.scene.target
        draw_plane(axes, self.scene, self.plane, margin=0.12 if self.scene.space.support is not None else 0.04)
        if places is not None:
            x, y = places.T
            axes.scatter(x, y, s=4, color=FAINT, linewidth=0, zorder=1)
        else:
            self._crosses(axes)
        if particles is not None:
            x, y, fractions = in_plane(particles, self.plane)
            sizes = areas(fractions) if places is None else 260 * fractions
            axes.scatter(x, y, s=sizes, color=[colour], alpha=0.6, linewidth=0, zorder=2)
        if places is not None and target is not None:
            x, y, fractions = in_plane(target, self.plane)
            axes.scatter(x, y, s=260 * fractions, facecolor="none", edgecolor=INK, linewidth=0.7, zorder=3)

    def _crosses(self, axes: Axes) -> None:
        """The target of a continuous space; with hundreds of points a panel, they are one picture in a PDF or SVG."""
        axes.set_rasterization_zorder(2.2)
        if self.scene.target is not None:
            x, y = self.scene.target.points[:, list(self.plane)].T
            crowd = max(1.0, len(x) / 500)  # crosses of thousands would hide what is below and above them
            axes.scatter(x, y, s=40 / crowd**2, marker="+", color=TARGET, alpha=0.5, linewidth=0.7, zorder=1)

    def rows(self, stage: StageDistribution) -> FloatArray:
        """Return x, y, mass and progress of at most 64 points; a negative progress where points have none."""
        progress = stage.snapshot.get("progress")
        if progress is not None and progress.shape == (len(stage.particles),):
            some = evenly(range(len(progress)), POINTS)
            points = stage.particles.points[some][:, list(self.plane)]
            return np.column_stack([points, stage.particles.weights[some], np.clip(progress[some], 0, 1)])
        x, y, fractions = in_plane(stage.particles, self.plane)
        if len(x) > POINTS:
            thin = Particles(np.column_stack([x, y]), fractions).thinned(POINTS, np.random.default_rng(0))
            x, y, fractions = in_plane(thin, (0, 1))
        return np.column_stack([x, y, fractions, np.full(len(x), -1.0)])


class CellPanel(Panel):
    """Contexts that are the cells of a grid: (row, column), shaded by their probability."""

    fields = (("row", 0, 1), ("column", 0, 1), ("fraction", 0, FRACTION))

    def __init__(self, scene: Scene, shown: Sequence[Particles | None] = ()) -> None:
        self.grid = np.zeros((1, 1), int) if scene.plot.cells is None else scene.plot.cells
        self.goals, self.target = scene.plot.goals, scene.target
        outlined = "black outlines: the target" if scene.target is not None else ""
        self.key = tuple(filter(None, [outlined, goal_key(scene.plot.goals, scene.plot.star)]))
        highest = max((float(self.fractions(particles).max()) for particles in shown), default=1.0)
        # One scale for all panels; the square root keeps a broad distribution visible next to a narrow one.
        self.norm = PowerNorm(0.5, 0.0, highest)
        self.shape = {"kind": "cells"}
        self.aspect = self.grid.shape[0] / self.grid.shape[1]

    def fractions(self, particles: Particles | None) -> FloatArray:
        """Return the probability of each cell, shape of the grid."""
        fractions = np.zeros(self.grid.shape)
        if particles is not None:
            rows, columns = np.round(particles.points).astype(int).T
            np.add.at(fractions, (rows, columns), particles.weights)
        return fractions

    def draw(self, axes: Axes, particles: Particles | None, colour: str) -> None:
        """Shade the cells, whatever the method's colour, and draw the walls and the goals."""
        fractions = self.fractions(particles)
        colours = colormaps[HEAT](self.norm(fractions))
        colours[(self.grid == 1) & (fractions == 0)] = to_rgba(WALL)  # mass on a wall stays visible
        axes.imshow(colours, interpolation="nearest")
        draw_stars(axes, [(column, row) for row, column in self.goals], zorder=3)
        rows, columns = (np.arange(size + 1) - 0.5 for size in self.grid.shape)
        axes.hlines(rows, columns[0], columns[-1], color=FAINT, linewidth=0.25, zorder=2)
        axes.vlines(columns, rows[0], rows[-1], color=FAINT, linewidth=0.25, zorder=2)
        for row, column in np.argwhere(self.fractions(self.target) > 0):
            corner = (column - 0.5, row - 0.5)
            axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=INK, linewidth=1.2, zorder=3, clip_on=False))
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)

    def rows(self, stage: StageDistribution) -> FloatArray:
        """Return the row, the column and the probability of each cell that has any."""
        joined = Particles(np.round(stage.particles.points), stage.particles.weights).merged()
        return np.column_stack([joined.points, joined.weights])


def in_plane(particles: Particles, plane: Plane) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Project a distribution on two of its values and join equal points.

    Args:
        particles: The distribution.
        plane: The columns along x and y.

    Returns:
        x, y and mass, each of shape (n,).
    """
    projected = Particles(particles.points[:, list(plane)], particles.weights).merged()
    return projected.points[:, 0], projected.points[:, 1], projected.weights


def areas(weights: FloatArray) -> FloatArray:
    """Return areas of points by their weights, within limits that keep points visible and apart."""
    return np.clip(1200 * weights, 1.5, 60)


def draw_plane(
    axes: Axes, scene: Scene, plane: Plane, margin: float = 0.0, alpha: float = 0.3, zorder: float = 0
) -> None:
    """Draw a plane of a scene without contexts: its bounds, its walls as filled boxes, and its goals.

    Args:
        axes: Where to draw.
        scene: The scene.
        plane: The columns along x and y.
        margin: The room around the bounds, as a fraction of each side.
        alpha: The opacity of the walls.
        zorder: The order in which the walls are drawn.
    """
    low, high = scene.low[list(plane)], scene.high[list(plane)]
    (left, bottom), (right, top) = low - margin * (high - low), high + margin * (high - low)
    axes.set(xlim=(left, right), ylim=(bottom, top))
    axes.locator_params(nbins=TICKS)
    for axis, column in zip((axes.xaxis, axes.yaxis), plane):
        _name_ticks(axis, scene.space, column)
    for x0, y0, x1, y1 in scene.walls(plane):
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, color=WALL, alpha=alpha, linewidth=0, zorder=zorder))
    draw_stars(axes, scene.goals(plane))


def category_names(space: ContextSpace, column: int) -> list[str] | None:
    """Return the names of a value's categories; None if it has none."""
    values = space.values[column]
    return list(map(str, values)) if isinstance(values, tuple) else None


def _name_ticks(axis: Axis, space: ContextSpace, column: int) -> None:
    """Write categories at the ticks of an axis, and integers only at integers."""
    names = category_names(space, column)
    if names is not None:
        axis.set_ticks(range(len(names)), names)
        if axis is axis.axes.xaxis and sum(map(len, names)) > CHARACTERS * 2 // 3:
            axis.set_tick_params(rotation=30)
    elif space.steps[column] > 0:
        integers = np.asarray(space.parts()[column])
        few = len(integers) <= TICKS + 1
        axis.set_major_locator(FixedLocator(integers.tolist()) if few else MaxNLocator(TICKS, integer=True))


def draw_stars(axes: Axes, places: Sequence[tuple[float, float]], zorder: float = 5) -> None:
    """Draw goals as stars at these x and y."""
    for x, y in places:
        axes.scatter([x], [y], marker="*", s=80, facecolor=GOAL, edgecolor=INK, linewidth=0.7, zorder=zorder)


def probability_bar(figure: Figure, grid: Sequence[Axes], panel: CellPanel) -> None:
    """Draw a colour bar beside all panels.

    It belongs to two corners only: the layout engine measures it once for each of its panels.
    """
    corners = list(dict.fromkeys([grid[0], grid[-1]]))
    mappable = ScalarMappable(panel.norm, HEAT)
    bar = figure.colorbar(mappable, ax=corners, shrink=0.85, pad=0.01, fraction=0.04, aspect=25)
    for axes in grid:
        axes.set_anchor(corners[0].get_anchor())
    bar.set_label("probability")
    bar.outline.set_visible(False)
