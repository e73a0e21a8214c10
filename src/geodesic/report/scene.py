"""The context space that figures draw on: axes, bounds, walls and the target, from the task or from a run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from geodesic import tasks
from geodesic.contexts import ContextSpace, FloatArray, Particles
from geodesic.contexts.plot import Box, Plot
from geodesic.contexts.values import grid_of
from geodesic.errors import GeodesicError, InvalidInput
from geodesic.records.origin import check_origin
from geodesic.records.reader import RunResult
from geodesic.tasks.task import Task

Plane = tuple[int, int]  # the two columns of a context that are drawn along x and y

MOST_PLANES = 4  # more rows for each method would be unreadable
NO_NAMES: Mapping[str, Sequence[str]] = MappingProxyType({})
MOST_PLACES = 400  # that contexts can have in a plane, if they are drawn


@dataclass(frozen=True, eq=False)
class Scene:
    """A context space ready to be drawn.

    Args:
        low: Finite lower bounds, shape (d,).
        high: Finite upper bounds, shape (d,), above the lower ones.
        space: The names, the units and the support of the contexts.
        plot: What the task draws with its contexts: walls, goals, cells.
        target: The target distribution, where the task is known.
        planes: The pairs of columns that are drawn; empty for contexts of one value.
    """

    low: FloatArray
    high: FloatArray
    space: ContextSpace
    plot: Plot
    target: Particles | None
    planes: tuple[Plane, ...]

    @classmethod
    def of_task(cls, task: Task, shown: Sequence[Particles]) -> Scene:
        """Build the scene of a task.

        Args:
            task: The task.
            shown: The distributions that will be drawn; they extend bounds that are infinite.

        Returns:
            The scene.

        Raises:
            InvalidInput: If a distribution does not fit the task's space.
        """
        for particles in shown:
            _check_fit(task, particles)
        low, high = _frame(task.space, [*shown, task.target_particles])
        return cls(low, high, task.space, task.plot, task.target_particles, _planes(task.space, task.plot))

    @classmethod
    def of_points(
        cls, shown: Sequence[Particles], names: Sequence[str] = (), categories: Mapping[str, Sequence[str]] = NO_NAMES
    ) -> Scene:
        """Build the scene of an unknown task: the box that the distributions fill.

        Args:
            shown: The distributions that will be drawn.
            names: The names of the context values, d of them.
            categories: The categories of some values, by their names.

        Returns:
            The scene.
        """
        d = shown[0].dim
        unknown = np.full(d, np.inf)
        known = names if len(set(names)) == d else [str(k) for k in range(d)]
        space = ContextSpace(-unknown, unknown, names=known)
        values = [tuple(categories.get(name, ())) or None for name in known]
        with suppress(InvalidInput):  # a forged list of categories
            named = ContextSpace(-unknown, unknown, names=known, values=values)
            space = named if all(named.contains(particles.points).all() for particles in shown) else space
        return cls(*_frame(space, shown), space, Plot(), None, _planes(space, Plot()))

    def walls(self, plane: Plane) -> tuple[Box, ...]:
        """Return the walls in a plane; walls and goals are places in the first one."""
        return self.plot.walls if plane == self.planes[0] else ()

    def goals(self, plane: Plane) -> tuple[tuple[float, float], ...]:
        """Return the goals in a plane."""
        return self.plot.goals if plane == self.planes[0] else ()

    def places(self, plane: Plane) -> FloatArray | None:
        """Return the places (n, 2) that contexts can have in a plane; None if there are too many."""
        if self.space.support is not None:
            return np.unique(self.space.support[:, list(plane)], axis=0)
        parts = self.space.parts()
        return grid_of([parts[column] for column in plane], MOST_PLACES) if self.space.mixed else None

    def to_scale(self, plane: Plane) -> bool:
        """Whether both axes of a plane can have one scale without the panel becoming too narrow."""
        if any(isinstance(self.space.values[column], tuple) for column in plane):
            return False
        width, height = (self.high - self.low)[list(plane)]
        return bool(1 / 3 <= width / height <= 3)


def scene_of(runs: Sequence[RunResult], task: Task | None = None, trust: bool = False) -> Scene:
    """Build the scene of runs.

    Args:
        runs: Runs on one task.
        task: The task; by default the one that the runs name, or the box that their contexts fill if it cannot be
            loaded.
        trust: Whether code that the runs name may be run although this user did not write them.

    Returns:
        The scene.

    Raises:
        InvalidInput: If the given task does not fit the runs.
    """
    shown = [stage.particles for run in runs for stage in run.curriculum]
    if task is not None:
        return Scene.of_task(task, shown)
    try:
        return Scene.of_task(task_of(runs[0], trust), shown)
    except GeodesicError:
        return Scene.of_points(shown, runs[0].contexts, runs[0].categories)


def task_of(run: RunResult, trust: bool = False) -> Task:
    """Load the task that a run names.

    Args:
        run: The run.
        trust: Whether its code may be run although this user did not write the run's folder.

    Returns:
        The task.

    Raises:
        InvalidInput: If the task was an object, cannot be loaded, or is code that is not trusted.
    """
    check_origin(run.folder / "config.json", run.config, trust, fields=("task",))
    if "task" in run.config.objects:
        raise InvalidInput(f"task {run.task} was given as an object, which its folder does not contain; try task=")
    return tasks.load(run.config.task)


def _check_fit(task: Task, particles: Particles) -> None:
    if particles.dim != task.space.dim:
        wanted = f"contexts of {task.space.dim} values, as task {task.name} has"
        raise InvalidInput(f"expected {wanted}, got {particles.dim}")
    cells, places = task.plot.cells, np.round(particles.points)
    if cells is not None and ((places < 0).any() or (places >= cells.shape).any()):
        raise InvalidInput(f"expected contexts on the {cells.shape} cells of task {task.name}, got others")


def _frame(space: ContextSpace, shown: Sequence[Particles]) -> tuple[FloatArray, FloatArray]:
    """The bounds where they are finite, else those of the distributions; integers and categories are in the middle."""
    points = np.concatenate([particles.points for particles in shown])
    lower = np.where(np.isfinite(space.low), space.low, points.min(axis=0))
    upper = np.where(np.isfinite(space.high), space.high, points.max(axis=0))
    room = np.where(space.steps > 0, space.steps / 2, np.where(upper > lower, 0.0, 0.5))
    return lower - room, upper + room


def _planes(space: ContextSpace, plot: Plot) -> tuple[Plane, ...]:
    """The task's plane if it states one; else values two at a time, a last single one with the one before it."""
    if space.dim == 1:
        return ()
    if plot.axes is not None:
        x, y = plot.plane(space).tolist()
        return ((x, y),)
    starts = (min(start, space.dim - 2) for start in range(0, space.dim, 2))
    return tuple((start, start + 1) for start in starts)[:MOST_PLANES]
