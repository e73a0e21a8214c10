"""CURROT: curriculum reinforcement learning by constrained optimal transport (Klink et al., ICML 2022)."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import FloatArray, Particles
from geodesic.coupling.plans import cheapest
from geodesic.curricula.constrained import Constrained, ConstrainedState, Move
from geodesic.curricula.regression import CHUNK, NadarayaWatson
from geodesic.metrics.base import LearnedMetric, Metric
from geodesic.metrics.graph import Finite

SIDES = 100  # places that are tried around a particle
FRACTIONS = np.linspace(0.1, 1.0, 10)  # and on its way
TINY = 1e-300
ROWS = 64  # points whose distances to all of a large support are computed at once

Judge = Callable[[FloatArray], NDArray[np.bool_]]  # contexts (n, d) -> whether each is mastered


@dataclass(frozen=True)
class CURROT(Constrained):
    """Particles that approach the target, each as far as the agent's performance in its own context allows.

        min_p W2(p, target)   with J(c) >= threshold for all c in p and W(p, old) <= epsilon.

    Particles below the threshold go back to mastered contexts that an optimal assignment gives them. Then each goes to
    where it is nearest to the target sample assigned to it, among places at most epsilon away with J above the
    threshold: straight ahead if possible, else the best of 10 places on the way and 100 around it, so that it slides
    along the edge of what is mastered. If J is nowhere above, it goes to where J is highest. Buffers, regression and
    waiting are `Constrained`'s.

    On a discrete space with a metric, distances, assignments and the regression are the metric's. A particle goes to
    the mastered support point nearest to its goal, at most epsilon away in units of the longest distance from source
    to target. Under a `Graph` or a `Matrix` it goes at least as far as the longest step without which source and target
    are not connected; under another metric, none goes back to a context as far away as the longest of these distances.

    Differs from the paper: the trust region bounds each particle's move (W-infinity, hence W2, <= epsilon), which
    splits the problem into one per particle, as in the authors' code; Nadaraya-Watson replaces the Gaussian process;
    until half of the episodes on the first particles reach the threshold the curriculum waits, where the paper
    searches at random. Contexts are the particles themselves; the authors' code adds uniform noise of up to 0.001 of
    each side.

    Args:
        source: Contexts the agent can learn from at the start.
        target: The contexts to master.
        space: Where contexts live; bounded.
        threshold: The score that counts as mastered.
        epsilon: How far a particle may move at once, in diagonals of the space.
        episodes_per_update: How many episodes come between two updates.
        n_particles: How many particles there are.
        bandwidth: Of the kernel, in units of epsilon.
        metric: The distance on a discrete space; not used on a continuous one.
        score: The score of an episode that the performance is measured in.
    """

    colour: ClassVar[str | None] = "#000000"
    on_support: ClassVar[bool] = True
    metric: Metric | LearnedMetric | None = None

    @cached_property
    def table(self) -> SupportTable | Neighbourhoods | None:
        """The support under the metric; None where particles move along straight lines."""
        if self.space.support is None or not isinstance(self.metric, Metric):
            return None
        if isinstance(self.metric, Finite):
            return SupportTable(self.metric, self.source, self.target)
        return Neighbourhoods(self.metric, self.space.support, self.source, self.target)

    def step(self, state: ConstrainedState, model: NadarayaWatson, rng: np.random.Generator) -> Move:
        """Each particle on towards its goal, or back."""
        if self.table is not None:
            return self._hop(state, self.table, rng)
        points, goals, event = self._regrouped(state, model.predict(state.particles) < self.threshold, rng)
        return Move(self.advance(points, goals, model, rng), goals, event)

    def _regrouped(
        self, state: ConstrainedState, low: NDArray[np.bool_], rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, str]:
        """The particles (n, d) with the `low` ones back at mastered contexts, their goals (n, d), and the event."""
        points = state.particles
        if low.any():
            havens = self.havens(state, rng)
            if isinstance(self.table, Neighbourhoods):
                low = low & (self.table.lengths(points, havens) < 1.0)
            points = np.where(low[:, None], havens, points)
        event = f"moved, {int(low.sum())} of {len(low)} particles back" if low.any() else "moved"
        return points, self._paired(points, state.goals), event

    def advance(
        self, points: FloatArray, goals: FloatArray, model: NadarayaWatson, rng: np.random.Generator
    ) -> FloatArray:
        """Move each point by at most epsilon, as near to its goal as the model lets it.

        Args:
            points: Contexts (n, d).
            goals: The goal (n, d) of each.
            model: The expected score in a context.
            rng: Draws the candidates of points whose straight path is not good enough.

        Returns:
            The moved points (n, d).
        """
        far = np.linalg.norm(self.scaled(goals - points), axis=1)
        near = far <= self.epsilon
        ahead = np.where(near, 1.0, self.epsilon / np.where(near, 1.0, far))[:, None] * (goals - points)
        moved = np.where(near[:, None], goals, points + ahead)
        stuck = model.predict(moved) < self.threshold
        if stuck.any():
            moved[stuck] = self._around(points[stuck], goals[stuck], ahead[stuck], model, rng)
        return moved

    def _around(
        self, points: FloatArray, goals: FloatArray, ahead: FloatArray, model: NadarayaWatson, rng: np.random.Generator
    ) -> FloatArray:
        """The good place nearest to its goal for each point (n, d), no farther away than its step `ahead` (n, d).

        Places are on that step and in the ball around the point, in the goal's half of it if the point itself is good.
        """
        steps = self.scaled(ahead)
        reach = np.linalg.norm(steps, axis=1)[:, None, None]
        box = self.space.relaxed
        ball = _in_ball(SIDES, box.dim, rng)
        side = ball @ steps.T  # (SIDES, n)
        behind = (
            np.minimum(side, 0.0) * (model.predict(points) >= self.threshold) / np.maximum((steps**2).sum(axis=1), TINY)
        )
        offsets = np.concatenate(
            [reach * (ball - 2 * behind.T[:, :, None] * steps[:, None]), FRACTIONS[:, None] * steps[:, None]], axis=1
        )
        places = box.clip((points[:, None] + offsets * self.space.unit_length).reshape(-1, box.dim))
        values = model.predict(places).reshape(offsets.shape[:2])
        places = places.reshape(offsets.shape)
        left = np.linalg.norm(self.scaled(places - goals[:, None]), axis=2)
        left[values < self.threshold] = np.inf
        best = np.where(np.isfinite(left).any(axis=1), left.argmin(axis=1), values.argmax(axis=1))
        return np.asarray(places[np.arange(len(points)), best])

    def _hop(self, state: ConstrainedState, table: SupportTable | Neighbourhoods, rng: np.random.Generator) -> Move:
        """A step on a finite support."""
        kept, bandwidth = self.known(state), self.bandwidth * self.epsilon
        good = table.mastered(kept.contexts, kept.scores(self.score), bandwidth, self.threshold)
        points, goals, event = self._regrouped(state, ~good(state.particles), rng)
        return Move(table.onward(points, goals, good, self.epsilon), goals, event)

    def matched(self, points: FloatArray, others: FloatArray) -> NDArray[np.intp]:
        """The row of the one of the others (m, d) for each point (n, d) in an optimal assignment."""
        return super().matched(points, others) if self.table is None else self.table.matched(points, others)

    def distance(self, points: FloatArray, goals: FloatArray) -> float:
        """The root mean square of the distances between pairs: W2 where they are an optimal assignment."""
        if self.table is None:
            return super().distance(points, goals)
        return float(np.sqrt((self.table.lengths(points, goals) ** 2).mean()))


@dataclass(frozen=True, eq=False)
class SupportTable:
    """A finite support under a metric, with distances in units of the longest one from source to target.

    Args:
        metric: The metric, which knows all distances on its support.
        source: Where the particles start.
        target: Where they go.
    """

    metric: Finite
    source: Particles
    target: Particles

    @cached_property
    def ends(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The rows of the support where the source has mass, and where the target has."""
        index = self.metric.index
        return index(self.source.positive().points), index(self.target.positive().points)

    @cached_property
    def distances(self) -> FloatArray:
        """All distances (n, n)."""
        longest = self.metric.distances[np.ix_(*self.ends)].max()
        return self.metric.distances / (longest if longest > 0 else 1.0)

    def matched(self, points: FloatArray, others: FloatArray) -> NDArray[np.intp]:
        """The row of the one of the others (m, d) for each point (n, d), so that squared distances are least."""
        return cheapest(self.distances[np.ix_(self.metric.index(points), self.metric.index(others))] ** 2)

    def lengths(self, points: FloatArray, goals: FloatArray) -> FloatArray:
        """The distance (n,) of each point to its goal."""
        return self.distances[self.metric.index(points), self.metric.index(goals)]

    def estimate(self, contexts: FloatArray, scores: FloatArray, bandwidth: float) -> FloatArray:
        """The expected score (n,) at each support point: kernel regression under these distances."""
        return _regression(self.distances[:, self.metric.index(contexts)], scores, bandwidth)

    def mastered(self, contexts: FloatArray, scores: FloatArray, bandwidth: float, threshold: float) -> Judge:
        """Tells of points (n, d) whether the expected score there reaches the threshold."""
        good = self.estimate(contexts, scores, bandwidth) >= threshold
        return lambda points: good[self.metric.index(points)]

    @cached_property
    def stride(self) -> float:
        """The longest step without which source and target are not connected."""
        from scipy.sparse.csgraph import connected_components

        ends = np.concatenate(self.ends)
        lengths = np.unique(self.distances[np.isfinite(self.distances)])

        def joined(length: float) -> bool:
            return len(np.unique(connected_components(self.distances <= length, directed=False)[1][ends])) == 1

        return float(lengths[bisect.bisect_left(lengths[:-1], True, key=joined)])

    def onward(self, points: FloatArray, goals: FloatArray, good: Judge, epsilon: float) -> FloatArray:
        """For each point the good support point (n, d) nearest to its goal, at most epsilon or a stride away.

        The point itself if none is nearer to the goal. Ties go to the one nearest to the point.
        """
        here, goal = self.metric.index(points), self.metric.index(goals)
        away = self.distances[here]
        allowed = good(self.metric.support) & (away <= max(epsilon, self.stride) * (1 + 1e-9))
        left = np.where(allowed, self.distances[:, goal].T, np.inf)
        nearest = np.where(left <= left.min(axis=1, keepdims=True), away, np.inf).argmin(axis=1)
        better = left[np.arange(len(here)), nearest] < self.distances[here, goal]
        return np.asarray(self.metric.support[np.where(better, nearest, here)])


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """A support with too many points for a table of all distances; these are in the units of `SupportTable`.

    Args:
        metric: The distance.
        support: The contexts (n, d).
        source: Where the particles start.
        target: Where they go.
    """

    metric: Metric
    support: FloatArray
    source: Particles
    target: Particles
    _near: dict[bytes, NDArray[np.intp]] = field(default_factory=dict)  # rows of the support, by point

    @cached_property
    def unit(self) -> float:
        """The longest distance from source to target."""
        longest = self.metric.pairwise(self.source.positive().points, self.target.positive().points).max()
        return float(longest) if longest > 0 else 1.0

    def lengths(self, points: FloatArray, goals: FloatArray) -> FloatArray:
        """The distance (n,) of each point to its goal."""
        return np.diagonal(self.metric.pairwise(points, goals)) / self.unit

    def matched(self, points: FloatArray, others: FloatArray) -> NDArray[np.intp]:
        """The row of the one of the others (m, d) for each point (n, d), so that squared distances are least."""
        return cheapest(self.metric.pairwise(points, others) ** 2)

    def mastered(self, contexts: FloatArray, scores: FloatArray, bandwidth: float, threshold: float) -> Judge:
        """Tells of points (n, d) whether the expected score there reaches the threshold."""

        def good(points: FloatArray) -> NDArray[np.bool_]:
            blocks = np.array_split(points, max(1, len(points) * len(contexts) // CHUNK))
            distances = (self.metric.pairwise(block, contexts) / self.unit for block in blocks)
            return np.concatenate([_regression(each, scores, bandwidth) for each in distances]) >= threshold

        return good

    def neighbours(self, points: FloatArray, epsilon: float) -> list[NDArray[np.intp]]:
        """The rows of the support at most epsilon away from each point (n, d)."""
        keys = [point.tobytes() for point in points]
        new = {key: point for key, point in zip(keys, points) if key not in self._near}
        for start in range(0, len(new), ROWS):
            part = list(new)[start : start + ROWS]
            away = self.metric.pairwise(np.array([new[key] for key in part]), self.support)
            near = away <= epsilon * (1 + 1e-9) * self.unit
            self._near.update((key, np.flatnonzero(row)) for key, row in zip(part, near))
        return [self._near[key] for key in keys]

    def onward(self, points: FloatArray, goals: FloatArray, good: Judge, epsilon: float) -> FloatArray:
        """For each point the good support point (n, d) nearest to its goal, at most epsilon away.

        The point itself if none is nearer to the goal. Ties go to the one nearest to the point.
        """
        ranked = []
        for point, goal, rows in zip(points, goals, self.neighbours(points, epsilon)):
            left, away = self.metric.pairwise(np.stack([goal, point]), self.support[rows])
            order = np.lexsort((away, left))
            closer = left[order] < self.metric.pairwise(goal[None], point[None])[0, 0]
            ranked.append(rows[order[closer]])
        asked = np.unique(np.concatenate(ranked))
        known = np.zeros(len(self.support), bool)
        known[asked] = good(self.support[asked])
        moved = points.copy()
        for i, rows in enumerate(ranked):
            allowed = rows[known[rows]]
            if len(allowed):
                moved[i] = self.support[allowed[0]]
        return moved


def _regression(distances: FloatArray, scores: FloatArray, bandwidth: float) -> FloatArray:
    """The expected score (n,) at points with these distances (n, m) to contexts with these scores (m,)."""
    log_kernel = -0.5 * (distances / bandwidth) ** 2
    kernel = np.exp(log_kernel - log_kernel.max(axis=1, keepdims=True))
    return np.asarray(kernel @ scores / kernel.sum(axis=1))


def _in_ball(n: int, d: int, rng: np.random.Generator) -> FloatArray:
    """Points (n, d) uniform in the unit ball."""
    directions = rng.standard_normal((n, d))
    return np.asarray(directions / np.linalg.norm(directions, axis=1, keepdims=True) * rng.random((n, 1)) ** (1 / d))
