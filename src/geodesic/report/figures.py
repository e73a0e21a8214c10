"""Every figure that applies to a run, a comparison or a plan, written to its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from geodesic import envs
from geodesic.distributions import Particles
from geodesic.experiments.paths import stage_path
from geodesic.experiments.results import RunResult, by_label, load_comparison, load_run
from geodesic.report import contexts, curves, maze, u_maze
from geodesic.report.contexts import MOMENTS, Plane, at_moment
from geodesic.report.style import save

_AXES = {
    "point-mass": ("gate position", "gate width"),
    "u-maze": ("goal x", "goal y"),
    "fetch-push": ("goal x", "goal y"),
}


def write_run_figures(folder: str | Path) -> list[Path]:
    """The figures of a run folder, in its folder figures/."""
    run, out = load_run(folder), Path(folder) / "figures"
    written = [save(curves.single_run(run), out / "run.png")]
    if not run.curriculum:
        return written
    if run.env == "maze":
        world = envs.make("maze")
        written.append(save(maze.stages(world.grid, world.goal, run), out / "stages.png"))
    else:
        plane = _plane(run.env, [run])
        figure = u_maze.stages(run, plane) if run.env == "u-maze" else contexts.moments([run], plane)
        written.append(save(figure, out / ("stages.png" if run.env == "u-maze" else "contexts.png")))
    return written


def write_comparison_figures(folder: str | Path) -> list[Path]:
    """The figures of a comparison folder, in its folder figures/."""
    runs, out = load_comparison(folder), Path(folder) / "figures"
    written = [
        save(curves.mean_curves(runs), out / "returns.png"),
        save(curves.iqm_curves(runs), out / "returns-iqm.png"),
    ]
    if any(np.isfinite(run.evaluations.successes).any() for run in runs):
        written.append(save(curves.iqm_curves(runs, "successes"), out / "successes.png"))
    if not any(run.curriculum for run in runs):
        return written
    if runs[0].env == "maze":
        written.append(save(_maze_moments(runs), out / "contexts.png"))
    else:
        written.append(save(contexts.moments(runs, _plane(runs[0].env, runs)), out / "contexts.png"))
    if runs[0].env == "u-maze":
        written.extend(_path_summary(runs, out / "paths.png"))
    return written


def write_plan_figures(
    folder: str | Path,
    env: str,
    alphas: Sequence[float],
    paths: Mapping[str, Sequence[Particles]],
    distances: ArrayLike | None = None,
    metric: str = "",
) -> list[Path]:
    """The curriculum without training: for each path, a distribution per alpha.

    distances (n, n): between the Maze's starts under the metric of this name, drawn as a matrix of its own.
    """
    out = Path(folder)
    if env != "maze":
        plane = _plane(env, [])
        return [save(contexts.interpolations(alphas, paths, plane, f"{env}: from source to target"), out / "plan.png")]
    world = envs.make("maze")
    written = [save(maze.interpolations(world.grid, world.goal, alphas, paths), out / "plan.png")]
    if distances is not None:
        figure = maze.distance_matrix(distances, world.start_distance, f"{metric} distance".strip())
        written.append(save(figure, out / "distances.png"))
    return written


def _maze_moments(runs: Sequence[RunResult]) -> Figure:
    world = envs.make("maze")
    first = [group[0] for group in by_label(runs).values()]
    rows = {run.label: [at_moment(run, share) for share in MOMENTS] for run in first}
    steps = [share * first[0].steps for share in MOMENTS]
    return maze.moments(world.grid, world.goal, steps, rows)


def _path_summary(runs: Sequence[RunResult], path: Path) -> list[Path]:
    """The paths of the methods that have more than one stage."""
    staged = [run for run in runs if len(run.curriculum) > 1]
    if not staged:
        return []
    paths = {label: [stage_path(run) for run in group] for label, group in by_label(staged).items()}
    return [save(u_maze.path_summary(staged, paths), path)]


def _plane(env: str, runs: Sequence[RunResult]) -> Plane:
    """The context space of a known environment; of another, the box that its contexts fill."""
    if env in envs.REGISTRY:
        world = envs.make(env)
        target = world.target(np.random.default_rng(0))
        return Plane(
            world.context_space.low, world.context_space.high, _AXES.get(env, Plane.names), target, _walls(env)
        )
    points = np.concatenate([stage.particles.points for run in runs for stage in run.curriculum])
    return Plane(points.min(axis=0), points.max(axis=0))


def _walls(env: str) -> tuple[contexts.Box, ...]:
    if env != "u-maze":
        return ()
    from geodesic.envs.u_maze import BLOCK, LOW

    right, lower, upper = BLOCK
    return ((LOW, lower, right, upper),)
