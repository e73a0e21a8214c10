"""The space that contexts live in: bounds, names and units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.checks import FloatArray, as_a, as_bounds, as_points, as_words
from geodesic.contexts.particles import Particles
from geodesic.errors import InvalidInput, shown

SMALLEST = 1e-150  # side of a box
Side = tuple[float, float] | tuple[float, float, str]  # bounds of a context value, and its physical unit


@dataclass(frozen=True, eq=False)
class ContextSpace:
    """Where contexts live: a box, or the finite support of a discrete space inside it.

    names (d,) are what the values of a context are called; units (d,) are physical ones, for the axes of figures.
    """

    low: FloatArray
    high: FloatArray
    support: FloatArray | None
    names: tuple[str, ...]
    units: tuple[str, ...]

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        support: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        units: Sequence[str] | None = None,
    ) -> None:
        lower, upper = as_bounds(low, high)
        d = lower.size
        object.__setattr__(self, "low", lower)
        object.__setattr__(self, "high", upper)
        object.__setattr__(self, "support", None if support is None else as_points(support, "support", d))
        object.__setattr__(self, "names", _words([str(k) for k in range(d)] if names is None else names, d, "names"))
        object.__setattr__(self, "units", _words([""] * d if units is None else units, d, "units"))
        if len(set(self.names)) < d:
            raise InvalidInput(f"expected names that differ, got {self.names}")
        if ((lower < upper) & (upper - lower < SMALLEST)).any():
            raise InvalidInput(f"expected sides of 0 or of at least {SMALLEST:g}, got low {lower} and high {upper}")
        if self.support is not None and not ((self.support >= lower) & (self.support <= upper)).all():
            raise InvalidInput(f"expected support points inside low {lower.tolist()}, high {upper.tolist()}")

    @classmethod
    def discrete(cls, support: ArrayLike, names: Sequence[str] | None = None) -> ContextSpace:
        points = as_points(support, "support")
        return cls(points.min(axis=0), points.max(axis=0), points, names)

    @classmethod
    def named(cls, sides: Mapping[str, Side]) -> ContextSpace:
        """A box from {"length": (0.05, 1.0, "m"), "gravity": (2.0, 30.0)}; the unit may be left out."""
        if not isinstance(sides, Mapping) or not sides:
            raise InvalidInput(f"expected contexts as {{name: (low, high)}}, got {shown(sides)}")
        for name, side in sides.items():
            if not isinstance(side, Sequence) or isinstance(side, str) or len(side) not in (2, 3):
                raise InvalidInput(f"expected context {name!r} as (low, high) or (low, high, unit), got {shown(side)}")
        low, high = ([side[k] for side in sides.values()] for k in (0, 1))
        return cls(low, high, None, list(sides), [str(side[2]) if len(side) == 3 else "" for side in sides.values()])

    @property
    def dim(self) -> int:
        return int(self.low.size)

    @property
    def bounded(self) -> bool:
        return bool(np.isfinite(self.high - self.low).all())

    @property
    def labels(self) -> tuple[str, ...]:
        """What to write at the axes of a figure, (d,)."""
        names = (f"context {name}" if name.isdigit() else name.replace("_", " ") for name in self.names)
        return tuple(f"{name} ({unit})" if unit else name for name, unit in zip(names, self.units))

    @property
    def sides(self) -> FloatArray:
        """Size (d,) of a bounded space along each axis; 1 along an axis on which all contexts agree."""
        size = self.high - self.low
        if not np.isfinite(size).all():
            raise InvalidInput(f"expected a bounded context space, got low {self.low} and high {self.high}")
        return np.where(size > 0, size, 1.0)

    @property
    def unit_length(self) -> FloatArray:
        """What to divide contexts by so that the diagonal of the space has length 1, shape (d,)."""
        return np.asarray(self.sides * np.sqrt(self.dim))

    def to_unit(self, points: FloatArray) -> FloatArray:
        """Contexts in units of their space: 0 ... 1 on each axis."""
        return np.asarray((as_points(points, "contexts", self.dim) - self.low) / self.sides)

    def clip(self, points: FloatArray) -> FloatArray:
        """Points moved into the box; on a discrete space, to the nearest support point."""
        if self.support is None:
            return np.clip(as_points(points, "contexts", self.dim), self.low, self.high)
        return self.support[self.index(points)]

    def index(self, points: FloatArray) -> NDArray[np.intp]:
        """Row of the nearest support point for each point (discrete spaces only)."""
        if self.support is None:
            raise InvalidInput("expected a discrete context space, got a box")
        given = as_points(points, "contexts", self.dim)
        return np.asarray(np.linalg.norm(given[:, None, :] - self.support[None], axis=2).argmin(axis=1))

    def contains(self, points: FloatArray) -> NDArray[np.bool_]:
        given = as_points(points, "contexts", self.dim)
        if self.support is None:
            return np.asarray(((given >= self.low - 1e-9) & (given <= self.high + 1e-9)).all(axis=1))
        return np.asarray(np.abs(given - self.clip(given)).max(axis=1) <= 1e-6)

    def check(self, points: ArrayLike, name: str = "context") -> FloatArray:
        """The points as (n, d), or an error that names the first one outside."""
        values = as_points(points, name, self.dim)
        outside = ~self.contains(values)
        if outside.any():
            where = f"low {self.low.tolist()}, high {self.high.tolist()}" if self.support is None else "its support"
            raise InvalidInput(f"expected {name} inside {where}, got {values[outside][0].tolist()}")
        return values

    def inside(self, points: FloatArray) -> Particles:
        """Equally weighted particles at the points, moved into the space."""
        return Particles(self.clip(points))

    def uniform(self, n: int, rng: np.random.Generator) -> Particles:
        """The uniform distribution: n samples of the box, or the whole support."""
        if self.support is not None:
            return Particles(self.support)
        return Particles.uniform(self.low, self.high, n, rng)

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """n contexts (n, d) drawn from the whole space."""
        everywhere = self.uniform(n, rng)
        return everywhere.sample(rng, n) if self.support is not None else everywhere.points


def _words(values: Sequence[str], d: int, what: str) -> tuple[str, ...]:
    words = tuple(as_words(values, what))
    if len(words) != d:
        raise InvalidInput(f"expected {what} of {d} context values, got {shown(words)}")
    return words


def as_bounded(value: object, name: str) -> ContextSpace:
    """A context space without infinite sides."""
    space = as_a(ContextSpace, value, name)
    space.sides  # noqa: B018  refuses one that has some
    return space
