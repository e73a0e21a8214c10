"""How a task's contexts are drawn: plain data, which figures, the page and the terminal can draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.checks import (
    FloatArray,
    IntArray,
    String,
    as_array,
    as_function,
    as_strings,
    as_vector,
    check_fields,
    within,
)
from geodesic.contexts.space import ContextSpace
from geodesic.errors import InvalidInput, short_repr

Box = tuple[float, float, float, float]  # x0, y0, x1, y1
Picture = Callable[[FloatArray], NDArray[np.uint8]]  # a context (d,) -> (height, width, 3)


def _as_cells(values: ArrayLike, name: str) -> IntArray:
    cells = as_array(values, name)
    if cells.ndim != 2 or not cells.size or not np.isin(cells, (0, 1)).all():
        raise InvalidInput(f"expected {name} of 0 and 1 (rows, columns), got shape {cells.shape}")
    return cells.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Plot:
    """What figures draw together with the contexts; everything has a default.

    Args:
        axes: The names of the two context values along x and y (default: all of them, two at a time).
        walls: Filled boxes (x0, y0, x1, y1) in the units of those two.
        goals: Places that are marked with a star; (row, column) with cells.
        star: What the stars mark, if it is not a goal.
        cells: An array (rows, columns) of 0 (free) and 1 (wall). Contexts are then (row, column).
        order: A number for each support point of a discrete space, by which distance matrices are sorted.
        ordered_by: What that number is, for the label.
        picture: Draws a context (d,) as a picture (height, width, 3) of bytes, where that says more than its values.

    Raises:
        InvalidInput: If a value has another shape or type.
    """

    axes: tuple[str, str] | None = None
    walls: tuple[Box, ...] = ()
    goals: tuple[tuple[float, float], ...] = ()
    star: str = "goal"
    cells: Annotated[IntArray, _as_cells] | None = None
    order: Annotated[FloatArray, as_vector] | None = None
    ordered_by: String = ""
    picture: Annotated[Picture, as_function] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.axes is not None and len(set(as_strings(self.axes, "axes"))) != 2:
            raise InvalidInput(f"expected axes to be two context values, got {short_repr(self.axes)}")
        for name, columns in (("walls", 4), ("goals", 2)):
            places = as_array(getattr(self, name), name)
            if places.size and (places.ndim != 2 or places.shape[1] != columns):
                raise InvalidInput(f"expected {name} of shape (n, {columns}), got shape {places.shape}")
            within(places, name)

    def check(self, space: ContextSpace) -> None:
        """Check that it fits a context space.

        Args:
            space: The context space.

        Raises:
            InvalidInput: If it does not fit.
        """
        for name in self.axes or ():
            if name not in space.names:
                raise InvalidInput(f"expected axes among the context values {', '.join(space.names)}, got {name!r}")
        if self.cells is not None and space.dim != 2:
            raise InvalidInput(f"expected cells (rows, columns) with contexts (row, column), got {self.cells.shape}")
        if self.order is not None and (space.support is None or self.order.shape != (len(space.support),)):
            raise InvalidInput("expected order to have a number for each support point of a discrete context space")

    def plane(self, space: ContextSpace) -> NDArray[np.intp]:
        """Choose the columns of a context that are drawn.

        Args:
            space: The context space.

        Returns:
            The columns, two or fewer.
        """
        if self.axes is None:
            return np.arange(min(space.dim, 2))
        return np.array([space.names.index(name) for name in self.axes])
