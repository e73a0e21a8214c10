"""Metrics learned from the agent's scores: a Gaussian-process model of the score, and the distances built on it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from geodesic.checks import (
    Count,
    NonNegative,
    Number,
    as_number,
    as_points,
    as_rng,
    as_vector,
    check_fields,
    check_instance,
)
from geodesic.contexts import BoundedSpace, ContextSpace, EpisodeBatch, FloatArray, Score, as_bounded
from geodesic.coupling.plans import IndexArray
from geodesic.errors import InvalidInput
from geodesic.metrics.graph import Graph, Matrix

Returns = Callable[[FloatArray], FloatArray]  # contexts (n, d) -> expected scores (n,)

MEMORY = 200  # most recent episodes that a fit uses
ITERATIONS = 15  # of the optimiser of the kernel's hyperparameters: bounds the time of a fit
ENOUGH = 10  # episodes; with fewer, the hyperparameters keep their initial values
LATTICE = 900  # nodes of the lattice that covers the context space
EVEN = 3  # dimensions up to which it does: with more, so few nodes leave two or three per side, the corners
SCATTERED = 9  # log2 of the nodes scattered over a space of more dimensions, and of those between anchors


class ReturnModel:
    """The expected score J(c) in a context, by Gaussian-process regression on (context, score) pairs.

        J(c) = worst + GP(0, s^2 Matern_3/2(|c - c'|)) + noise

    Far from all data, J is the worst return. Contexts are in units of their space and scores in units of the largest
    gain over the worst, so that the same initial hyperparameters fit every problem. The kernel is Matern 3/2 because
    returns jump at walls. Equal scores, repeated contexts and an empty buffer are allowed.

    Args:
        contexts: Contexts (n, d).
        returns: The score (n,) of the episode in each context.
        space: The bounded space of the contexts.
        worst_return: The lowest score an episode can have.

    Raises:
        InvalidInput: If the shapes do not match or the space is unbounded.
    """

    def __init__(self, contexts: ArrayLike, returns: ArrayLike, space: ContextSpace, worst_return: float) -> None:
        self.space, self.worst = as_bounded(space, "space"), as_number(worst_return, "worst_return")
        points = as_points(contexts, "contexts", space.dim) if np.size(contexts) else np.zeros((0, space.dim))
        gains = as_vector(returns, "returns", len(points)) - self.worst
        self.unit = float(np.abs(gains).max(initial=0.0))
        self._process = _regress(space.to_unit(points), gains / self.unit) if self.unit > 0 else None

    def __call__(self, contexts: FloatArray) -> FloatArray:
        """Predict the scores (n,) in contexts (n, d)."""
        if self._process is None:
            return np.full(len(contexts), self.worst)
        return np.asarray(self.worst + self.unit * self._process.predict(self.space.to_unit(contexts)))


def _regress(x: FloatArray, y: FloatArray) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    # Lengths are at most half a side, so that data from one corner say nothing about the opposite one.
    kernel = ConstantKernel(0.5, (0.05, 5.0)) * Matern(0.2, (0.03, 0.5), nu=1.5) + WhiteKernel(0.02, (1e-4, 0.5))
    process = GaussianProcessRegressor(kernel, alpha=1e-8, optimizer=_improve if len(x) >= ENOUGH else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return process.fit(x, y)


def _improve(objective: Any, start: FloatArray, bounds: FloatArray) -> tuple[FloatArray, float]:
    """scikit-learn's own optimiser, stopped early and started once, so that the same data give the same fit."""
    from scipy.optimize import minimize

    options = {"maxiter": ITERATIONS, "maxfun": 25}
    found = minimize(objective, start, method="L-BFGS-B", jac=True, bounds=bounds, options=options)
    return found.x, found.fun


def return_differences(returns: Returns, contexts: FloatArray) -> FloatArray:
    """Compute d(c, c') = |J(c) - J(c')| (n, n) of contexts (n, d): the paper's surrogate for the contextual distance.

    It is one-dimensional: contexts of equal return collapse, and no path leads from one context to another. So it has
    distances only, which `Embedding` fits and `ReturnGap` uses directly.
    """
    scores = returns(contexts)
    return np.abs(scores[:, None] - scores)


@dataclass(frozen=True)
class ReturnMetric:
    """What metrics that are learned from scores have in common.

    Args:
        space: The bounded context space.
        worst_return: The lowest score an episode can have.
        memory: The number of most recent episodes that a fit uses.
        score: The score that is modelled: "return", "discounted_return" or "success".
    """

    space: BoundedSpace
    worst_return: Number
    _: KW_ONLY
    memory: Count = MEMORY
    score: Score = "return"

    def __post_init__(self) -> None:
        check_fields(self)

    def model(self, episodes: EpisodeBatch, rng: np.random.Generator) -> ReturnModel:
        """Fit the model of scores to the most recent episodes.

        Args:
            episodes: Finished episodes, oldest first.
            rng: The generator of the metric's fit; only validated here.

        Returns:
            The model.

        Raises:
            InvalidInput: If the episodes have contexts of another dimension, or not this score.
        """
        as_rng(rng)
        dim = check_instance(EpisodeBatch, episodes, "episodes").contexts.shape[1]
        if len(episodes) and dim != self.space.dim:
            raise InvalidInput(f"expected episodes in contexts of dimension {self.space.dim}, got dimension {dim}")
        recent = episodes[-self.memory :]
        return ReturnModel(recent.contexts, recent.scores(self.score), self.space, self.worst_return)


@dataclass(frozen=True)
class ReturnGap(ReturnMetric):
    """Learned: d(c, c') = |J(c) - J(c')| between the points of a discrete space, J the model of recent scores.

    Contexts of equal score collapse, however far apart they are. Use it as a baseline.

    Args:
        space: The discrete context space.
        worst_return: The lowest score an episode can have.
        memory: The number of most recent episodes that a fit uses.
        score: The score that J models: "return", "discounted_return" or "success".

    Raises:
        InvalidInput: If the space is a box, or an option is invalid.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.space.support is None:
            raise InvalidInput("expected a discrete context space, got a box; try ReturnLift")

    def fit(self, episodes: EpisodeBatch, rng: np.random.Generator, anchors: ArrayLike | None = None) -> GapMatrix:
        """Fit the model to episodes; see `LearnedMetric.fit`. Anchors are not needed on a discrete space."""
        return GapMatrix(self.model(episodes, rng), self.space)


class GapMatrix(Matrix):
    """The score differences between all points of a discrete space, with the model they come from.

    Args:
        returns: The model J: contexts (n, d) -> scores (n,).
        space: The discrete context space.
    """

    def __init__(self, returns: Returns, space: ContextSpace) -> None:
        self.returns = returns
        support = lattice(space)
        super().__init__(return_differences(returns, support), support)


@dataclass(frozen=True)
class ReturnLift(ReturnMetric):
    """Learned: shortest paths on the graph of J, the model of recent scores.

    Args:
        space: The bounded context space.
        worst_return: The lowest score an episode can have.
        threshold: The score above which a stage is mastered.
        lift: How many sides of the context space the climb from the worst return to the threshold is worth.
        neighbours: The number of nearest nodes that each node is connected with.
        memory: The number of most recent episodes that a fit uses.
        score: The score that J models: "return", "discounted_return" or "success".

    Raises:
        InvalidInput: If the threshold is not above the worst return, contexts have integers or categories, or an
            option is invalid.
    """

    threshold: Number
    lift: NonNegative = 5.0
    neighbours: Count = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.space.mixed:
            raise InvalidInput("expected numbers as contexts, got integers or categories; try Embedding or Product")
        if not self.threshold > self.worst_return:
            raise InvalidInput(f"expected a threshold above the worst return {self.worst_return}, got {self.threshold}")

    def fit(self, episodes: EpisodeBatch, rng: np.random.Generator, anchors: ArrayLike | None = None) -> LiftedGraph:
        """Fit the model to episodes and build the graph; see `LearnedMetric.fit`. Anchors become nodes."""
        returns = self.model(episodes, rng)
        ends = np.zeros((0, self.space.dim)) if anchors is None else as_points(anchors, "anchors", self.space.dim)
        beta = self.lift / (self.threshold - self.worst_return)
        return LiftedGraph(returns, self.space, ends, beta, self.neighbours)


class LiftedGraph(Graph):
    """Edges of length sqrt(|dx|^2 + beta^2 dJ^2) between neighbouring contexts.

    Unlike the return difference it is strictly positive. A path that loses return and regains it pays for both, so
    shortest paths keep to contexts that the agent can solve, without a test of feasibility. The nodes are the anchors,
    which paths then meet exactly, and contexts that cover the space (`cover`).

    Args:
        returns: The model J: contexts (n, d) -> scores (n,).
        space: The bounded context space; dx is in units of its sides.
        anchors: Contexts (m, d) that become nodes: the points of source and target.
        beta: Sides of the context space per unit of return.
        neighbours: The number of nearest nodes that each node is connected with.
    """

    def __init__(
        self, returns: Returns, space: ContextSpace, anchors: FloatArray, beta: float, neighbours: int = 16
    ) -> None:
        self.returns = returns
        grid = cover(space, anchors)
        nodes, rows = np.unique(np.concatenate([grid, anchors]), axis=0, return_inverse=True)
        every, covering = np.arange(len(nodes)), rows.ravel()[: len(grid)]
        scaled, levels = space.to_unit(nodes), returns(nodes)
        # Edges to the cover too: the nearest nodes of a dense cloud of anchors are all in the cloud.
        edges = np.concatenate([_nearest(scaled, to, neighbours) for to in (every, covering)])
        i, j = edges.T
        steps = np.linalg.norm(scaled[i] - scaled[j], axis=1)
        super().__init__(nodes, edges, np.hypot(steps, beta * (levels[i] - levels[j])))


def cover(space: ContextSpace, anchors: FloatArray) -> FloatArray:
    """Cover the space with contexts (n, d): a lattice or, in many dimensions, scattered points and lines of anchors.

    No affordable number of points fills a box of seven dimensions, but a path only needs points along it.
    """
    if space.support is not None or space.dim <= EVEN:
        return lattice(space)
    scattered = space.low + _quasi_random(space.dim) * (space.high - space.low)
    if not len(anchors):
        return scattered
    pairs, fractions = np.split(_quasi_random(3), [2], axis=1)
    i, j = (pairs * len(anchors)).astype(int).T
    return np.concatenate([scattered, anchors[i] + fractions * (anchors[j] - anchors[i])])


def _quasi_random(d: int) -> FloatArray:
    """Points (n, d) that fill the unit box evenly, the same at every call: Sobol's sequence."""
    from scipy.stats import qmc

    return np.asarray(qmc.Sobol(d, scramble=False).random_base2(SCATTERED))


def lattice(space: ContextSpace) -> FloatArray:
    """Spread about 900 contexts over the space in equal steps, borders included; a discrete space keeps its support."""
    if space.support is not None:
        return space.support
    ticks = max(2, int(LATTICE ** (1 / space.dim)))
    axes = [np.linspace(low, high, ticks) for low, high in zip(space.low, space.high)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, space.dim)


def _nearest(x: FloatArray, among: IndexArray, k: int) -> IndexArray:
    """Edges (m, 2) from each x to the k nearest of the x at some rows, besides itself."""
    from scipy.spatial import cKDTree

    count = min(k + 1, len(among))
    found = among[cKDTree(x[among]).query(x, count)[1]]
    return np.stack([np.repeat(np.arange(len(x)), count), found.ravel()], axis=1)
