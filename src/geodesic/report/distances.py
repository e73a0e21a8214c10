"""The distances between the contexts of a discrete space, as a heat map."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from geodesic.contexts import FloatArray
from geodesic.report.style import new_figure, styled
from geodesic.tasks.drawing import Drawing

MOST_TICKS = 20


@styled
def distance_matrix(matrix: ArrayLike, drawing: Drawing, name: str) -> Figure:
    """Distances (n, n) under the metric of this name, contexts in the drawing's order, else in the support's.

    Lines part the contexts to which the order gives the same number.
    """
    values = np.asarray(matrix, dtype=np.float64)
    order = np.arange(len(values)) if drawing.order is None else np.argsort(drawing.order, kind="stable")
    figure = new_figure(6.6, 5.4)
    axes = figure.subplots()
    image = axes.imshow(values[np.ix_(order, order)], cmap="viridis", interpolation="nearest")
    if drawing.order is not None:
        _order_ticks(axes, drawing.order[order])
    axes.set_xlabel(_axis(drawing))
    axes.set_ylabel(_axis(drawing))
    axes.set_title(f"{name[:1].upper()}{name[1:]} between the {len(values)} contexts")
    figure.colorbar(image, ax=axes, label=name)
    return figure


def _axis(drawing: Drawing) -> str:
    if drawing.order is None:
        return "contexts, as the support lists them"
    return f"contexts, ordered by {drawing.ordered_by}" if drawing.ordered_by else "contexts, in the task's order"


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
