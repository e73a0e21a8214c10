"""The space that contexts live in: what each value can be, bounds, names and units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.checks import (
    FloatArray,
    as_array,
    as_bounds,
    as_points,
    as_rng,
    as_size,
    as_string,
    as_strings,
    as_vector,
    check_instance,
)
from geodesic.contexts import values as kinds
from geodesic.contexts.particles import Particles
from geodesic.contexts.values import Part, Real, Side, Values
from geodesic.errors import InvalidInput, short_repr, some

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

SMALLEST = 1e-150  # side of a box
LARGE = 4096  # points of a support above which it is searched as a tree, and sampled


@dataclass(frozen=True, eq=False)
class ContextSpace:
    """The space of contexts: a box, a product of numbers, integers and categories, or the support of a discrete space.

    A context is a vector of floats (d,). It holds a number or an integer itself, and a category by its place in the
    list. `encode` and `decode` translate.

    What treats contexts as points of a box does so in `relaxed`: numbers and integers as they are, and for each
    category a value that is 1 if a context has it and else 0 (one-hot). `relax` leads there, and `round` back to the
    nearest context. A box and a discrete space are their own relaxed spaces.

    Args:
        low: The lower bounds (d,); -inf where there is none.
        high: The upper bounds (d,); inf where there is none.
        support: The contexts (n, d) of a discrete space (default: the space is the box).
        names: The names (d,) of the context values (default: their indices).
        units: Their physical units (d,), for the axes of figures (default: none).
        values: What each value (d,) can be: a range of integers, a list of categories (strings), or None, any number
            within the bounds (default). Integers and categories have their own bounds in place of `low` and `high`.

    Raises:
        InvalidInput: If the shapes differ, a lower bound exceeds the upper one, or names repeat.

    Example:
        >>> import geodesic as gd
        >>> space = gd.ContextSpace.of({"gravity": (2.0, 60.0, "m/s²"), "opponent": ["passive", "chaser"]})
        >>> space.labels
        ('gravity (m/s²)', 'opponent')
        >>> space.encode({"gravity": 9.8, "opponent": "chaser"})
        array([9.8, 1. ])
        >>> space.relax(space.encode({"gravity": 9.8, "opponent": "chaser"})[None])
        array([[9.8, 0. , 1. ]])
    """

    low: FloatArray
    high: FloatArray
    support: FloatArray | None
    names: tuple[str, ...]
    units: tuple[str, ...]
    values: tuple[Values, ...]

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        support: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        units: Sequence[str] | None = None,
        values: Sequence[Values] | None = None,
    ) -> None:
        if values is not None:
            values, low, high = _with_bounds(values, low, high)
        lower, upper = as_bounds(low, high)
        d = lower.size
        object.__setattr__(self, "low", lower)
        object.__setattr__(self, "high", upper)
        object.__setattr__(self, "support", None if support is None else as_points(support, "support", d))
        object.__setattr__(self, "names", _words([str(k) for k in range(d)] if names is None else names, d, "names"))
        object.__setattr__(self, "units", _words([""] * d if units is None else units, d, "units"))
        object.__setattr__(self, "values", (None,) * d if values is None else tuple(values))
        if self.support is not None and self.mixed:
            raise InvalidInput("expected a support, or values that are integers or categories, got both")
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
    def of(cls, contexts: ContextSpace | Mapping[str, Side] | gym.Space[Any]) -> ContextSpace:
        """A space from what users write.

        Args:
            contexts: For each context value its name and `(low, high)`, `(low, high, unit)`, a range of integers, or a
                list of categories (strings or booleans). Or a space of Gymnasium: a `Box`, a `Discrete`, which is a
                range of integers, or a `Dict` of them. A `ContextSpace` is returned as it is.

        Returns:
            The space.

        Raises:
            InvalidInput: If a side has another form.
        """
        if isinstance(contexts, ContextSpace):
            return contexts
        sides = kinds.parse_contexts(contexts)
        names, low, high, units, values = (list(column) for column in zip(*sides))
        return cls(low, high, None, names, units, values if any(each is not None for each in values) else None)

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
        """Scales of relaxed contexts: divided by them, the diagonal has length 1; categories are as far as ends."""
        if self.one_hot is None:
            return np.asarray(self.sides * np.sqrt(self.dim))
        columns, places = self.one_hot
        return np.asarray(np.where(places < 0, self.sides[columns], np.sqrt(2.0)) * np.sqrt(self.dim))

    @property
    def mixed(self) -> bool:
        """Whether some values are integers or categories."""
        return any(each is not None for each in self.values)

    @property
    def finite(self) -> bool:
        """Whether there are finitely many contexts."""
        return self.support is not None or all(each is not None for each in self.values)

    @property
    def categories(self) -> dict[str, tuple[kinds.Category, ...]]:
        """The categories of each value that has some, by its name."""
        return {name: each for name, each in zip(self.names, self.values) if isinstance(each, tuple)}

    @cached_property
    def one_hot(self) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
        """The column and the category (-1: a number) of each relaxed value; None without categories."""
        if not self.categories:
            return None
        sizes = [len(each) if isinstance(each, tuple) else 0 for each in self.values]
        columns = np.repeat(np.arange(self.dim), np.maximum(sizes, 1))
        places = np.concatenate([np.arange(size) if size else [-1] for size in sizes])
        return columns, places

    @cached_property
    def relaxed(self) -> ContextSpace:
        """The box in which integers may be any number and categories are one-hot; the space itself if it is no product.

        The names of its values are like "opponent=chaser" where they are categories.
        """
        if not self.mixed:
            return self
        columns, places = self.one_hot or (np.arange(self.dim), np.full(self.dim, -1))
        low, high = (np.where(places < 0, bound[columns], end) for bound, end in ((self.low, 0.0), (self.high, 1.0)))
        pairs = [(self.names[k], self.units[k], self.values[k], place) for k, place in zip(columns, places)]
        names = [name if place < 0 else f"{name}={values[place]}" for name, _, values, place in pairs]  # type: ignore[index]
        return ContextSpace(low, high, None, names, [unit for _, unit, _, _ in pairs])

    def relax(self, points: FloatArray) -> FloatArray:
        """Express contexts as points of the relaxed space.

        Args:
            points: Contexts (n, d).

        Returns:
            The points (n, m).
        """
        if self.one_hot is None:
            return points
        columns, places = self.one_hot
        taken = as_points(points, "contexts", self.dim)[:, columns]
        return np.asarray(np.where(places < 0, taken, np.rint(taken) == places), dtype=np.float64)

    def round(self, points: FloatArray) -> FloatArray:
        """Find the context nearest to each point of the relaxed space.

        Args:
            points: Points (n, m).

        Returns:
            Contexts (n, d) in the space.
        """
        if self.one_hot is None:
            return self.clip(points)
        given, columns = as_points(points, "points", self.relaxed.dim), self.one_hot[0]
        parts = [given[:, columns == k] for k in range(self.dim)]
        chosen = [
            part.argmax(axis=1) if isinstance(values, tuple) else part[:, 0] for part, values in zip(parts, self.values)
        ]
        return self.clip(np.stack(chosen, axis=1))

    def observe(self, points: FloatArray) -> FloatArray:
        """Express contexts as an agent observes them.

        Args:
            points: Contexts (n, d).

        Returns:
            Relaxed contexts (n, m), numbers and integers scaled to [-1, 1].
        """
        unit = self.to_unit(points)
        return 2 * unit - 1 if self.one_hot is None else np.where(self.one_hot[1] < 0, 2 * unit - 1, unit)

    def encode(self, context: Mapping[str, Any], name: str = "context") -> FloatArray:
        """Translate a context from values by name.

        Args:
            context: A number, an integer or a category for each name.
            name: What it is called in messages.

        Returns:
            The context (d,).

        Raises:
            InvalidInput: If a name is missing or unknown, or a value is not in the space.
        """
        if not isinstance(context, Mapping) or set(context) != set(self.names):
            raise InvalidInput(
                f"expected {name} with a value for each of {', '.join(self.names)}, got {short_repr(context)}"
            )
        pairs = zip(self.names, self.values)
        numbers = [kinds.encode(values, context[key], f"{key} of {name}") for key, values in pairs]
        return self.check([numbers], name).ravel()

    def as_contexts(self, contexts: ArrayLike | Mapping[str, Any]) -> FloatArray:
        """Translate one or several contexts.

        Args:
            contexts: A context (d,), several (n, d), or values by name.

        Returns:
            Contexts (n, d).

        Raises:
            InvalidInput: If they have another form, or values by name are not in the space.
        """
        if isinstance(contexts, Mapping):
            return self.encode(contexts)[None]
        return np.atleast_2d(as_array(contexts, "context"))

    def decode(self, context: ArrayLike) -> dict[str, Real]:
        """Translate a context to values by name.

        Args:
            context: The context (d,).

        Returns:
            A number, an integer or a category for each name.

        Raises:
            InvalidInput: If the context has another form, or names no category.
        """
        named = zip(self.names, self.values, as_vector(context, "context", self.dim).tolist())
        return {name: kinds.decode(values, number) for name, values, number in named}

    def parts(self, ranges: Mapping[str, Any] | None = None, name: str = "ranges") -> list[Part]:
        """Translate ranges of values.

        Args:
            ranges: A value for each name; of numbers and integers also `(low, high)`, both included; of integers and
                categories also a list, a set or a range of them. Default: the whole space.
            name: What they are called in messages.

        Returns:
            For each value (low, high), or the numbers of integers and categories in ascending order.

        Raises:
            InvalidInput: If a name is missing or unknown, or a range is not in the space.
        """
        as_string(name, "name")
        if ranges is None:
            bounds = zip(self.low.tolist(), self.high.tolist(), self.steps.tolist(), self.values)
            return [(a, b) if values is None else a + step * np.arange(len(values)) for a, b, step, values in bounds]
        if not isinstance(ranges, Mapping) or set(ranges) != set(self.names):
            raise InvalidInput(
                f"expected {name} to give a value or a range for each of {', '.join(self.names)}, "
                f"got {', '.join(map(str, ranges)) if isinstance(ranges, Mapping) else short_repr(ranges)}"
            )
        return [kinds.part_of(values, ranges[key], f"{key} of {name}") for key, values in zip(self.names, self.values)]

    @cached_property
    def steps(self) -> FloatArray:
        """The distance (d,) between neighbouring integers or categories; 0 between numbers."""
        steps = (1.0 if isinstance(each, tuple) else 0.0 if each is None else each.step for each in self.values)
        return np.array(list(steps), dtype=np.float64)

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
        return ContextSpace(low, high, self.support, self.names, self.units, self.values if self.mixed else None)

    def to_unit(self, points: FloatArray) -> FloatArray:
        """Scale contexts to 0 ... 1 on each axis; categories become one-hot.

        Args:
            points: Contexts (n, d).

        Returns:
            The scaled contexts (n, m), in the relaxed space.

        Raises:
            InvalidInput: If the space is unbounded.
        """
        space = self.relaxed
        return np.asarray((as_points(self.relax(points), "contexts", space.dim) - space.low) / space.sides)

    def clip(self, points: FloatArray) -> FloatArray:
        """Move points into the space: into the box, to the nearest integer, or to the nearest point of the support.

        Args:
            points: Contexts (n, d).

        Returns:
            Contexts (n, d) in the space.
        """
        if self.support is not None:
            return self.support[self.index(points)]
        inside = np.clip(as_points(points, "contexts", self.dim), self.low, self.high)
        if self.mixed:
            whole = self.steps > 0
            low, steps = self.low[whole], self.steps[whole]
            inside[:, whole] = low + steps * np.rint((inside[:, whole] - low) / steps)
        return inside

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
        if len(self.support) > LARGE:
            return np.asarray(self._tree.query(given)[1], dtype=np.intp)
        return np.asarray(np.linalg.norm(given[:, None, :] - self.support[None], axis=2).argmin(axis=1))

    @cached_property
    def _tree(self) -> cKDTree:
        from scipy.spatial import cKDTree

        return cKDTree(self.support)

    def contains(self, points: FloatArray) -> NDArray[np.bool_]:
        """Check which points are in the space, up to rounding.

        Args:
            points: Contexts (n, d).

        Returns:
            Whether each of them (n,) is in the space.
        """
        given = as_points(points, "contexts", self.dim)
        if self.support is None and not self.mixed:
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
            raise InvalidInput(f"expected {name} inside {self._extent()}, got {values[outside][0].tolist()}")
        return values

    def _extent(self) -> str:
        """The space in words."""
        if self.support is not None:
            return "its support"
        if not self.mixed:
            return f"low {self.low.tolist()}, high {self.high.tolist()}"
        sides = zip(self.names, self.values, self.low, self.high)
        words = [
            f"{name} {low:g} ... {high:g}" + (f" ({kinds.describe(values)})" if isinstance(values, tuple) else "")
            for name, values, low, high in sides
        ]
        return f"{some(words)} and on whole steps of integers and categories"

    def inside(self, points: FloatArray) -> Particles:
        """Make particles of equal weight from points of the relaxed space, which are rounded to contexts.

        Args:
            points: Points (n, m); of a box or a discrete space, contexts (n, d).

        Returns:
            The particles.
        """
        return Particles(self.round(points))

    def uniform(
        self, n: int, rng: np.random.Generator, ranges: Mapping[str, Any] | None = None, name: str = "ranges"
    ) -> Particles:
        """The uniform distribution.

        Args:
            n: The number of samples of a box.
            rng: The generator.
            ranges: The part of the space it is on, as `parts` takes it (default: the whole space).
            name: What the ranges are called in messages.

        Returns:
            n samples of a box; the whole support of a discrete space, or n points of it if it has more than 4,096 and
            than n; of integers and categories all combinations if there are at most n, else n samples in which each
            occurs equally often.

        Raises:
            InvalidInput: If the ranges have another form, or the space is discrete and there are some.
        """
        if ranges is None and not self.mixed:
            uniform = Particles.uniform
            if self.support is None:
                return uniform(self.low, self.high, n, rng)
            if len(self.support) <= max(LARGE, as_size(n)):
                return Particles(self.support)
            return Particles(self.support[as_rng(rng).choice(len(self.support), n, replace=False)])
        parts = self.parts(ranges, name)
        if self.support is not None:
            raise InvalidInput(
                f"expected {name} to be Particles on the support of a discrete context space, got ranges"
            )
        grid = kinds.grid_of(parts, as_size(n))
        if grid is not None:
            return Particles(grid)
        if not self.mixed:
            low, high = np.array(parts).T
            return Particles.uniform(low, high, n, rng)
        return Particles(kinds.uniform_in(parts, n, as_rng(rng)))

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw contexts uniformly.

        Args:
            n: How many.
            rng: The generator.

        Returns:
            Contexts (n, d).
        """
        if self.mixed:
            return kinds.uniform_in(self.parts(), as_size(n), as_rng(rng))
        if self.support is not None:
            return Particles(self.support).sample(rng, as_size(n))
        return self.uniform(n, rng).points

    def summary(self, particles: Particles) -> dict[str, float]:
        """Summarise a distribution.

        Args:
            particles: The distribution.

        Returns:
            For each number and integer "NAME mean" and "NAME std"; for each category its share, "NAME=CATEGORY".
        """
        check_instance(Particles, particles, "particles")
        relaxed = Particles(self.relax(particles.points), particles.weights)
        means, stds = relaxed.mean().tolist(), np.sqrt(np.diag(relaxed.cov())).tolist()
        places = [-1] * self.dim if self.one_hot is None else self.one_hot[1].tolist()
        lines: dict[str, float] = {}
        for name, place, mean, std in zip(self.relaxed.names, places, means, stds):
            lines |= {name: mean} if place >= 0 else {f"{name} mean": mean, f"{name} std": std}
        return lines


def _with_bounds(
    values: Sequence[Values], low: ArrayLike, high: ArrayLike
) -> tuple[list[Values], list[Any], list[Any]]:
    """What values can be, checked, and the bounds with those of integers and categories."""
    lower, upper = np.atleast_1d(low).tolist(), np.atleast_1d(high).tolist()
    if isinstance(values, str) or not isinstance(values, Sequence) or not len(values) == len(lower) == len(upper):
        raise InvalidInput(f"expected values of {len(lower)} context values, got {short_repr(values)}")
    checked = [kinds.as_values(each, "each of values") for each in values]
    for k, each in enumerate(checked):
        if each is not None:
            lower[k], upper[k] = (each[0], each[-1]) if isinstance(each, range) else (0, len(each) - 1)
    return checked, lower, upper


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
