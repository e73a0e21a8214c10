"""How a task's contexts are drawn: plain data, so that a figure, a page and a terminal can each draw it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geodesic.checks import FloatArray, IntArray, as_array, as_text, as_vector, as_words, within
from geodesic.contexts import ContextSpace
from geodesic.errors import InvalidInput, shown

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

    def __post_init__(self) -> None:
        as_text(self.ordered_by, "ordered_by")
        if self.axes is not None and len(set(as_words(self.axes, "axes"))) != 2:
            raise InvalidInput(f"expected axes to be two context values, got {shown(self.axes)}")
        for name, columns in (("walls", 4), ("goals", 2)):
            places = as_array(getattr(self, name), name)
            if places.size and (places.ndim != 2 or places.shape[1] != columns):
                raise InvalidInput(f"expected {name} of shape (n, {columns}), got shape {places.shape}")
            within(places, name)
        if self.order is not None:
            object.__setattr__(self, "order", as_vector(self.order, "order"))
        if self.cells is not None:
            cells = as_array(self.cells, "cells")
            if cells.ndim != 2 or not cells.size or not np.isin(cells, (0, 1)).all():
                raise InvalidInput(f"expected cells of 0 and 1 (rows, columns), got shape {cells.shape}")
            object.__setattr__(self, "cells", cells.astype(np.int64))

    def check(self, space: ContextSpace) -> None:
        """That it fits the contexts."""
        for name in self.axes or ():
            if name not in space.names:
                raise InvalidInput(f"expected axes among the context values {', '.join(space.names)}, got {name!r}")
        if self.cells is not None and space.dim != 2:
            raise InvalidInput(f"expected cells (rows, columns) with contexts (row, column), got {self.cells.shape}")
        if self.order is not None and (space.support is None or self.order.shape != (len(space.support),)):
            raise InvalidInput("expected order to have a number for each support point of a discrete context space")

    def plane(self, space: ContextSpace) -> NDArray[np.intp]:
        """The columns of a context that are drawn, two or fewer."""
        if self.axes is None:
            return np.arange(min(space.dim, 2))
        return np.array([space.names.index(name) for name in self.axes])
