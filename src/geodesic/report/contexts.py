"""Where in the context space methods train, or would train: a panel for each distribution; and distances there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from geodesic.contexts import FloatArray, Particles
from geodesic.contexts.plot import Picture, Plot
from geodesic.curricula import REGISTRY
from geodesic.curricula.gradient.staged import Staged
from geodesic.errors import InvalidInput
from geodesic.records.reader import RunResult, by_label
from geodesic.records.schema import StageDistribution
from geodesic.report import style
from geodesic.report.panels import CellPanel, Panel, panels_of, probability_bar
from geodesic.report.scene import Scene
from geodesic.report.style import FAINT, INK, Grid, new_figure, short_steps, small_panel, styled, styles_of

MOMENTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the longest budget
UNITS = {"": 1.0, "k": 1e3, "M": 1e6}
MOST_TICKS = 20  # of an axis of a matrix

Column = tuple[str, Particles | None, str]  # a title, a distribution if there is one yet, and a note
Rows = Mapping[str, Sequence[Particles | None]]  # label -> a distribution for each column; None: nothing yet


@dataclass(frozen=True)
class Moments:
    """The columns of a figure of contexts: steps, fractions alpha of the path, or both.

    With both, methods whose stages follow a path (GRADIENT, the linear mixture) are drawn by alpha, and the others by
    step, as in the paper's figure 5.

    Args:
        steps: Environment steps.
        alphas: Fractions of the path from source to target.
    """

    steps: tuple[float, ...] = ()
    alphas: tuple[float, ...] = ()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Moments:
        """Read "10k,50k,300k" (steps) and "alpha=0,.25,.5,.75,1".

        Args:
            texts: One of each at most.

        Returns:
            The moments.

        Raises:
            InvalidInput: If one cannot be read, or steps and alphas are not equally many.
        """
        found: dict[str, tuple[float, ...]] = {}
        for text in texts:
            kind = "alphas" if text.startswith("alpha=") else "steps"
            values = [_as_moment(part, kind) for part in text.removeprefix("alpha=").split(",")]
            if None in values or kind in found:
                example = "steps as in 10k,50k,300k or fractions of the path as in alpha=0,.5,1, each once"
                raise InvalidInput(f"expected --at with {example}, got {' '.join(texts)!r}")
            found[kind] = tuple(value for value in values if value is not None)
        if len({len(values) for values in found.values()}) > 1:
            raise InvalidInput(f"expected --at with as many alphas as steps, got {' '.join(texts)!r}")
        return cls(**found)

    def columns(self, run: RunResult, end: float) -> list[Column]:
        """Return what a run trained on at these moments, by default at five that are equally spaced up to `end`."""
        if self.alphas and (not self.steps or follows_path(run)):
            stages = [_at_alpha(run, alpha) for alpha in self.alphas]
            notes = [
                "" if stage is None else f"α {stage.alpha:.2g}, step {short_steps(stage.step)}" for stage in stages
            ]
            found = [None if stage is None else stage.particles for stage in stages]
            return list(zip([f"α = {alpha:g}" for alpha in self.alphas], found, notes))
        steps = self.steps or tuple(fraction * end for fraction in MOMENTS)
        return [(f"step {short_steps(step)}", at_moment(run, step), _exploring(run, step)) for step in steps]


def _as_moment(text: str, kind: str) -> float | None:
    """A step or an alpha; None if it is neither."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in ("k", "M") else (text, "")
    try:
        value = float(number) * UNITS[unit]
    except ValueError:
        return None
    known = 0 <= value <= 1 and not unit if kind == "alphas" else 0 <= value < np.inf
    return value if known else None


@styled
def moments(runs: Sequence[RunResult], scene: Scene, at: Moments | None = None) -> Figure:
    """Draw what the first seed of each label (rows) trains on at some moments (columns).

    Args:
        runs: Runs on one task.
        scene: The context space.
        at: The moments; by default five, equally spaced up to the longest budget, or up to the last recorded step while
            runs train.

    Returns:
        The figure.
    """
    first = [group[0] for group in by_label(runs).values()]
    end = max(run.reached_step for run in first)
    columns = {run.label: (at or Moments()).columns(run, end) for run in first}
    rows = {label: [particles for _, particles, _ in line] for label, line in columns.items()}
    titles = {label: [title for title, _, _ in line] for label, line in columns.items()}
    colours = {label: own.colour for label, own in styles_of(runs).items()}
    seeds = "one seed of each" if len(runs) > 1 else f"seed {first[0].seed}"
    figure, tops = _draw_rows(rows, titles, colours, scene, f"{first[0].task}: contexts trained on, {seeds}")
    for line, top in zip(columns.values(), tops):
        for axes, (_, _, note) in zip(top, line):
            _note(axes, note, 0.98, va="top", fontsize=8)
    return figure


def follows_path(run: RunResult) -> bool:
    """Whether the stages of a run's method follow a path from source to target."""
    method = REGISTRY.known(run.method)
    return isinstance(method, type) and issubclass(method, Staged)


def _at_alpha(run: RunResult, alpha: float) -> StageDistribution | None:
    """The stage nearest to a fraction of the path, the first of equally near ones; None if no stage has come as far."""
    stages = [stage for stage in run.curriculum if stage.stage not in run.explored]
    if not stages or max(stage.alpha for stage in stages) < alpha - 1e-9:
        return None
    return min(stages, key=lambda stage: round(abs(stage.alpha - alpha), 9))


def _exploring(run: RunResult, step: float) -> str:
    stage = run.in_force(step)
    return style.EXPLORING if stage is not None and stage.stage in run.explored else ""


@styled
def interpolations(
    alphas: Sequence[float], paths: Mapping[str, Sequence[Particles]], scene: Scene, name: str
) -> Figure:
    """Draw paths from the source to the target of a task.

    Args:
        alphas: The columns.
        paths: For each path (row), a distribution for each alpha. A row whose name starts with that of a method, as in
            "gradient (l2)", has its colour.
        scene: The context space.
        name: The task's.

    Returns:
        The figure.
    """
    colours = {path: style.colour_of(re.split("[ :(]", path)[0]) for path in paths}
    titles = {path: [f"α = {alpha:g}" for alpha in alphas] for path in paths}
    return _draw_rows(paths, titles, colours, scene, f"{name}: contexts from source to target")[0]


def at_moment(run: RunResult, step: float) -> Particles | None:
    """Return what a run trained on at this step: the distribution in force, else the episodes around the step."""
    stage = run.in_force(step)
    if stage is not None:
        return stage.particles
    near = np.argsort(np.abs(run.episodes.steps - step), kind="stable")[:50]
    return Particles(run.episodes.contexts[near]) if len(near) and run.episodes.contexts.shape[1] else None


def _note(axes: Axes, text: str, y: float, **options: Any) -> None:
    axes.text(0.5, y, text, transform=axes.transAxes, ha="center", color=INK, **options)


def _draw_rows(
    rows: Rows, titles: Mapping[str, Sequence[str]], colours: Mapping[str, str], scene: Scene, title: str
) -> tuple[Figure, Grid]:
    """A line of panels for each label, or one for each of its planes; and the first line of each label.

    Panels are titled where the titles of a label differ from those above.
    """
    shown = panels_of(scene, [particles for path in rows.values() for particles in path])
    cells = scene.plot.cells is not None
    width, height = (1.75, 1.85) if cells else (1.95, 1.75)
    number = len(next(iter(titles.values())))
    figure = new_figure(width * number + 1.4, height * len(rows) * len(shown) + (0.7 if cells else 1.1))
    shared = scene.space.dim == 1  # a plane has its limits from the scene; panels that share them take long to draw
    grid = figure.subplots(len(rows) * len(shown), number, squeeze=False, sharex=shared, sharey=shared)
    for axes in grid.flat if len(shown) == 1 else ():
        axes.label_outer()
    lines = [(label, panel) for label in rows for panel in shown]
    for line, (label, panel) in zip(grid, lines):
        _draw_line(line, rows[label], label, panel, colours[label])
    above: Sequence[str] = ()
    for line, label in zip(grid[:: len(shown)], rows):
        for axes, text in zip(line, titles[label]) if titles[label] != above else ():
            axes.set_title(text)
        above = titles[label]
    if isinstance(shown[0], CellPanel):
        probability_bar(figure, grid.ravel().tolist(), shown[0])
    else:
        _name_axes(figure, grid, [panel for _, panel in lines], alike=len(shown) == 1)
    figure.suptitle("\n".join(filter(None, (title, _key(shown, scene)))))
    return figure, grid[:: len(shown)]


def _draw_line(line: Grid, path: Sequence[Particles | None], label: str, panel: Panel, colour: str) -> None:
    for axes, particles in zip(line, path):
        panel.draw(axes, particles, colour)
        if particles is None:
            _note(axes, "nothing yet", 0.5, va="center")
        if not isinstance(panel, CellPanel):
            small_panel(axes)
    name = label.replace(":", "\n").replace("=", " ")
    if isinstance(panel, CellPanel):
        line[0].set_ylabel(name, fontsize=11, color=INK)
        return
    look = {"xytext": (8, 0), "textcoords": "offset points", "rotation": 270, "va": "center", "fontsize": 11}
    line[-1].annotate(name, (1.0, 0.5), xycoords="axes fraction", **look)


def _name_axes(figure: Figure, grid: Grid, shown: Sequence[Panel], alike: bool) -> None:
    """Name the axes once if all panels have the same, else at the start of each line."""
    if alike:
        figure.supxlabel(shown[0].labels[0], fontsize=10)
        figure.supylabel(shown[0].labels[1], fontsize=10)
        return
    for line, panel in zip(grid, shown):
        line[0].set_ylabel(panel.labels[1], fontsize=9)
        for axes in line:
            axes.set_xlabel(panel.labels[0], fontsize=9)
        for axes in line[1:]:
            axes.tick_params(labelleft=False)


def _key(shown: Sequence[Panel], scene: Scene) -> str:
    """What the marks mean, and how many context values are drawn."""
    notes = list(dict.fromkeys(text for panel in shown for text in panel.key))
    drawn = {column for plane in scene.planes for column in plane}
    if 0 < len(drawn) < scene.space.dim:
        notes.append(f"{len(drawn)} of {scene.space.dim} context values")
    return "; ".join(notes)


@styled
def pictures(alphas: Sequence[float], examples: FloatArray, picture: Picture, title: str) -> Figure:
    """Draw a few contexts on their way from the source to the target of a task.

    Args:
        alphas: The columns.
        examples: The contexts (rows, columns, d).
        picture: Draws a context.
        title: The title of the figure.

    Returns:
        The figure.
    """
    rows, columns = examples.shape[:2]
    figure = new_figure(1.85 * columns + 0.3, 1.85 * rows + 0.7)
    grid = figure.subplots(rows, columns, squeeze=False)
    for line, way in zip(grid, examples):
        for axes, context in zip(line, way):
            axes.imshow(picture(context), interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set(visible=True, color=FAINT)
    for axes, alpha in zip(grid[0], alphas):
        axes.set_title(f"α = {alpha:g}")
    figure.suptitle(title)
    return figure


@styled
def distance_matrix(matrix: ArrayLike, plot: Plot, name: str) -> Figure:
    """Draw the distances between the contexts of a discrete space as a heat map.

    Args:
        matrix: Distances, shape (n, n).
        plot: The task's plot. Its `order` sorts the contexts, with lines between those of different numbers; without
            one they are in the support's order.
        name: What the distance is called.

    Returns:
        The figure.
    """
    values = np.asarray(matrix, dtype=np.float64)
    order = np.arange(len(values)) if plot.order is None else np.argsort(plot.order, kind="stable")
    figure = new_figure(6.6, 5.4)
    axes = figure.subplots()
    image = axes.imshow(values[np.ix_(order, order)], cmap="viridis", interpolation="nearest")
    label = "contexts, in the support's order"
    if plot.order is not None:
        label = f"contexts, ordered by {plot.ordered_by}" if plot.ordered_by else "contexts, in the task's order"
        _order_ticks(axes, plot.order[order])
    axes.set(xlabel=label, ylabel=label, title=f"{name[:1].upper()}{name[1:]} between the {len(values)} contexts")
    figure.colorbar(image, ax=axes, label=name)
    return figure


def _order_ticks(axes: Axes, order: FloatArray) -> None:
    """A tick per number of the order (n,), in the middle of the contexts that have it; lines where it changes."""
    numbers = np.unique(order)
    named = numbers[:: -(-len(numbers) // MOST_TICKS)]
    middles = [float(np.flatnonzero(order == number).mean()) for number in named]
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(middles, [f"{number:g}" for number in named], fontsize=8)
        axis.set_tick_params(length=0)
    for border in np.flatnonzero(np.diff(order)) + 0.5 if len(numbers) <= MOST_TICKS else ():
        axes.axhline(border, color="white", linewidth=0.4, alpha=0.6)
        axes.axvline(border, color="white", linewidth=0.4, alpha=0.6)
