"""The space that contexts live in: bounds, names and units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.checks import FloatArray, as_bounds, as_points, as_strings, check_instance
from geodesic.contexts.particles import Particles
from geodesic.errors import InvalidInput, short_repr

SMALLEST = 1e-150  # side of a box
Side = tuple[float, float] | tuple[float, float, str]  # bounds of a context value, and its physical unit


@dataclass(frozen=True, eq=False)
class ContextSpace:
    """The space of contexts: a box, or the finite support of a discrete space inside it.

    Args:
        low: The lower bounds (d,); -inf where there is none.
        high: The upper bounds (d,); inf where there is none.
        support: The contexts (n, d) of a discrete space (default: the space is the box).
        names: The names (d,) of the context values (default: their indices).
        units: Their physical units (d,), for the axes of figures (default: none).

    Raises:
        InvalidInput: If the shapes differ, a lower bound exceeds the upper one, or names repeat.

    Example:
        >>> import geodesic as gd
        >>> space = gd.ContextSpace.named({"length": (0.05, 1.0, "m"), "gravity": (2.0, 30.0)})
        >>> space.labels
        ('length (m)', 'gravity')
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
        """A discrete space.

        Args:
            support: Its contexts (n, d).
            names: The names (d,) of the context values.

        Returns:
            The space.
        """
        points = as_points(support, "support")
        return cls(points.min(axis=0), points.max(axis=0), points, names)

    @classmethod
    def named(cls, sides: Mapping[str, Side]) -> ContextSpace:
        """A box with named sides.

        Args:
            sides: For each context value its name and `(low, high)` or `(low, high, unit)`.

        Returns:
            The space.

        Raises:
            InvalidInput: If a side has another form.
        """
        if not isinstance(sides, Mapping) or not sides:
            raise InvalidInput(f"expected contexts as {{name: (low, high)}}, got {short_repr(sides)}")
        for name, side in sides.items():
            if not isinstance(side, Sequence) or isinstance(side, str) or len(side) not in (2, 3):
                raise InvalidInput(
                    f"expected context {name!r} as (low, high) or (low, high, unit), got {short_repr(side)}"
                )
        low, high = ([side[k] for side in sides.values()] for k in (0, 1))
        return cls(low, high, None, list(sides), [str(side[2]) if len(side) == 3 else "" for side in sides.values()])

    @property
    def dim(self) -> int:
        """The dimension of a context."""
        return int(self.low.size)

    @property
    def bounded(self) -> bool:
        """Whether all sides are finite."""
        return bool(np.isfinite(self.high - self.low).all())

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels (d,) for the axes of a figure."""
        names = (f"context {name}" if name.isdigit() else name.replace("_", " ") for name in self.names)
        return tuple(f"{name} ({unit})" if unit else name for name, unit in zip(names, self.units))

    @property
    def sides(self) -> FloatArray:
        """Size (d,) of a bounded space along each axis; 1 along an axis of size 0."""
        size = self.high - self.low
        if not np.isfinite(size).all():
            raise InvalidInput(f"expected a bounded context space, got low {self.low} and high {self.high}")
        return np.where(size > 0, size, 1.0)

    @property
    def unit_length(self) -> FloatArray:
        """Scales (d,): divided by them, the diagonal of the space has length 1."""
        return np.asarray(self.sides * np.sqrt(self.dim))

    def bounded_around(self, points: FloatArray) -> ContextSpace:
        """The space, with sides where it has none: those of a box around points.

        Args:
            points: Contexts (n, d).

        Returns:
            A bounded space; this one if it is bounded.
        """
        points = as_points(points, "points", self.dim)
        if self.bounded:
            return self
        low = np.where(np.isfinite(self.low), self.low, np.minimum(points.min(axis=0), self.high))
        high = np.where(np.isfinite(self.high), self.high, np.maximum(points.max(axis=0), self.low))
        return ContextSpace(low, high, self.support, self.names, self.units)

    def to_unit(self, points: FloatArray) -> FloatArray:
        """Scale contexts to 0 ... 1 on each axis.

        Args:
            points: Contexts (n, d).

        Returns:
            The scaled contexts (n, d).

        Raises:
            InvalidInput: If the space is unbounded.
        """
        return np.asarray((as_points(points, "contexts", self.dim) - self.low) / self.sides)

    def clip(self, points: FloatArray) -> FloatArray:
        """Move points into the space: into the box, or to the nearest point of the support.

        Args:
            points: Contexts (n, d).

        Returns:
            Contexts (n, d) in the space.
        """
        if self.support is None:
            return np.clip(as_points(points, "contexts", self.dim), self.low, self.high)
        return self.support[self.index(points)]

    def index(self, points: FloatArray) -> NDArray[np.intp]:
        """Find the nearest points of the support of a discrete space.

        Args:
            points: Contexts (n, d).

        Returns:
            The row (n,) of the nearest support point for each of them.

        Raises:
            InvalidInput: If the space is not discrete.
        """
        if self.support is None:
            raise InvalidInput("expected a discrete context space, got a box")
        given = as_points(points, "contexts", self.dim)
        return np.asarray(np.linalg.norm(given[:, None, :] - self.support[None], axis=2).argmin(axis=1))

    def contains(self, points: FloatArray) -> NDArray[np.bool_]:
        """Check which points are in the space, up to rounding.

        Args:
            points: Contexts (n, d).

        Returns:
            Whether each of them (n,) is in the space.
        """
        given = as_points(points, "contexts", self.dim)
        if self.support is None:
            return np.asarray(((given >= self.low - 1e-9) & (given <= self.high + 1e-9)).all(axis=1))
        return np.asarray(np.abs(given - self.clip(given)).max(axis=1) <= 1e-6)

    def check(self, points: ArrayLike, name: str = "context") -> FloatArray:
        """Check that points lie in the space.

        Args:
            points: Contexts (n, d).
            name: What they are called in the message.

        Returns:
            The points as an array (n, d).

        Raises:
            InvalidInput: If one lies outside; the message names the first one.
        """
        values = as_points(points, name, self.dim)
        outside = ~self.contains(values)
        if outside.any():
            where = f"low {self.low.tolist()}, high {self.high.tolist()}" if self.support is None else "its support"
            raise InvalidInput(f"expected {name} inside {where}, got {values[outside][0].tolist()}")
        return values

    def inside(self, points: FloatArray) -> Particles:
        """Make particles of equal weight from points that are moved into the space.

        Args:
            points: Contexts (n, d).

        Returns:
            The particles.
        """
        return Particles(self.clip(points))

    def uniform(self, n: int, rng: np.random.Generator) -> Particles:
        """The uniform distribution.

        Args:
            n: The number of samples of a box.
            rng: The generator.

        Returns:
            n samples of a box, or the whole support of a discrete space.
        """
        if self.support is not None:
            return Particles(self.support)
        return Particles.uniform(self.low, self.high, n, rng)

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw contexts uniformly.

        Args:
            n: How many.
            rng: The generator.

        Returns:
            Contexts (n, d).
        """
        everywhere = self.uniform(n, rng)
        return everywhere.sample(rng, n) if self.support is not None else everywhere.points


def _words(values: Sequence[str], d: int, what: str) -> tuple[str, ...]:
    words = tuple(as_strings(values, what))
    if len(words) != d:
        raise InvalidInput(f"expected {what} of {d} context values, got {short_repr(words)}")
    return words


def as_bounded(value: object, name: str) -> ContextSpace:
    """Check that a value is a context space whose sides are all finite.

    Args:
        value: The value.
        name: What it is called in the message.

    Returns:
        The space.

    Raises:
        InvalidInput: If it is not.
    """
    space = check_instance(ContextSpace, value, name)
    space.sides  # noqa: B018  refuses one that has some
    return space


BoundedSpace = Annotated[ContextSpace, as_bounded]  # the type of a field, for `check_fields`
