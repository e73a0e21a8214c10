"""Every figure that applies to a run, a comparison or a plan, written to its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from geodesic.analysis.paths import path_stages, stage_path
from geodesic.checks import as_path
from geodesic.records.files import clear_leftovers, inside
from geodesic.records.reader import RunResult, by_label, load_comparison, load_run
from geodesic.report import contexts, curves, stages
from geodesic.report.scene import Scene, scene_of
from geodesic.report.style import save
from geodesic.runs.plan import CurriculumPlan
from geodesic.tasks.task import Task

FIGURES = "figures"


def write_run_figures(
    folder: str | Path,
    task: Task | None = None,
    also: Sequence[str] = (),
    trust: bool = False,
    at: contexts.Moments | None = None,
) -> list[Path]:
    """Write the figures of a run into its folder `figures`.

    Args:
        folder: The run folder.
        task: The task; by default the one that the run names.
        also: Formats besides PNG: "pdf" and "svg".
        trust: Whether code that the run names may be run although this user did not write it.
        at: The moments at which contexts are drawn.

    Returns:
        The paths of the PNG files.
    """
    run = load_run(as_path(folder))
    figures = {"run": curves.single_run(run)}
    if run.curriculum:
        scene = scene_of([run], task, trust)
        if stages.has_progress(run):
            figures["progress"] = stages.progress(run, scene)
        if _has_stages(run, scene):
            figures["stages"] = stages.stages(run, scene)
        if "stages" not in figures or at is not None:
            figures["contexts"] = contexts.moments([run], scene, at)
    return _save(folder, figures, also)


def is_drawn(folder: str | Path) -> bool:
    """Whether the last figure of a finished run exists and is not older than the end of the run."""
    ended = (Path(folder) / "summary.json").stat().st_mtime
    last = [Path(folder) / FIGURES / name for name in ("stages.png", "contexts.png")]
    return any(path.exists() and path.stat().st_mtime >= ended for path in last)


def write_comparison_figures(
    folder: str | Path,
    task: Task | None = None,
    also: Sequence[str] = (),
    trust: bool = False,
    runs: Sequence[RunResult] | None = None,
    at: contexts.Moments | None = None,
) -> list[Path]:
    """Write the figures of a comparison into its folder `figures`.

    Args:
        folder: The folder of the comparison.
        task: The task; by default the one that the runs name.
        also: Formats besides PNG: "pdf" and "svg".
        trust: Whether code that the runs name may be run although this user did not write them.
        runs: Its runs, if they have already been loaded.
        at: The moments at which contexts are drawn.

    Returns:
        The paths of the PNG files.
    """
    runs = load_comparison(as_path(folder)) if runs is None else runs
    figures = {"returns": curves.learning_curves(runs, "mean"), "returns-iqm": curves.learning_curves(runs, "iqm")}
    if "successes" in curves.columns_of(runs):
        figures["successes"] = curves.learning_curves(runs, "iqm", "successes")
    if any(run.curriculum for run in runs):
        scene = scene_of(runs, task, trust)
        figures["contexts"] = contexts.moments(runs, scene, at)
        staged = [run for run in runs if any(stage.alpha for stage in path_stages(run))]
        if scene.plot.cells is None and any(_is_refitted(run) or (run.stages.infeasible > 0).any() for run in staged):
            groups = by_label(staged).items()
            paths = {label: [stage_path(run, scene.space) for run in group] for label, group in groups}
            figures["paths"] = stages.path_summary(staged, paths)
    return _save(folder, figures, also)


def write_plan_figures(folder: str | Path, plan: CurriculumPlan) -> list[Path]:
    """Write the figures of a curriculum without training.

    Args:
        folder: Where to write them.
        plan: The curriculum; the distances between the contexts of a discrete space have a figure of their own.

    Returns:
        The paths of the PNG files.
    """
    out, task = Path(folder), plan.task
    scene = Scene.of_task(task, [particles for path in plan.paths.values() for particles in path])
    written = [save(contexts.interpolations(plan.alphas, plan.paths, scene, task.name), out / "plan.png")]
    if task.plot.picture is not None:
        figure = contexts.pictures(
            plan.alphas, plan.examples, task.plot.picture, f"{task.name}: {plan.metric} geodesic"
        )
        written.append(save(figure, out / "pictures.png"))
    if plan.distances is not None:
        figure = contexts.distance_matrix(plan.distances, task.plot, f"{plan.metric} distance")
        written.append(save(figure, out / "distances.png"))
    return written


def _save(folder: str | Path, figures: Mapping[str, Figure], also: Sequence[str]) -> list[Path]:
    out = inside(Path(folder), FIGURES)
    clear_leftovers(out)
    return [save(figure, out / f"{name}.png", also) for name, figure in figures.items()]


def _has_stages(run: RunResult, scene: Scene) -> bool:
    """Whether a figure of a run's stages shows more than contexts at five moments."""
    if scene.plot.cells is not None:
        return True
    return len(scene.planes) == 1 and bool(path_stages(run)) and (bool(scene.plot.walls) or _is_refitted(run))


def _is_refitted(run: RunResult) -> bool:
    """Whether stages recorded a learned metric that was fitted between them."""
    return any("potential" in stage.snapshot or "heat" in stage.snapshot for stage in run.curriculum)
