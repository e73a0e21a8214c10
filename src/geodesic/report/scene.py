"""What contexts are drawn on: axes, bounds, walls and the target, as the task says, or as a run folder lets one see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from geodesic import tasks
from geodesic.contexts import ContextSpace, FloatArray, IntArray, Particles
from geodesic.errors import GeodesicError, InvalidInput
from geodesic.records.reader import RunResult
from geodesic.tasks.drawing import Drawing
from geodesic.tasks.task import Task

Plane = tuple[int, int]  # the two columns of a context that are drawn along x and y

MOST_PLANES = 4  # more rows for each method would make a figure that nobody reads


@dataclass(frozen=True, eq=False)
class Scene:
    """A context space ready to be drawn.

    low, high: finite bounds (d,), apart from each other; labels (d,): what to write at the axes; support (n, d) of a
    discrete space; planes: the pairs of columns that are drawn, none where contexts have one value.
    """

    low: FloatArray
    high: FloatArray
    labels: tuple[str, ...]
    support: FloatArray | None
    drawing: Drawing
    target: Particles | None
    planes: tuple[Plane, ...]

    @classmethod
    def of_task(cls, task: Task, shown: Sequence[Particles]) -> Scene:
        """The task's space, which must be the one that the distributions `shown` are on."""
        for particles in shown:
            _check_fit(task, particles)
        low, high = _frame(task.space.low, task.space.high, [*shown, task.target_particles])
        planes = _planes(task.space, task.drawing)
        return cls(low, high, task.space.labels, task.space.support, task.drawing, task.target_particles, planes)

    @classmethod
    def of_points(cls, shown: Sequence[Particles], names: Sequence[str] = ()) -> Scene:
        """The box that the distributions fill, where nobody can say what task they are of; names (d,) of its axes."""
        d = shown[0].dim
        unknown = np.full(d, np.inf)
        space = ContextSpace(-unknown, unknown, names=names if len(set(names)) == d else None)
        low, high = _frame(space.low, space.high, shown)
        return cls(low, high, space.labels, None, Drawing(), None, _planes(space, Drawing()))

    @property
    def dim(self) -> int:
        return len(self.low)

    @property
    def cells(self) -> IntArray | None:
        """The grid (rows, columns) of a task whose contexts are its cells."""
        return self.drawing.cells

    @property
    def flat(self) -> bool:
        """Whether one plane shows all that is to be seen."""
        return len(self.planes) == 1

    def has_walls(self, plane: Plane) -> bool:
        """Walls and goals are places in the first plane."""
        return plane == self.planes[0] and bool(self.drawing.walls)

    def has_goals(self, plane: Plane) -> bool:
        return plane == self.planes[0] and bool(self.drawing.goals)

    def to_scale(self, plane: Plane) -> bool:
        """Whether both axes of a plane can have one scale without becoming a ribbon."""
        width, height = (self.high - self.low)[list(plane)]
        return bool(1 / 3 <= width / height <= 3)


def scene_of(runs: Sequence[RunResult], task: Task | None = None) -> Scene:
    """What runs are drawn on: the task's space, or what their folders show where the task cannot be found."""
    shown = [stage.particles for run in runs for stage in run.curriculum]
    if task is not None:
        return Scene.of_task(task, shown)
    try:
        return Scene.of_task(task_of(runs[0]), shown)
    except GeodesicError:
        return Scene.of_points(shown, runs[0].contexts)


def task_of(run: RunResult) -> Task:
    """The task that a run names."""
    if run.config.get("portable") is not True:
        raise InvalidInput(f"task {run.task} was an object that only its owner has; try task=")
    return tasks.load(run.config.get("task", ""))


def _check_fit(task: Task, particles: Particles) -> None:
    if particles.dim != task.space.dim:
        raise InvalidInput(
            f"expected contexts of {task.space.dim} values, as task {task.name} has, got {particles.dim}"
        )
    cells = task.drawing.cells
    if cells is None:
        return
    places = np.round(particles.points)
    if (places < 0).any() or (places >= cells.shape).any():
        raise InvalidInput(f"expected contexts on the {cells.shape} cells of task {task.name}, got others")


def _frame(low: FloatArray, high: FloatArray, shown: Sequence[Particles]) -> tuple[FloatArray, FloatArray]:
    """The bounds where they are finite, else those of what is shown; never a side without length."""
    points = np.concatenate([particles.points for particles in shown])
    lower = np.where(np.isfinite(low), low, points.min(axis=0))
    upper = np.where(np.isfinite(high), high, points.max(axis=0))
    room = np.where(upper > lower, 0.0, 0.5)
    return lower - room, upper + room


def _planes(space: ContextSpace, drawing: Drawing) -> tuple[Plane, ...]:
    """The plane that the task asks for; else values two at a time, a last single one beside the one before it."""
    if space.dim == 1:
        return ()
    if drawing.axes is not None:
        x, y = drawing.plane(space).tolist()
        return ((x, y),)
    starts = (min(start, space.dim - 2) for start in range(0, space.dim, 2))
    return tuple((start, start + 1) for start in starts)[:MOST_PLANES]
