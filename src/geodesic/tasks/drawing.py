"""How a task's contexts are drawn: plain data, so that a figure, a page and a terminal can each draw it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import ContextSpace, FloatArray, IntArray
from geodesic.errors import InvalidInput

Box = tuple[float, float, float, float]  # x0, y0, x1, y1


@dataclass(frozen=True, eq=False)
class Drawing:
    """What is drawn with the contexts; everything has a default.

    axes: the two context values that are drawn along x and y, by name; without them all are, two at a time where there
        are more than two
    walls: filled boxes in the units of those two; goals: places marked with a star, and star: what they are, where that
        is no goal
    cells: (rows, columns) of 0 free and 1 wall: contexts are (row, column) and are drawn as shaded cells; goals are
        (row, column) too
    order: a number for each support point of a discrete space, by which matrices of distances are sorted; ordered_by
        says what it is
    """

    axes: tuple[str, str] | None = None
    walls: tuple[Box, ...] = ()
    goals: tuple[tuple[float, float], ...] = ()
    star: str = "goal"
    cells: IntArray | None = None
    order: FloatArray | None = None
    ordered_by: str = ""

    def check(self, space: ContextSpace) -> None:
        """That it fits the contexts."""
        for name in self.axes or ():
            if name not in space.names:
                raise InvalidInput(f"expected axes among the context values {', '.join(space.names)}, got {name!r}")
        if self.cells is not None and (self.cells.ndim != 2 or space.dim != 2):
            raise InvalidInput(f"expected cells (rows, columns) with contexts (row, column), got {self.cells.shape}")
        if self.order is not None and (space.support is None or self.order.shape != (len(space.support),)):
            raise InvalidInput("expected order to have a number for each support point of a discrete context space")

    def plane(self, space: ContextSpace) -> NDArray[np.intp]:
        """The columns of a context that are drawn, two or fewer."""
        if self.axes is None:
            return np.arange(min(space.dim, 2))
        return np.array([space.names.index(name) for name in self.axes])
