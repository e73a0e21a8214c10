"""Distributions over contexts as few whole numbers, and the chart that a browser draws them with.

A picture says how its rows are written down: value = offset + number * scale, one number a field. So a page of ninety
runs stays small, and the browser needs no knowledge of cells, lines or planes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import altair as alt
import numpy as np

from geodesic.contexts import FloatArray, Particles
from geodesic.records.stages import StageDistribution
from geodesic.report.page import charts, panels
from geodesic.report.scene import Plane, Scene
from geodesic.report.views import BarView, LineView, in_plane

FINE = 999  # steps of a coordinate or a share
POINTS = 64  # of a picture; larger distributions are thinned
SHARE = 1 / FINE


@dataclass(frozen=True)
class Field:
    """What one number of a row stands for."""

    name: str
    offset: float
    scale: float

    def written(self, values: FloatArray) -> FloatArray:
        return np.round((values - self.offset) / self.scale)


class Picture(Protocol):
    """One way to draw the stages of a run."""

    fields: Sequence[Field]
    aspect: float  # height over width
    title: str

    def rows(self, stage: StageDistribution) -> FloatArray:
        """What is drawn of a stage, (n, fields)."""

    def chart(self) -> alt.LayerChart:
        """The chart, with an empty data set `frame` for the rows."""


def pictures(scene: Scene) -> list[Picture]:
    """How the contexts of a scene are drawn: one picture, or one for each plane."""
    if scene.cells is not None:
        return [CellPicture(scene)]
    if scene.dim > 1:
        return [PlanePicture(scene, plane) for plane in scene.planes]
    return [BarPicture(scene)]


def described(picture: Picture) -> dict[str, Any]:
    """What the page knows of a picture."""
    fields = [[field.name, field.offset, field.scale] for field in picture.fields]
    return {"fields": fields, "aspect": picture.aspect, "title": picture.title, "spec": charts.plain(picture.chart())}


def written(picture: Picture, stage: StageDistribution) -> list[int]:
    """The rows of a stage, one after the other."""
    columns = [field.written(column) for field, column in zip(picture.fields, picture.rows(stage).T)]
    return [int(value) for value in np.stack(columns, axis=1).ravel()]


class CellPicture:
    """Contexts that are the cells of a grid: shaded by their probability."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.grid = np.zeros((1, 1), int) if scene.cells is None else scene.cells
        rows, columns = self.grid.shape
        self.fields: Sequence[Field] = (Field("row", 0, 1), Field("column", 0, 1), Field("share", 0, SHARE))
        self.aspect = rows / columns
        self.title = ""

    def rows(self, stage: StageDistribution) -> FloatArray:
        joined = Particles(np.round(stage.particles.points), stage.particles.weights).merged()
        return np.column_stack([joined.points, joined.weights])

    def chart(self) -> alt.LayerChart:
        return panels.cells(self.grid, self.scene.drawing.goals)


class BarPicture:
    """Contexts of one value: the mass in each part of their range, or on each point of the support."""

    def __init__(self, scene: Scene) -> None:
        self.view = LineView(scene) if scene.support is None else BarView(scene, scene.support)
        self.names = None if isinstance(self.view, LineView) else [f"{value:g}" for value in self.view.values]
        first, width = 0.0, 1.0
        if isinstance(self.view, LineView):
            first, width = float(self.view.edges[0]), float(self.view.edges[1] - self.view.edges[0])
        self.fields: Sequence[Field] = (Field("x", first, width), Field("share", 0, SHARE))
        self.aspect = 0.75
        self.title = scene.labels[0]
        self.target = scene.target

    def rows(self, stage: StageDistribution) -> FloatArray:
        return self._rows(stage.particles)

    def _rows(self, particles: Particles) -> FloatArray:
        shares = self.view.shares(particles)
        some = np.flatnonzero(shares)
        return np.column_stack([self.fields[0].offset + some * self.fields[0].scale, shares[some]])

    def chart(self) -> alt.LayerChart:
        target = None if self.target is None else self._rows(self.target)
        last = len(self.view.shares(Particles(np.zeros((1, 1)))))
        ends = (self.fields[0].offset, self.fields[0].offset + last * self.fields[0].scale)
        return panels.bars(ends, self.fields[0].scale, target, self.title, self.names)


class PlanePicture:
    """Two values of a context: a dot for each point, by its mass; coloured by its progress where a pace has it."""

    def __init__(self, scene: Scene, plane: Plane) -> None:
        self.scene, self.plane = scene, plane
        low, high = scene.low[list(plane)], scene.high[list(plane)]
        x, y = (Field(name, float(a), float(b - a) / FINE) for name, a, b in zip("xy", low, high))
        self.fields: Sequence[Field] = (x, y, Field("share", 0, SHARE), Field("progress", 0, SHARE))
        width, height = high - low
        self.aspect = float(height / width) if scene.to_scale(plane) else 1.0
        self.title = "" if scene.flat else " and ".join(scene.labels[column] for column in plane)

    def rows(self, stage: StageDistribution) -> FloatArray:
        progress = stage.snapshot.get("progress")
        if progress is not None and progress.shape == (len(stage.particles),):
            some = np.linspace(0, len(progress) - 1, min(POINTS, len(progress))).round().astype(int)
            points = stage.particles.points[some][:, list(self.plane)]
            return np.column_stack([points, stage.particles.weights[some], np.clip(progress[some], 0, 1)])
        x, y, shares = in_plane(stage.particles, self.plane)
        if len(x) > POINTS:
            thin = Particles(np.column_stack([x, y]), shares).thinned(POINTS, np.random.default_rng(0))
            x, y, shares = in_plane(thin, (0, 1))
        return np.column_stack([x, y, shares, np.full(len(x), -1.0)])

    def chart(self) -> alt.LayerChart:
        drawing, plane = self.scene.drawing, self.plane
        return panels.plane(
            limits=[[field.offset, field.offset + FINE * field.scale] for field in self.fields[:2]],
            titles=[self.scene.labels[column] for column in plane],
            walls=drawing.walls if self.scene.has_walls(plane) else (),
            goals=drawing.goals if self.scene.has_goals(plane) else (),
            target=_target(self.scene, plane),
        )


def _target(scene: Scene, plane: Plane) -> Sequence[tuple[float, float]]:
    if scene.target is None:
        return ()
    x, y, _ = in_plane(scene.target, plane)
    some = np.linspace(0, len(x) - 1, min(POINTS, len(x))).round().astype(int)
    return list(zip(x[some].round(6).tolist(), y[some].round(6).tolist()))
