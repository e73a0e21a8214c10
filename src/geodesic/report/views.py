"""Pictures of one distribution over contexts: along a line, on the support of a discrete space, in a plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from geodesic.contexts import FloatArray, Particles
from geodesic.report.scene import Plane, Scene
from geodesic.report.style import FAINT, GOAL, INK, WALL, Colour, goal_key

BINS = 20
TICKS = 4
LETTERS = 30  # that fit below a panel


class View(Protocol):
    """One way to draw distributions, the same in every panel of a row."""

    labels: tuple[str, str]  # of the x and the y axis
    key: tuple[str, ...]  # what a reader has to be told

    def draw(self, axes: Axes, particles: Particles | None, colour: Colour) -> None:
        """The distribution, where there is one, over what is always there."""


def views(scene: Scene) -> list[View]:
    """How the contexts of this scene are drawn: one picture, or one for each plane."""
    if scene.dim > 1:
        return [PlaneView(scene, plane) for plane in scene.planes]
    if scene.support is None:
        return [LineView(scene)]
    return [BarView(scene, scene.support)]


class LineView:
    """Contexts of one value: the share of the mass in each of twenty equal parts of their range."""

    def __init__(self, scene: Scene) -> None:
        self.edges = np.linspace(scene.low[0], scene.high[0], BINS + 1)
        self.target = scene.target
        self.labels = (scene.labels[0], "share of mass")
        self.key: tuple[str, ...] = () if scene.target is None else ("black line: the target",)

    def draw(self, axes: Axes, particles: Particles | None, colour: Colour) -> None:
        if particles is not None:
            axes.stairs(self.shares(particles), self.edges, fill=True, color=colour, alpha=0.6, linewidth=0)
        if self.target is not None:
            axes.stairs(self.shares(self.target), self.edges, color=INK, linewidth=0.9)
        axes.set_xlim(self.edges[0], self.edges[-1])
        axes.locator_params(nbins=TICKS)

    def shares(self, particles: Particles) -> FloatArray:
        """The mass within each part, (BINS,)."""
        values = np.clip(particles.points[:, 0], self.edges[0], self.edges[-1])
        return np.histogram(values, self.edges, weights=particles.weights)[0]


class BarView:
    """A discrete space of one value: a bar for each point of the support, in order, whatever lies between them."""

    def __init__(self, scene: Scene, support: FloatArray) -> None:
        self.values = np.unique(support[:, 0])
        self.target = scene.target
        self.labels = (scene.labels[0], "share of mass")
        self.key: tuple[str, ...] = () if scene.target is None else ("black outlines: the target",)

    def draw(self, axes: Axes, particles: Particles | None, colour: Colour) -> None:
        places = np.arange(len(self.values))
        if particles is not None:
            axes.bar(places, self.shares(particles), width=0.8, color=[colour], alpha=0.6, linewidth=0)
        if self.target is not None:
            axes.bar(places, self.shares(self.target), width=0.8, facecolor="none", edgecolor=INK, linewidth=0.9)
        axes.set_xlim(-0.7, len(places) - 0.3)
        names = [f"{value:g}" for value in self.values]
        every = math.ceil(sum(len(name) + 1 for name in names) / LETTERS)
        axes.set_xticks(places[::every], names[::every])
        axes.locator_params("y", nbins=TICKS)

    def shares(self, particles: Particles) -> FloatArray:
        """The mass on each point of the support, (n,)."""
        nearest = np.abs(particles.points[:, :1] - self.values).argmin(axis=1)
        shares = np.zeros(len(self.values))
        np.add.at(shares, nearest, particles.weights)
        return shares


class PlaneView:
    """Two values of a context: a dot for each point, its area by the mass; the walls, goals and target behind it."""

    def __init__(self, scene: Scene, plane: Plane) -> None:
        self.scene, self.plane = scene, plane
        self.labels = (scene.labels[plane[0]], scene.labels[plane[1]])
        self.key = tuple(self._key())

    def _key(self) -> Sequence[str]:
        target = "crosses" if self.scene.support is None else "rings"
        told = {
            f"black {target}: the target": self.scene.target is not None,
            "grey boxes: walls": self.scene.has_walls(self.plane),
            goal_key(self.scene.drawing.goals, self.scene.drawing.star): self.scene.has_goals(self.plane),
        }
        return [text for text, drawn in told.items() if drawn]

    def draw(self, axes: Axes, particles: Particles | None, colour: Colour) -> None:
        self.frame(axes)
        draw_walls(axes, self.scene, self.plane, alpha=0.3)
        draw_goals(axes, self.scene, self.plane)
        if self.scene.support is None:
            self._cloud(axes, particles, colour)
        else:
            self._dots(axes, particles, colour, self.scene.support)

    def frame(self, axes: Axes) -> None:
        low, high = self.scene.low[list(self.plane)], self.scene.high[list(self.plane)]
        margin = (0.04 if self.scene.support is None else 0.12) * (high - low)
        axes.set_xlim(low[0] - margin[0], high[0] + margin[0])
        axes.set_ylim(low[1] - margin[1], high[1] + margin[1])
        axes.locator_params(nbins=TICKS)

    def _cloud(self, axes: Axes, particles: Particles | None, colour: Colour) -> None:
        """Samples of a continuous distribution; hundreds a panel, so they are one picture in a PDF or SVG."""
        axes.set_rasterization_zorder(2.2)
        if self.scene.target is not None:
            x, y = self.scene.target.points[:, list(self.plane)].T
            crowd = max(1.0, len(x) / 500)  # crosses of thousands would hide what is below and above them
            axes.scatter(x, y, s=40 / crowd**2, marker="+", color=INK, alpha=0.3, linewidth=0.7, zorder=1)
        if particles is not None:
            x, y, shares = in_plane(particles, self.plane)
            axes.scatter(x, y, s=areas(shares), color=[colour], alpha=0.6, linewidth=0, zorder=2)

    def _dots(self, axes: Axes, particles: Particles | None, colour: Colour, support: FloatArray) -> None:
        """Masses on the support, which is seen where it is empty, too."""
        x, y = support[:, list(self.plane)].T
        axes.scatter(x, y, s=4, color=FAINT, linewidth=0, zorder=1)
        if particles is not None:
            x, y, shares = in_plane(particles, self.plane)
            axes.scatter(x, y, s=_dot(shares), color=[colour], alpha=0.6, linewidth=0, zorder=2)
        if self.scene.target is not None:
            x, y, shares = in_plane(self.scene.target, self.plane)
            axes.scatter(x, y, s=_dot(shares), facecolor="none", edgecolor=INK, linewidth=0.7, zorder=3)


def in_plane(particles: Particles, plane: Plane) -> tuple[FloatArray, FloatArray, FloatArray]:
    """x, y and mass, all (n,), of a distribution projected on two of its values, equal points joined."""
    seen = Particles(particles.points[:, list(plane)], particles.weights).merged()
    return seen.points[:, 0], seen.points[:, 1], seen.weights


def areas(weights: FloatArray) -> FloatArray:
    """Areas of points by their weights, within limits that keep points visible and apart."""
    return np.clip(1200 * weights, 1.5, 60)


def _dot(weights: FloatArray) -> FloatArray:
    """Areas on a support: few points, which may hold all of the mass, or next to nothing of it."""
    return 260 * weights


def draw_walls(axes: Axes, scene: Scene, plane: Plane, alpha: float, zorder: float = 0) -> None:
    for x0, y0, x1, y1 in scene.drawing.walls if scene.has_walls(plane) else ():
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, color=WALL, alpha=alpha, linewidth=0, zorder=zorder))


def draw_goals(axes: Axes, scene: Scene, plane: Plane) -> None:
    for x, y in scene.drawing.goals if scene.has_goals(plane) else ():
        axes.scatter([x], [y], marker="*", s=80, facecolor=GOAL, edgecolor=INK, linewidth=0.7, zorder=5)
