"""What transport needs from a distance between contexts, and curricula from a learned one; straight lines."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from geodesic.checks import as_array, as_fraction, as_points, as_vector, within
from geodesic.contexts import ContextSpace, EpisodeBatch, FloatArray
from geodesic.errors import InvalidInput, short_repr


@runtime_checkable
class Metric(Protocol):
    """A distance between contexts, with a shortest path between any two of them.

    To write your own, subclass it and implement `pairwise`. The other methods then describe straight lines at constant
    speed under the squared cost, as in `Euclidean`. Override them if your paths bend. A distance on finitely many
    contexts is a `Matrix` or a `Graph`.

    Example:
        >>> import numpy as np
        >>> import geodesic as gd
        >>> class Manhattan(gd.metrics.Metric):
        ...     def pairwise(self, x, y):
        ...         return np.abs(x[:, None] - y).sum(axis=2)
        >>> gd.wasserstein(gd.Particles([[0.0, 0.0]]), gd.Particles([[3.0, 4.0]]), Manhattan())
        7.0
    """

    @abstractmethod
    def pairwise(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Compute all distances between two sets of contexts.

        Args:
            x: Contexts (n, d).
            y: Contexts (m, d).

        Returns:
            Distances (n, m).
        """

    def plan_cost(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Compute the cost whose optimal plan moves mass along this metric's geodesics.

        Args:
            x: Contexts (n, d).
            y: Contexts (m, d).

        Returns:
            Costs (n, m); by default the squared distances.
        """
        return np.asarray(self.pairwise(x, y) ** 2)

    def interpolate(self, x: FloatArray, y: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
        """Move mass along the shortest paths between pairs of contexts.

        Args:
            x: Starts (n, d) of the paths.
            y: Ends (n, d) of the paths.
            t: How much of each path is behind the mass, in [0, 1].

        Returns:
            The points (n, k, d) that hold the mass of each path, and its fractions (n, k) at these points. By default
            there is one point, on the straight line.
        """
        x, y, t = check_endpoints(x, y, t)
        return ((1 - t) * x + t * y)[:, None, :], np.ones((len(x), 1))

    def length(self, distances: FloatArray, mass: FloatArray) -> float:
        """Compute the length of a transport plan.

        Args:
            distances: How far (n,) each atom of the plan moves.
            mass: The mass (n,) of each atom.

        Returns:
            The length; by default the root of the mean square, as in W2.
        """
        return float(np.sqrt(mass @ distances**2))


class Euclidean(Metric):
    """The straight-line distance d(x, y) = |(x - y) / scale|.

    Geodesics are those of W2: the cost is squared, and mass moves on straight lines at constant speed.

    Args:
        scale: The unit of each dimension (d,), or one for all (default: 1).

    Raises:
        InvalidInput: If a scale is not positive.

    Example:
        >>> import numpy as np
        >>> from geodesic.metrics import Euclidean
        >>> Euclidean(scale=[1.0, 10.0]).pairwise(np.array([[0.0, 0.0]]), np.array([[3.0, 40.0]]))
        array([[5.]])
    """

    def __init__(self, scale: ArrayLike | None = None) -> None:
        self.scale = None if scale is None else as_vector(np.atleast_1d(as_array(scale, "scale")), "scale")
        if self.scale is not None and (self.scale <= 0).any():
            raise InvalidInput(f"expected scale to be positive, got {self.scale}")

    def coordinates(self, x: FloatArray) -> FloatArray:
        """Divide contexts by the scale.

        Args:
            x: Contexts (n, d).

        Returns:
            The contexts (n, d) in units of the scale.

        Raises:
            InvalidInput: If their dimension is not that of the scale.
        """
        dim = None if self.scale is None or self.scale.size == 1 else self.scale.size
        points = as_points(x, "contexts", dim)
        return points if self.scale is None else within(np.asarray(points / self.scale), "contexts in units of scale")

    def pairwise(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Compute the distances (n, m) between contexts x (n, d) and y (m, d)."""
        return self._distances(x, y, "euclidean")

    def plan_cost(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Compute the squared distances (n, m) between contexts x (n, d) and y (m, d)."""
        return self._distances(x, y, "sqeuclidean")

    def _distances(self, x: FloatArray, y: FloatArray, kind: str) -> FloatArray:
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(self.coordinates(x), self.coordinates(y), kind))


@runtime_checkable
class LearnedMetric(Protocol):
    """A metric that is fitted to episodes; curricula refit it while training.

    To write your own, implement these members. Fit to `episodes.scores(kind)`, with the score of your task.
    """

    @property
    def space(self) -> ContextSpace:
        """The space the contexts live in."""

    @property
    def memory(self) -> int:
        """The number of most recent episodes that a fit uses."""

    def fit(self, episodes: EpisodeBatch, rng: np.random.Generator, anchors: ArrayLike | None = None) -> Metric:
        """Fit a metric to episodes.

        Args:
            episodes: Finished episodes, oldest first; there may be none.
            rng: The source of randomness.
            anchors: Contexts (n, d) whose distances matter most, such as the points of source and target.

        Returns:
            The fitted metric.
        """


@runtime_checkable
class Fitted(Metric, Protocol):
    """A metric fitted to episodes, with the model of their scores that it was fitted to."""

    def returns(self, contexts: FloatArray) -> FloatArray:
        """Predict the scores (n,) in contexts (n, d)."""


def check_endpoints(x: FloatArray, y: FloatArray, t: float) -> tuple[FloatArray, FloatArray, float]:
    """Validate starts (n, d) and ends (n, d) of paths, and the position t on them."""
    starts = as_points(x, "x")
    ends = as_points(y, "y", starts.shape[1])
    if len(starts) != len(ends):
        raise InvalidInput(f"expected as many points in y as in x, got {len(ends)} and {len(starts)}")
    return starts, ends, as_fraction(t, "t")


def as_any_metric(value: object, name: str = "metric") -> Metric | LearnedMetric:
    """Validate that a value is a metric, or one that can be learned."""
    if isinstance(value, type) or not isinstance(value, (Metric, LearnedMetric)):
        raise InvalidInput(f"expected {name} to be a Metric or a LearnedMetric, got {short_repr(value)}")
    return value
