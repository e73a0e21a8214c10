"""What a distance between contexts has to offer so that transport can use it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.checks import as_a, as_points, as_rng, as_share
from geodesic.contexts import ContextSpace, Episodes, FloatArray
from geodesic.errors import InvalidInput, shown


@runtime_checkable
class Metric(Protocol):
    """A distance that also knows the way between two contexts, so that solvers need not know which one it is."""

    def pairwise(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Distances (n, m) between contexts x (n, d) and y (m, d)."""

    def plan_cost(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """The cost (n, m) whose optimal plan carries this metric's geodesics."""

    def interpolate(self, x: FloatArray, y: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
        """Where mass lies at t on the way from x (n, d) to y (n, d): points (n, k, d) and shares (n, k)."""

    def length(self, distances: FloatArray, mass: FloatArray) -> float:
        """The length of a plan from the distances (n,) of its atoms and their mass (n,)."""


@runtime_checkable
class Flat(Metric, Protocol):
    """A metric that is the Euclidean distance between coordinates, and whose plan cost is its square.

    Transport then needs no cost matrix: it sorts in one dimension and partitions space in more.
    """

    def coordinates(self, x: FloatArray) -> FloatArray:
        """Contexts (n, d) in the coordinates (n, k) that are compared."""


@runtime_checkable
class Discrete(Metric, Protocol):
    """A metric on a finite support; distributions under it are categorical."""

    support: FloatArray

    def index(self, x: FloatArray) -> NDArray[np.intp]:
        """Row of the nearest support point for each context (n, d)."""


@runtime_checkable
class Recipe(Protocol):
    """How a metric is fitted to what the agent has earned; curricula refit it on their way."""

    @property
    def space(self) -> ContextSpace:
        """Where contexts live."""

    @property
    def memory(self) -> int:
        """How many of the latest episodes a fit looks at."""

    def fit(self, episodes: Episodes, rng: np.random.Generator, anchors: ArrayLike | None = None) -> Metric:
        """The metric that these episodes give. anchors (n, d): contexts that it must tell apart exactly."""


@runtime_checkable
class Fitted(Metric, Protocol):
    """A metric that a recipe made: it keeps the return it was fitted to."""

    def returns(self, contexts: FloatArray) -> FloatArray:
        """Expected returns (n,) in contexts (n, d)."""


def as_ways(x: FloatArray, y: FloatArray, t: float) -> tuple[FloatArray, FloatArray, float]:
    """Both ends (n, d) of as many ways, and the share of them that is gone."""
    starts = as_points(x, "x")
    ends = as_points(y, "y", starts.shape[1])
    if len(starts) != len(ends):
        raise InvalidInput(f"expected as many points in y as in x, got {len(ends)} and {len(starts)}")
    return starts, ends, as_share(t, "t")


def as_metric(value: object, name: str = "metric") -> Metric:
    return as_a(Metric, value, name)  # type: ignore[type-abstract]


def as_metric_or_recipe(value: object, name: str = "metric") -> Metric | Recipe:
    if isinstance(value, type) or not isinstance(value, (Metric, Recipe)):
        raise InvalidInput(f"expected {name} to be a Metric or a Recipe, got {shown(value)}")
    return value


def latest(episodes: Episodes, space: ContextSpace, memory: int, rng: np.random.Generator) -> Episodes:
    """The last of the episodes that a recipe is to be fitted to, if they and the generator are what they should be."""
    as_rng(rng)
    dim = as_a(Episodes, episodes, "episodes").contexts.shape[1]
    if len(episodes) and dim != space.dim:
        raise InvalidInput(f"expected episodes in contexts of dimension {space.dim}, got dimension {dim}")
    return episodes[-memory:]
