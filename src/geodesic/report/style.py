"""One look for all figures: a method has the same colour wherever it appears."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from geodesic.records.files import write_atomically
from geodesic.records.reader import RunResult
from geodesic.records.stages import StageDistribution

Colour = tuple[float, float, float] | str
LineStyle = str | tuple[float, tuple[float, ...]]  # a name, or (offset, lengths of dashes and gaps)

# Okabe and Ito's colours, which the colour-blind can tell apart; indigo and wine from Tol's muted set.
COLOURS = {
    "gradient": "#D55E00",
    "currot": "#000000",
    "spdl": "#56B4E9",
    "wb-spdl": "#332288",
    "alp-gmm": "#E69F00",
    "goal-gan": "#CC79A7",
    "linear": "#009E73",
    "uniform": "#0072B2",
    "target-only": "#808080",
    "procurl-target": "#44AA99",
    # gradient under a distance that it learned
    "embedding": "#8E6BBF",
    "return-lift": "#882255",
}
OTHER = "#999933"
# The same on a dark page, where these would not be seen.
DARK = {"#000000": "#f2f2f2", "#332288": "#a99bf0", "#882255": "#c2527f", "#0072b2": "#2f8fd0"}
WALL = "#3A3A45"
GOAL = "#F0E442"
INK = "#222222"
FAINT = "#B0B0B0"
HEAT = "Blues"
PATH = "viridis"
LINES: tuple[LineStyle, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))

_SETTINGS = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "figure.titlesize": 12,
    "figure.facecolor": "white",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.grid": False,
    "grid.color": "#E4E4E4",
    "lines.linewidth": 1.8,
}

_SAVING = {
    "savefig.dpi": 150,
    "figure.autolayout": False,
    "figure.constrained_layout.use": False,
    "svg.hashsalt": "geodesic",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}
_UNDATED = {"png": ("Software",), "pdf": ("Creator", "Producer", "CreationDate"), "svg": ("Creator", "Date")}

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Look:
    """How the runs of one label are drawn."""

    colour: tuple[float, float, float]
    line: LineStyle


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw with the settings above, whatever the caller's are, and leave the caller's as they were."""

    @wraps(draw)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with matplotlib.rc_context({**matplotlib.rcParamsDefault, **_SETTINGS, "backend": matplotlib.get_backend()}):
            return draw(*args, **kwargs)

    return wrapper


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this many inches, outside pyplot's list of open ones."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path, also: Sequence[str] = ()) -> Path:
    """Write a PNG, and beside it the same as `also` says (pdf, svg); the same figure gives the same bytes.

    Everything is put in its place once; a figure that still has a layout engine is drawn twice for each format.
    """
    with matplotlib.rc_context(_SAVING):
        figure.set_dpi(matplotlib.rcParams["savefig.dpi"])
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.execute(figure)
        figure.set_layout_engine(None)
        for kind in ("png", *also):
            _save(figure, path.with_suffix(f".{kind}"), kind)
    return path


def _save(figure: Figure, path: Path, kind: str) -> None:
    nothing = dict.fromkeys(_UNDATED[kind])
    write_atomically(path, lambda file: figure.savefig(file, format=kind, metadata=nothing))


def looks(runs: Sequence[RunResult]) -> dict[str, Look]:
    """The look of each label. Variants of a method share its colour, whatever is beside them, and differ in line."""
    kinds: dict[str, list[str]] = {}
    for run in runs:
        labels = kinds.setdefault(kind(run), [])
        if run.label not in labels:
            labels.append(run.label)
    return {
        label: Look(to_rgb(COLOURS.get(name, OTHER)), LINES[index % len(LINES)])
        for name, labels in kinds.items()
        for index, label in enumerate(labels)
    }


def kind(run: RunResult) -> str:
    """What decides a run's colour: its method, or the distance that gradient learned."""
    return run.metric if run.metric in COLOURS and run.method == "gradient" else run.method


def legend_width(labels: Iterable[str]) -> float:
    """Inches that a legend beside the axes takes, so that long labels do not narrow the axes."""
    return 0.6 + 0.075 * max(map(len, labels), default=0)


def lines(label: str) -> str:
    """A label for a narrow place: gradient:step=0.05 in two lines."""
    return label.replace(":", "\n").replace("=", " ")


def step_axis(axes: Axes, label: bool = True) -> None:
    """Environment steps on the x axis: 20k, 40k, ..."""
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.set_xmargin(0.01)
    if label:
        axes.set_xlabel("environment steps")


def small_panel(axes: Axes) -> None:
    """A thin box around one of many panels, with small numbers at its ticks."""
    axes.tick_params(labelsize=8)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(FAINT)


def bare(axes: Axes) -> None:
    """No ticks and no frame: the picture is a map, which at most has a name beside it."""
    axes.xaxis.set_visible(False)
    axes.yaxis.set_visible(bool(axes.get_ylabel()))
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def short_steps(step: float) -> str:
    """Three digits are enough: 90909 -> 90.9k."""
    return EngFormatter(sep="").format_eng(float(f"{step:.3g}"))


def stage_title(stage: StageDistribution, explores: bool = False) -> str:
    """Which stage it is and when it began, in two lines."""
    what = ", exploring" if explores else ""
    return f"stage {stage.stage}, α = {stage.alpha:.3g}\nfrom step {short_steps(stage.step)}{what}"


def evenly(items: Sequence[T], most: int) -> list[T]:
    """At most so many items, evenly spread, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[index] for index in np.linspace(0, len(items) - 1, most).round().astype(int)]


def stages_title(run: RunResult, shown: int, stages: int) -> str:
    """What a figure of stages shows, and whether it shows all of them."""
    some = "each stage" if shown == stages else f"{shown} of {stages} stages"
    return f"{run.task}, {run.label}, seed {run.seed}: contexts of {some}"


def goal_key(goals: Sequence[tuple[float, float]], star: str = "goal") -> str:
    """What the stars of a figure are."""
    return (f"star: the {star}" if len(goals) == 1 else f"stars: {star}s") if goals else ""
