"""The shared look of all figures: a method has the same colour wherever it appears."""

from __future__ import annotations

import io
import math
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import NamedTuple, TypeVar

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator
from numpy.typing import NDArray

from geodesic import curricula, metrics
from geodesic.records.files import write_atomically
from geodesic.records.reader import RunResult
from geodesic.records.schema import StageDistribution

Grid = NDArray[np.object_]  # of axes
LineStyle = str | tuple[float, tuple[float, ...]]  # a name, or (offset, lengths of dashes and gaps)

# Methods and learned metrics state their own colours: Okabe and Ito's palette, which is safe for colour-blind readers,
# with indigo and wine from Tol's muted set. This one is for a method that states none.
OTHER = "#999933"
# Replacements on a dark page for colours that would be invisible there.
DARK = {"#000000": "#f2f2f2", "#332288": "#a99bf0", "#882255": "#c2527f", "#0072b2": "#2f8fd0"}
WALL = "#3a3a45"
GOAL = "#f0e442"
INK = "#222222"
FAINT = "#b0b0b0"
GRID = "#e4e4e4"
ACCENT = "#d55e00"
HEAT = "Blues"
PATH = "viridis"
EXPLORING = "exploring"  # marks stages that explored for a metric
LINES: tuple[LineStyle, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))

_SETTINGS = {  # where they are not matplotlib's own defaults
    "axes.titlesize": 11,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "grid.color": GRID,
    "lines.linewidth": 1.8,
    "text.parse_math": False,  # names and units are text, whatever signs they contain
}

_SAVING = {
    "savefig.dpi": 150,
    "svg.hashsalt": "geodesic",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "text.parse_math": False,  # of ticks, which are created when a figure is drawn
}
# Warnings about names in scripts that the font lacks, and longer than a figure: one for each character and format.
_ODD_NAMES = ("Glyph .* missing from font", "constrained_layout not applied")
# Metadata that would make two saves of one figure differ.
_UNDATED = {"png": ("Software",), "pdf": ("Creator", "Producer", "CreationDate"), "svg": ("Creator", "Date")}

T = TypeVar("T")


def _huge_numbers() -> np.errstate:
    """A context in which numbers near the largest one, which a table may state, are no news."""
    return np.errstate(over="ignore", invalid="ignore")


@contextmanager
def _drawing() -> Iterator[None]:
    with matplotlib.style.context(_SETTINGS, after_reset=True), _huge_numbers():
        yield


# A decorator: functions draw with the settings above, whatever the caller's are, and leave the caller's unchanged.
styled = _drawing()


class Style(NamedTuple):
    """How the runs of one label are drawn.

    Args:
        colour: Hexadecimal, in lower case.
        line: matplotlib's line style.
    """

    colour: str
    line: LineStyle


def new_figure(width: float, height: float) -> Figure:
    """Create an empty figure of this size in inches, outside pyplot's list of open figures."""
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, path: Path, also: Sequence[str] = ()) -> Path:
    """Write a figure as PNG and in other formats; the same figure always gives the same bytes.

    Args:
        figure: The figure.
        path: The PNG file; other formats are written beside it.
        also: More formats: "pdf" and "svg".

    Returns:
        The path of the PNG file.
    """
    for kind in ("png", *also):
        content = _encoded(figure, kind)
        write_atomically(path.with_suffix(f".{kind}"), lambda file, content=content: file.write(content))  # type: ignore[misc]
    return path


def svg(figure: Figure, names: Mapping[str, str]) -> str:
    """Draw a figure as an SVG element for a web page.

    Args:
        figure: The figure.
        names: For each colour (hexadecimal, lower case), the CSS variable that takes its place, so that the page's
            theme decides.

    Returns:
        The element, without a background.
    """
    text = _encoded(figure, "svg", transparent=True).decode()
    for colour, name in {**names, INK: "ink", FAINT: "faint", GRID: "line", "#000000": "ink"}.items():
        text = text.replace(colour, f"var(--{name})")
    return text[text.index("<svg") :]


def _encoded(figure: Figure, kind: str, transparent: bool = False) -> bytes:
    """A figure as a file. Its layout engine runs once: a figure that keeps one is drawn twice for each format."""
    file = io.BytesIO()
    with matplotlib.rc_context(_SAVING), warnings.catch_warnings(), _huge_numbers():
        for expected in _ODD_NAMES:
            warnings.filterwarnings("ignore", expected)
        figure.set_dpi(matplotlib.rcParams["savefig.dpi"])
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.execute(figure)
        figure.set_layout_engine("none")
        figure.savefig(file, format=kind, metadata=dict.fromkeys(_UNDATED[kind]), transparent=transparent)
    return file.getvalue()


def colour_of(method: str, metric: str | None = None) -> str:
    """Look up the colour that a registered method states; nothing is imported, as the names may come from a file.

    Args:
        method: The name of a method.
        metric: The name of the metric it uses; gradient takes the colour of a learned metric that states one.

    Returns:
        The colour, hexadecimal in lower case.
    """
    stated: list[object] = [curricula.REGISTRY.known(method)]
    if metric and method == "gradient":
        stated.insert(0, metrics.STANDARD.get(metric) or metrics.REGISTRY.known(metric))
    colours = [getattr(found, "colour", None) for found in stated]
    return next((to_hex(colour) for colour in colours if colour), OTHER)


def styles_of(runs: Sequence[RunResult]) -> dict[str, Style]:
    """Choose the style of each label: its method's colour, and a line style for each label of that colour."""
    colours = {run.label: colour_of(run.method, run.metric) for run in runs}
    lines = defaultdict[str, Iterator[LineStyle]](lambda: cycle(LINES))
    return {label: Style(colour, next(lines[colour])) for label, colour in colours.items()}


def legend_width(labels: Iterable[str]) -> float:
    """Estimate the width in inches of a legend beside the axes, so that long labels do not narrow the axes."""
    return 0.6 + 0.075 * max(map(len, labels), default=0)


def new_grid(figure: Figure, panels: int, columns: int, shared: bool) -> list[Axes]:
    """Create axes for so many panels in rows; those that the last row has no panel for are hidden.

    Args:
        figure: The figure.
        panels: The number of panels.
        columns: The number of columns.
        shared: Whether all panels have the same axes; the lowest panel of each column then has the labels of the ticks.

    Returns:
        All axes, row by row.
    """
    grid: Grid = figure.subplots(math.ceil(panels / columns), columns, squeeze=False, sharex=shared, sharey=shared)
    every: list[Axes] = grid.ravel().tolist()
    for axes in every[panels:]:
        axes.set_visible(False)
    for axes in every[max(0, panels - columns) : panels]:
        axes.tick_params(labelbottom=True)
    return every


def step_axis(axes: Axes, label: bool = True) -> None:
    """Show environment steps on the x axis: 20k, 40k, ..."""
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.set_xmargin(0.01)
    if label:
        axes.set_xlabel("environment steps")


def value_axis(axes: Axes, label: str = "") -> None:
    """Name the y axis and draw grid lines at its ticks, behind the data."""
    axes.set_ylabel(label)
    axes.grid(axis="y")
    axes.set_axisbelow(True)


def small_panel(axes: Axes, colour: str = FAINT) -> None:
    """Draw a thin box around one of many panels, with small numbers at its ticks."""
    axes.tick_params(labelsize=8)
    axes.spines[:].set(visible=True, color=colour)


def short_steps(step: float) -> str:
    """Write a number of steps with three digits.

    Example:
        >>> short_steps(90909)
        '90.9k'
    """
    return EngFormatter(sep="").format_eng(float(f"{step:.3g}"))


def stage_title(stage: StageDistribution, explores: bool = False) -> str:
    """Say in two lines which stage it is and when it started."""
    note = f", {EXPLORING}" if explores else ""
    return f"stage {stage.stage}, α = {stage.alpha:.3g}\nfrom step {short_steps(stage.step)}{note}"


def evenly(items: Sequence[T], most: int) -> list[T]:
    """Choose at most so many items, evenly spaced, including the first and the last.

    Example:
        >>> evenly("abcdefg", 3)
        ['a', 'd', 'g']
    """
    if len(items) <= most:
        return list(items)
    return [items[index] for index in np.linspace(0, len(items) - 1, most).round().astype(int)]


def goal_key(goals: Sequence[tuple[float, float]], star: str = "goal") -> str:
    """Explain the stars of a figure; empty without any."""
    return (f"star: the {star}" if len(goals) == 1 else f"stars: {star}s") if goals else ""
