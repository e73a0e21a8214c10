"""Every figure that applies to a run, a comparison or a plan, written to its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from geodesic.analysis.paths import path_stages, stage_path
from geodesic.checks import as_path
from geodesic.contexts import Particles
from geodesic.records.files import clear_leftovers
from geodesic.records.reader import RunResult, by_label, load_comparison, load_run
from geodesic.report import cells, contexts, curves
from geodesic.report.atoms import atoms, is_gated
from geodesic.report.distances import distance_matrix
from geodesic.report.paths import path_summary
from geodesic.report.scene import Scene, scene_of
from geodesic.report.stages import stages
from geodesic.report.style import save
from geodesic.tasks.task import Task

FIGURES = "figures"


def write_run_figures(folder: str | Path, task: Task | None = None, also: Sequence[str] = ()) -> list[Path]:
    """The figures of a run folder, in its folder figures/; without a task, the one that the run names.

    also: formats beside PNG, of pdf and svg.
    """
    run, out = load_run(as_path(folder)), _out(folder)
    written = [save(curves.single_run(run), out / "run.png", also)]
    if run.curriculum:
        scene = scene_of([run], task)
        if is_gated(run):
            written.append(save(atoms(run, scene), out / "atoms.png", also))
        figure = _stages(run, scene)
        if figure is not None:
            written.append(save(figure, out / "stages.png", also))
        else:
            written.append(save(contexts.moments([run], scene), out / "contexts.png", also))
    return written


def drawn(folder: str | Path) -> bool:
    """Whether the figures of a run that has ended are there, the last of them too, and not older than its end."""
    ended = (Path(folder) / "summary.json").stat().st_mtime
    last = [Path(folder) / FIGURES / name for name in ("stages.png", "contexts.png")]
    return any(path.exists() and path.stat().st_mtime >= ended for path in last)


def write_comparison_figures(folder: str | Path, task: Task | None = None, also: Sequence[str] = ()) -> list[Path]:
    """The figures of a comparison folder, in its folder figures/; without a task, the one that its runs name."""
    return draw_comparison(load_comparison(as_path(folder)), folder, task, also)


def draw_comparison(
    runs: Sequence[RunResult], folder: str | Path, task: Task | None = None, also: Sequence[str] = ()
) -> list[Path]:
    """The same of runs that have been read already."""
    out = _out(folder)
    written = [
        save(curves.mean_curves(runs), out / "returns.png", also),
        save(curves.iqm_curves(runs), out / "returns-iqm.png", also),
    ]
    if runs[0].measure != "success" and any(np.isfinite(run.evaluations.successes).any() for run in runs):
        written.append(save(curves.iqm_curves(runs, "successes"), out / "successes.png", also))
    if any(run.curriculum for run in runs):
        scene = scene_of(runs, task)
        written.append(save(contexts.moments(runs, scene), out / "contexts.png", also))
        staged = [run for run in runs if len(path_stages(run)) > 1]
        if scene.cells is None and any(_has_a_path_to_tell(run) for run in staged):
            paths = {label: [stage_path(run) for run in group] for label, group in by_label(staged).items()}
            written.append(save(path_summary(staged, paths), out / "paths.png", also))
    return written


def write_plan_figures(
    folder: str | Path,
    task: Task,
    alphas: Sequence[float],
    paths: Mapping[str, Sequence[Particles]],
    distances: ArrayLike | None = None,
    metric: str = "",
) -> list[Path]:
    """The curriculum without training: for each path, a distribution per alpha.

    distances (n, n): between the contexts of a discrete space under the metric of this name, as a figure of their own.
    """
    out = Path(folder)
    scene = Scene.of_task(task, [particles for path in paths.values() for particles in path])
    written = [save(contexts.interpolations(alphas, paths, scene, task.name), out / "plan.png")]
    if distances is not None:
        figure = distance_matrix(distances, task.drawing, f"{metric} distance".strip())
        written.append(save(figure, out / "distances.png"))
    return written


def _out(folder: str | Path) -> Path:
    out = Path(folder) / FIGURES
    clear_leftovers(out)
    return out


def _stages(run: RunResult, scene: Scene) -> Figure | None:
    """The figure of a run's stages, where there is more to see than contexts at five moments."""
    if scene.cells is not None:
        return cells.stages(run, scene.cells, scene.drawing.goals, scene.drawing.star)
    if scene.flat and path_stages(run) and (scene.drawing.walls or _refitted(run)):
        return stages(run, scene)
    return None


def _refitted(run: RunResult) -> bool:
    """Whether stages left pictures of a metric that was fitted anew."""
    return any("potential" in stage.snapshot or "heat" in stage.snapshot for stage in run.curriculum)


def _has_a_path_to_tell(run: RunResult) -> bool:
    return _refitted(run) or bool((run.stages.infeasible > 0).any())
