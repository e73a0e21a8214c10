"""The distance between contexts whose values are numbers, integers and categories."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from geodesic.checks import FloatArray, as_name, as_points, as_positive, check_instance, is_number
from geodesic.contexts import ContextSpace
from geodesic.errors import InvalidInput, short_repr
from geodesic.metrics.base import Metric, check_endpoints
from geodesic.metrics.graph import Matrix


class Product(Metric):
    """The distance on a product of numbers, integers and categories.

        d(x, y)^2 = sum over the values k of d_k(x_k, y_k)^2

    By default, d_k is the difference in units of the value's range (in its own unit, if the range is infinite), and 0
    or 1 between categories. The cost is squared, as in W2.

    An atom moves along the geodesics of its values, and never leaves the space. Numbers move on a straight line.
    Between two integers or two categories there is nothing, so an atom is split there, as under `Graph`: from one
    category to another, at t, a fraction t of it has the new category and the rest the old one; with a distance matrix
    it goes through the categories on the shortest path in between. Integers are split between the two nearest, so that
    their mean moves at constant speed. If several values of an atom change, its parts move ahead together: there are at
    most one more of them than integers and categories.

    The speed is constant up to a step. With u_k the longest step of an integer or a category,
    | W2(path(s), path(t)) - |t - s| W2(source, target) | <= sqrt(sum_k u_k^2): in the space where integers are numbers
    and categories are joined by lines there is a geodesic of constant speed, and path(t) is within half of that of it.

    Args:
        space: The context space.
        distances: By the name of a value, the distance between its two bounds (1 unless stated), or between any two of
            its categories; for categories also a symmetric matrix of distances, in the order of the categories.

    Raises:
        InvalidInput: If a name is unknown, or a distance or a matrix is invalid.

    Example:
        >>> import geodesic as gd
        >>> space = gd.ContextSpace.of({"gravity": (0.0, 20.0), "opponent": ["passive", "random", "chaser"]})
        >>> metric = gd.metrics.Product(space, {"opponent": [[0, 1, 2], [1, 0, 1], [2, 1, 0]]})
        >>> easy, hard = (gd.Particles([space.encode({"gravity": g, "opponent": o})])
        ...               for g, o in ((4.0, "passive"), (12.0, "chaser")))
        >>> path = gd.Geodesic(easy, hard, metric)
        >>> path(0.75)  # half of the mass has reached the third opponent, the other half is at the second
        Particles(2 points, mean 10 ± 0, 1.5 ± 0.5)
    """

    def __init__(self, space: ContextSpace, distances: Mapping[str, ArrayLike] | None = None) -> None:
        self.space = check_instance(ContextSpace, space, "space")
        if space.support is not None:
            raise InvalidInput("expected a space of numbers, integers and categories, got one with a support")
        given = {} if distances is None else distances
        if not isinstance(given, Mapping):
            raise InvalidInput(f"expected distances as {{name: distance}}, got {short_repr(distances)}")
        for name in given:
            as_name(name, "a name in distances", space.names)
        sides = space.high - space.low
        units = np.where(np.isfinite(sides) & (sides > 0), sides, 1.0)
        self._tables: dict[int, Matrix] = {}  # of categories, by their column
        for column, (name, values) in enumerate(zip(space.names, space.values)):
            own = given.get(name, 1.0)
            if isinstance(values, tuple):
                self._tables[column] = _table(own, len(values), name)
            else:
                units[column] /= as_positive(own, f"the distance of {name}")
        self._numbers = np.array([k for k in range(space.dim) if k not in self._tables], dtype=np.intp)
        self._units = units[self._numbers]

    def pairwise(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Compute the distances (n, m) between contexts x (n, d) and y (m, d)."""
        return np.sqrt(self.plan_cost(x, y))

    def plan_cost(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Compute the squared distances (n, m) between contexts x (n, d) and y (m, d)."""
        from scipy.spatial.distance import cdist

        x, y = (as_points(points, "contexts", self.space.dim) for points in (x, y))
        cost = np.zeros((len(x), len(y)))
        if self._numbers.size:
            cost += cdist(x[:, self._numbers] / self._units, y[:, self._numbers] / self._units, "sqeuclidean")
        for column, table in self._tables.items():
            cost += table.pairwise(x[:, [column]], y[:, [column]]) ** 2
        return cost

    def interpolate(self, x: FloatArray, y: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
        """Find the parts (n, k, d) of the atom at t on each path from x (n, d) to y (n, d), and their fractions (n, k).

        A value that is between two integers or categories has the later one in the part of the atom that is ahead.
        """
        x, y, t = check_endpoints(as_points(x, "x", self.space.dim), y, t)
        before = (1 - t) * x + t * y
        after, ahead = before.copy(), np.zeros_like(before)
        for column, values in enumerate(self.space.values):
            if isinstance(values, range):
                place = (before[:, column] - values[0]) / values.step
                whole = np.rint(place)
                close = np.abs(place - whole) < 1e-9
                floor = np.where(close, whole, np.floor(place))
                before[:, column] = values[0] + values.step * floor
                ahead[:, column] = np.where(
                    close, 0.0, place - floor
                )  # or rounding would reach beyond the last integer
                after[:, column] = before[:, column] + values.step * (ahead[:, column] > 0)
            elif values is not None:
                nodes, fractions = self._tables[column].interpolate(x[:, [column]], y[:, [column]], t)
                before[:, column], after[:, column], ahead[:, column] = nodes[:, 0, 0], nodes[:, 1, 0], fractions[:, 1]
        return _split(before, after, ahead, sum(values is not None for values in self.space.values))


def _split(before: FloatArray, after: FloatArray, ahead: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
    """Split atoms so that a fraction `ahead` (n, d) of each has the values `after` (n, d), the rest `before` (n, d).

    The parts of an atom are ordered: each has all the later values of the one before it, and one more. At most k values
    of an atom differ.
    """
    order = np.argsort(-ahead, axis=1, kind="stable")
    levels = np.take_along_axis(ahead, order, axis=1)[:, :k]
    ranks = np.argsort(order, axis=1, kind="stable")
    ends = np.zeros((len(ahead), 1))
    fractions = np.concatenate([ends + 1.0, levels], axis=1) - np.concatenate([levels, ends], axis=1)
    moved = ranks[:, None, :] < np.arange(k + 1)[:, None]
    return np.where(moved, after[:, None], before[:, None]), fractions


def _table(given: ArrayLike, n: int, name: str) -> Matrix:
    """The distances between n categories."""
    if is_number(given):
        return Matrix(as_positive(given, f"the distance of {name}") * (1.0 - np.eye(n)))
    matrix = as_points(given, f"the distances of {name}", n)
    if len(matrix) != n:
        raise InvalidInput(f"expected the distances of {name} of shape ({n}, {n}), got shape {matrix.shape}")
    return Matrix(matrix)


def default_metric(space: ContextSpace | None) -> Metric | None:
    """The metric of a space for which none is stated; None: Euclidean."""
    return Product(space) if space is not None and space.mixed else None
