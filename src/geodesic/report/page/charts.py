"""What the page draws: tables for the charts of its script, and SVG that matplotlib draws.

Colours in SVG are CSS variables, which the page's theme sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from geodesic.analysis.statistics import asymptotic, drawn_window, rolling_mean
from geodesic.contexts import Particles
from geodesic.curricula.gradient.staged import DISTANCE, HOP
from geodesic.records.reader import RunResult, by_label
from geodesic.report.curves import PART, LearningCurves, single_run
from geodesic.report.page.story import endings
from geodesic.report.panels import Panel, integers, panels_of
from geodesic.report.scene import Scene
from geodesic.report.style import GOAL, WALL, evenly, new_figure, small_panel, styled, styles_of, svg

Json = dict[str, Any]

EVALUATIONS = 200  # of a curve
SEED_ROWS = 20_000  # of all seeds' lines together
FRAMES = 24  # stages of a run that are animated
TARGET = 200  # points of a target
MOMENTS = 100  # at which shares and distances are tabulated
SCORE = "score on "  # begins the names of the parts' scores
FEW_SEEDS = 4  # whose bars have room for text


def dashes(runs: Sequence[RunResult]) -> list[list[float]]:
    """Return a pattern of dashes and gaps for each label, as SVG has it."""
    found = styles_of(runs)
    lines = [found[label].line for label in by_label(runs)]
    return [[1.0, 0.0] if isinstance(line, str) else [2.0 * part for part in line[1]] for line in lines]


def curve_table(views: Mapping[str, LearningCurves]) -> Json:
    """Tabulate the learning curves of each view, "statistic column"."""
    rows = [
        (label, view, curve.steps[k], curve.middle[k], curve.low[k], curve.high[k], curve.raw[k])
        for view, drawn in views.items()
        for label, curve in drawn.curves.items()
        for k in evenly(range(len(curve.steps)), EVALUATIONS)
    ]
    return _table(("label", "view", "step", "middle", "low", "high", "raw"), rows)


def seed_table(runs: Sequence[RunResult], columns: Sequence[str]) -> Json:
    """Tabulate these columns of each run's evaluations, before and after smoothing."""
    most = max(10, SEED_ROWS // (len(runs) * len(columns)))
    rows: list[tuple[Any, ...]] = []
    window = drawn_window(runs)
    for run in runs:
        for column in columns:
            steps, raw = run.evaluations.steps, getattr(run.evaluations, column)
            smooth = rolling_mean(raw, window, centred=True)
            some = evenly(range(len(raw)), most)
            rows += [(run.label, str(run.seed), column, steps[k], raw[k], smooth[k]) for k in some]
    return _table(("label", "seed", "kind", "step", "raw", "smooth"), rows)


def finals(runs: Sequence[RunResult]) -> Json:
    """Tabulate the final score of each seed: where seeds solve a task or fail it, no mean describes them."""
    known = [(run, run.evaluations.scores) for run in runs if len(run.evaluations.steps)]
    return _table(("label", "seed", "final"), [(run.label, str(run.seed), asymptotic(scores)) for run, scores in known])


def timeline(runs: Sequence[RunResult]) -> Json:
    """Tabulate the stages of a label's seeds, with the height of their chart."""
    rows: list[tuple[Any, ...]] = []
    for run in runs:
        steps = run.stages.steps.tolist()
        ends = [*steps[1:], max([run.reached_step, *steps])]
        parts = zip(run.stages.stages.tolist(), steps, ends, run.stages.alphas.tolist(), endings(run))
        rows += [(str(run.seed), *part) for part in parts]
    seeds = len({run.seed for run in runs})
    table = _table(("seed", "stage", "start", "end", "alpha", "ended"), rows)
    return {"table": table, "height": (20 if seeds <= FEW_SEEDS else 13) * seeds}


def distances(runs: Sequence[RunResult]) -> Json | None:
    """Tabulate how far each stage's contexts are from the target, and how far they moved; None without a path."""
    rows: list[tuple[Any, ...]] = []
    for run in runs:
        numbers = run.stages.numbers()
        if {DISTANCE, HOP} <= numbers.keys():
            steps = run.stages.steps.tolist()
            parts = zip(steps, numbers[DISTANCE].tolist(), numbers[HOP].tolist(), run.stages.alphas.tolist())
            rows += [(str(run.seed), *part) for part in evenly(list(parts), MOMENTS)]
            rows.append((str(run.seed), max(run.reached_step, steps[-1]), *rows[-1][2:]))
    return _table(("seed", "step", "distance", "moved", "alpha"), rows) if rows else None


def mixture(runs: Sequence[RunResult]) -> Json | None:
    """Tabulate the shares and scores of a mixture's parts, as means over the seeds of a label; None without parts."""
    known = [(run, run.stages.numbers()) for run in runs]
    names = dict.fromkeys(name for _, numbers in known for name in numbers if name.startswith((PART, SCORE)))
    rows: list[tuple[Any, ...]] = []
    for step in np.linspace(0, max(max([run.reached_step, 1]) for run in runs), MOMENTS):
        for name in names:
            values = [
                numbers[name][max(int(np.searchsorted(run.stages.steps, step, "right")) - 1, 0)]
                for run, numbers in known
                if name in numbers and step <= run.reached_step
            ]
            finite = [value for value in values if np.isfinite(value)]
            kind, prefix = ("share", PART) if name.startswith(PART) else ("score", SCORE)
            if finite:
                rows.append((kind, name.removeprefix(prefix), step, float(np.mean(finite))))
    return _table(("kind", "part", "step", "value"), rows) if rows else None


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Json:
    return {"columns": columns, "rows": [[_short(value) for value in row] for row in rows]}


def _short(value: Any) -> Any:
    """A number with five digits, of which integers keep all; None for one that JSON does not have."""
    if isinstance(value, str | int | np.integer):
        return value
    return float(f"{value:.5g}") if np.isfinite(value) else None


def training(run: RunResult) -> str:
    """Draw the figure of a single run as SVG."""
    return svg(single_run(run), {styles_of([run])[run.label].colour: "c0"})


def page_panels(scene: Scene) -> list[Panel]:
    """Choose how a page draws the contexts of a scene; of a large target some points are drawn."""
    target = scene.target
    if target is not None and scene.space.support is None and len(target) > TARGET:
        some = evenly(range(len(target)), TARGET)
        scene = replace(scene, target=Particles(target.points[some], target.weights[some]))
    return panels_of(scene)


def background(panel: Panel) -> Json:
    """Draw what a panel always shows, and describe how the page adds the rows of a stage.

    Args:
        panel: The panel.

    Returns:
        The SVG with the linear maps from values to its coordinates, the fields of the rows and how they are drawn.
    """
    named = any(panel.labels)
    figure = styled(lambda: new_figure(2.2, (1.8 if named else 2.2) * panel.aspect + 0.35 * named))()
    axes = figure.subplots()
    panel.draw(axes, None, "none")
    axes.set_rasterization_zorder(None)
    if panel.shape["kind"] == "bars":
        axes.set_ylim(0, 1)
    if named:
        small_panel(axes)
        axes.set_xlabel(panel.labels[0], fontsize=8)
        axes.set_ylabel(panel.labels[1], fontsize=8)
    text = svg(figure, {WALL: "wall", GOAL: "goal"})
    # Matplotlib's pixels count from below at the figure's resolution, the coordinates of an SVG from above in points.
    (x0, y0), (x1, y1) = axes.transData.transform([(0, 0), (1, 1)]) * 72 / figure.dpi
    height = figure.get_figheight() * 72
    return {
        "svg": text,
        "x": [x1 - x0, x0],
        "y": [y0 - y1, height - y0],
        "fields": panel.fields,
        **panel.shape,
    }


def frames(run: RunResult, panels: Sequence[Panel]) -> list[Json]:
    """Return the stages of a run, evenly chosen if there are many, with the rows of each panel."""
    return [
        {
            "step": stage.step,
            "stage": stage.stage,
            "alpha": round(stage.alpha, 4) if np.isfinite(stage.alpha) else None,
            "explores": stage.stage in run.explored,
            "rows": [integers(panel, stage) for panel in panels],
        }
        for stage in evenly(run.curriculum, FRAMES)
    ]
