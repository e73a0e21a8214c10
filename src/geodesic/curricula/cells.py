"""A partition of a context space into finitely many cells, for methods that choose between tasks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from geodesic.checks import Size
from geodesic.checks import check_fields as check
from geodesic.contexts import BoundedSpace, FloatArray, Particles
from geodesic.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Cells:
    """The contexts of a discrete space, or a grid of boxes.

    Each category is apart. Numbers and integers are divided evenly into as many parts as possible, in turn, such that
    there are at most `most` boxes in all; integers into no more parts than there are of them.

    Args:
        space: The space; bounded.
        most: The largest number of boxes. A discrete space has a cell for each of its contexts.

    Raises:
        InvalidInput: If the space is unbounded, or has more combinations of categories than `most`.

    Example:
        >>> import geodesic as gd
        >>> cells = Cells(gd.ContextSpace.of({"gravity": (0.0, 10.0), "opponent": ["passive", "chaser"]}), 8)
        >>> cells.parts, len(cells)
        ((4, 2), 8)
        >>> cells.index(np.array([[9.0, 0.0], [9.0, 1.0], [1.0, 1.0]]))
        array([6, 7, 1])
    """

    space: BoundedSpace
    most: Size = 100

    def __post_init__(self) -> None:
        check(self)
        kinds = prod(map(len, self.space.categories.values()))
        if self.space.support is None and kinds > self.most:
            raise InvalidInput(
                f"expected at least {kinds} cells, one for each combination of categories, got {self.most}"
            )

    def __len__(self) -> int:
        return prod(self.parts)

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """How many parts each value (d,) is divided into; of a discrete space, the number of its contexts."""
        if self.space.support is not None:
            return (len(self.space.support),)
        sizes = [self.most if values is None else len(values) for values in self.space.values]
        sizes = [size if low < high else 1 for size, low, high in zip(sizes, self.space.low, self.space.high)]
        parts = [len(values) if isinstance(values, tuple) else 1 for values in self.space.values]
        grown = True
        while grown:
            grown = False
            for k, size in enumerate(sizes):
                if parts[k] < size and prod(parts) // parts[k] * (parts[k] + 1) <= self.most:
                    parts[k] += 1
                    grown = True
        return tuple(parts)

    @cached_property
    def _edges(self) -> list[FloatArray]:
        """Where the parts of each value begin and end; an integer fills its step from half below to half above."""
        low, high = self.space.low - self.space.steps / 2, self.space.high + self.space.steps / 2
        edges = []
        for k, (count, step) in enumerate(zip(self.parts, self.space.steps)):
            ends = np.linspace(low[k], high[k], count + 1)
            edges.append(ends if not step else low[k] + step * np.rint((ends - low[k]) / step))
        return edges

    def index(self, contexts: FloatArray) -> NDArray[np.intp]:
        """Find the cells of contexts.

        Args:
            contexts: Contexts (n, d).

        Returns:
            The number (n,) of the cell that each of them lies in.
        """
        if self.space.support is not None:
            return self.space.index(contexts)
        number = np.zeros(len(contexts), dtype=np.intp)
        for count, ends, column in zip(self.parts, self._edges, contexts.T):
            number = number * count + ends[1:-1].searchsorted(column, side="right")
        return number

    def draw(self, each: int, rng: np.random.Generator) -> FloatArray:
        """Draw contexts from all cells.

        Args:
            each: How many from each cell; a discrete space has one in each.
            rng: The generator.

        Returns:
            Contexts (n, d), cell by cell.
        """
        if self.space.support is not None:
            return self.space.support
        number = np.repeat(np.arange(len(self)), each)
        places = []  # in the parts of each value, the last one first
        for count in self.parts[::-1]:
            number, place = np.divmod(number, count)
            places.append(place)
        columns = [rng.uniform(ends[place], ends[place + 1]) for ends, place in zip(self._edges, places[::-1])]
        return self.space.clip(np.stack(columns, axis=1))

    def particles(self, chances: FloatArray, n: int, rng: np.random.Generator) -> Particles:
        """A distribution over contexts, uniform in each cell.

        Args:
            chances: The probability (k,) of each cell.
            n: How many contexts represent it, about: as many in each cell.
            rng: The generator.

        Returns:
            The particles.
        """
        points = self.draw(max(1, n // len(self)), rng)
        return Particles(points, np.repeat(chances, len(points) // len(self)))
