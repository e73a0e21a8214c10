"""Distances from what the agent earns: a Gaussian process for the return, and what is built on it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.checks import FloatArray, as_array, as_count, as_nonnegative, as_number, as_points, as_vector, check
from geodesic.contexts import ContextSpace, Episodes, as_bounded
from geodesic.errors import InvalidInput
from geodesic.metrics.base import latest
from geodesic.metrics.graph import Graph, Matrix

Returns = Callable[[FloatArray], FloatArray]  # contexts (n, d) -> expected returns (n,)

MEMORY = 200  # episodes that a fit looks at, the latest ones
ITERATIONS = 15  # of the hyperparameters' optimiser: a bound on the time of a fit
ENOUGH = 10  # pairs, below which hyperparameters stay at their first guess
LATTICE = 900  # nodes that cover the context space, up to so many dimensions:
EVEN = 3  # above, a lattice of so many nodes has three ticks a side or two, its corners
SCATTERED = 9  # log2 of the nodes that are scattered over a space of more dimensions, and of those between anchors


class ReturnModel:
    """J(c), the return to expect in a context: Gaussian-process regression on (context, return) pairs.

        J(c) = worst + GP(0, s^2 Matern_3/2(|c - c'|)) + noise

    Where nothing was seen, J is the worst return. Contexts are in units of their space, returns in units of the
    largest gain over the worst, so that one first guess of the hyperparameters serves every problem. Matern 3/2,
    because returns jump at walls. Returns that are all the worst, repeated contexts and empty buffers are fine.
    """

    def __init__(self, contexts: ArrayLike, returns: ArrayLike, space: ContextSpace, worst_return: float) -> None:
        self.space, self.worst = as_bounded(space, "space"), as_number(worst_return, "worst_return")
        given = as_array(contexts, "contexts")
        points = as_points(given, "contexts", space.dim) if given.size else np.zeros((0, space.dim))
        gains = as_vector(returns, "returns", len(points)) - self.worst
        self.unit = float(np.abs(gains).max(initial=0.0))
        self._process = _regress(space.to_unit(points), gains / self.unit) if self.unit > 0 else None

    def __call__(self, contexts: FloatArray) -> FloatArray:
        """Expected returns (n,) in contexts (n, d)."""
        if self._process is None:
            return np.full(len(contexts), self.worst)
        return np.asarray(self.worst + self.unit * self._process.predict(self.space.to_unit(contexts)))


def _regress(x: FloatArray, y: FloatArray) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    # A length of at most half a side, so that what was seen in one corner says nothing about the opposite one.
    kernel = ConstantKernel(0.5, (0.05, 5.0)) * Matern(0.2, (0.03, 0.5), nu=1.5) + WhiteKernel(0.02, (1e-4, 0.5))
    process = GaussianProcessRegressor(kernel, alpha=1e-8, optimizer=_improve if len(x) >= ENOUGH else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return process.fit(x, y)


def _improve(objective: Any, start: FloatArray, bounds: FloatArray) -> tuple[FloatArray, float]:
    """scikit-learn's own optimiser, stopped early: from the first guess only, so the same data give the same fit."""
    from scipy.optimize import minimize

    found = minimize(
        objective, start, method="L-BFGS-B", jac=True, bounds=bounds, options={"maxiter": ITERATIONS, "maxfun": 25}
    )
    return found.x, found.fun


class ReturnDifference:
    """d(c, c') = |J(c) - J(c')|, the paper's surrogate for the pi-contextual-distance.

    It is one-dimensional, so contexts of equal return collapse and there is no way between two contexts to follow:
    it only offers distances, which `Embedding` fits and `ReturnGap` takes as they are.
    """

    def __init__(self, returns: Returns) -> None:
        self.returns = returns

    def pairwise(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return np.abs(self.returns(x)[:, None] - self.returns(y)[None])


@dataclass(frozen=True)
class ReturnGap:
    """Recipe: d(c, c') = |J(c) - J(c')| between the points of a discrete space, J the return model of latest episodes.

    Contexts of equal return collapse, near or not: it is here to be compared with.
    """

    space: ContextSpace
    worst_return: float
    memory: int = MEMORY

    def __post_init__(self) -> None:
        check(self, space=as_bounded, worst_return=as_number, memory=as_count)
        if self.space.support is None:
            raise InvalidInput("expected a discrete context space, got a box; try ReturnLift")

    def fit(self, episodes: Episodes, rng: np.random.Generator, anchors: ArrayLike | None = None) -> GapMatrix:
        seen = latest(episodes, self.space, self.memory, rng)
        return GapMatrix(ReturnModel(seen.contexts, seen.returns, self.space, self.worst_return), self.space)


class GapMatrix(Matrix):
    """The return differences between all support points, and the returns that they are of."""

    def __init__(self, returns: Returns, space: ContextSpace) -> None:
        self.returns = returns
        support = lattice(space)
        super().__init__(ReturnDifference(returns).pairwise(support, support), support)


@dataclass(frozen=True)
class ReturnLift:
    """Recipe: shortest paths on the graph of J, the return model of the latest episodes.

    `lift` is how many sides of the context space a climb from the worst return to the threshold is worth.
    """

    space: ContextSpace
    worst_return: float
    threshold: float
    lift: float = 5.0
    neighbours: int = 16
    memory: int = MEMORY

    def __post_init__(self) -> None:
        check(self, space=as_bounded, worst_return=as_number, threshold=as_number, lift=as_nonnegative)
        check(self, neighbours=as_count, memory=as_count)
        if not self.threshold > self.worst_return:
            raise InvalidInput(f"expected a threshold above the worst return {self.worst_return}, got {self.threshold}")

    def fit(self, episodes: Episodes, rng: np.random.Generator, anchors: ArrayLike | None = None) -> LiftedGraph:
        seen = latest(episodes, self.space, self.memory, rng)
        returns = ReturnModel(seen.contexts, seen.returns, self.space, self.worst_return)
        ends = np.zeros((0, self.space.dim)) if anchors is None else as_points(anchors, "anchors", self.space.dim)
        beta = self.lift / (self.threshold - self.worst_return)
        return LiftedGraph(returns, self.space, ends, beta, self.neighbours)


class LiftedGraph(Graph):
    """Edges of length sqrt(|dx|^2 + beta^2 dJ^2) between neighbouring contexts.

    Strictly positive, unlike the return difference. A way that loses return and gains it back pays for both, so paths
    keep to contexts that the agent can solve, without being told which those are. Units: dx in sides of the context
    space; beta in sides per unit of return. Nodes are the given anchors (m, d), source and target points, so that those
    are met exactly, and what covers the space (`cover`); edges join each node with its nearest ones.
    """

    def __init__(
        self, returns: Returns, space: ContextSpace, anchors: FloatArray, beta: float, neighbours: int = 16
    ) -> None:
        self.returns = returns
        grid = cover(space, anchors)
        nodes = np.unique(np.concatenate([grid, anchors]), axis=0)
        scaled, levels = space.to_unit(nodes), returns(nodes)
        # Neighbours in the cover too: a dense cloud of anchors would otherwise be its own neighbourhood.
        edges = np.concatenate([_nearest(scaled, scaled, neighbours), _cover_edges(nodes, grid, space, neighbours)])
        i, j = edges.T
        steps = np.linalg.norm(scaled[i] - scaled[j], axis=1)
        super().__init__(nodes, edges, np.hypot(steps, beta * (levels[i] - levels[j])))


def cover(space: ContextSpace, anchors: FloatArray) -> FloatArray:
    """Contexts (n, d) that stand for the space: a lattice, or in many dimensions scattered ones and ways of anchors.

    No affordable number of points fills a box of seven dimensions; what a path needs are points on its way.
    """
    if space.support is not None or space.dim <= EVEN:
        return lattice(space)
    scattered = space.low + _quasi_random(space.dim) * (space.high - space.low)
    return np.concatenate([scattered, between(anchors)]) if len(anchors) else scattered


def between(anchors: FloatArray) -> FloatArray:
    """Points (n, d) on straight ways between pairs of anchors (m, d)."""
    pairs, shares = np.split(_quasi_random(3), [2], axis=1)
    i, j = (pairs * len(anchors)).astype(int).T
    return np.asarray(anchors[i] + shares * (anchors[j] - anchors[i]))


def _quasi_random(d: int) -> FloatArray:
    """Points (n, d) of the unit box that fill it evenly, the same at every call: Sobol's sequence."""
    from scipy.stats import qmc

    return np.asarray(qmc.Sobol(d, scramble=False).random_base2(SCATTERED))


def lattice(space: ContextSpace) -> FloatArray:
    """About 900 contexts in equal steps over the space, its borders included; the support of a discrete one."""
    if space.support is not None:
        return space.support
    ticks = max(2, int(LATTICE ** (1 / space.dim)))
    axes = [np.linspace(low, high, ticks) for low, high in zip(space.low, space.high)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, space.dim)


def _cover_edges(nodes: FloatArray, grid: FloatArray, space: ContextSpace, neighbours: int) -> NDArray[np.intp]:
    """Edges (m, 2) between each node and the covering nodes nearest to it."""
    from scipy.spatial import cKDTree

    rows = cKDTree(nodes).query(grid)[1]
    edges = _nearest(space.to_unit(nodes), space.to_unit(grid), neighbours)
    return np.stack([edges[:, 0], rows[edges[:, 1]]], axis=1)


def _nearest(x: FloatArray, y: FloatArray, k: int) -> NDArray[np.intp]:
    """Pairs (m, 2): each x with its k nearest in y; itself may be among them and counts as none."""
    from scipy.spatial import cKDTree

    count = min(k + 1, len(y))
    found = cKDTree(y).query(x, count)[1].reshape(len(x), count)
    return np.stack([np.repeat(np.arange(len(x)), count), found.ravel()], axis=1)
