"""CURROT: curriculum reinforcement learning by constrained optimal transport (Klink et al., ICML 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import FloatArray
from geodesic.curricula.constrained import SHARES, Constrained, ConstrainedState, Move
from geodesic.curricula.regression import NadarayaWatson
from geodesic.curricula.table import Table
from geodesic.metrics.base import Metric, Recipe
from geodesic.metrics.graph import Finite


@dataclass(frozen=True)
class CURROT(Constrained):
    """Particles that approach the target, each as far as the agent's performance in its own context allows.

        min_p W2(p, target)   with J(c) >= threshold for all c in p and W(p, old) <= epsilon.

    Particles below the threshold go back to mastered contexts that an optimal assignment gives them; the others go
    straight towards the target sample assigned to them, at most epsilon far and only while J stays above the
    threshold. Buffers, regression and waiting are `Constrained`'s.

    On a discrete space with a metric, distances, assignments and the regression are the metric's, and a particle goes
    to the mastered support point nearest to its goal, among those at most epsilon away, in units of the longest way
    from source to target, or as far as the longest step that cannot be done without.

    Differs from the paper: the trust region bounds each particle's move (W-infinity, hence W2, <= epsilon), which
    splits the problem into one line search per particle; Nadaraya-Watson replaces the Gaussian process; until the
    mean return on the first particles reaches the threshold the curriculum waits, where the paper searches at random.
    """

    on_support: ClassVar[bool] = True
    metric: Metric | Recipe | None = None

    @cached_property
    def table(self) -> Table | None:
        """What a metric says of a finite support; without one, straight lines."""
        if self.space.support is None or not isinstance(self.metric, Finite):
            return None
        return Table(self.metric, self.source, self.target)

    def step(self, state: ConstrainedState, model: NadarayaWatson, rng: np.random.Generator) -> Move:
        if self.table is not None:
            return self.hop(state, self.table, rng)
        points, goals, event = self.regrouped(state, model.predict(state.particles) < self.threshold, rng)
        return Move(self.advance(points, goals, model), goals, event)

    def regrouped(
        self, state: ConstrainedState, low: NDArray[np.bool_], rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, str]:
        """The particles (n, d) with those that are `low` back at their havens, their goals (n, d), and why."""
        points = np.where(low[:, None], self.havens(state, rng), state.particles) if low.any() else state.particles
        event = f"moved, {int(low.sum())} of {len(low)} particles back" if low.any() else "moved"
        return points, self.paired(points, state.goals), event

    def advance(self, points: FloatArray, goals: FloatArray, model: NadarayaWatson) -> FloatArray:
        """Each point (n, d) moved towards its goal (n, d), by at most epsilon, while the model stays above."""
        way = goals - points
        far = np.linalg.norm(self.scaled(way), axis=1)
        reach = np.minimum(1.0, self.epsilon / np.maximum(far, 1e-300))
        shares = reach[:, None] * SHARES
        probes = points[:, None] + shares[:, :, None] * way[:, None]
        probes[reach == 1.0, -1] = goals[reach == 1.0]
        n, m, d = probes.shape
        good = model.predict(probes.reshape(n * m, d)).reshape(n, m) >= self.threshold
        steps = np.logical_and.accumulate(good, axis=1).sum(axis=1)
        return np.asarray(probes[np.arange(n), np.maximum(steps - 1, 0)])

    def hop(self, state: ConstrainedState, table: Table, rng: np.random.Generator) -> Move:
        """The step on a finite support."""
        kept = self.known(state)
        good = table.estimate(kept.contexts, kept.returns, self.width * self.epsilon) >= self.threshold
        points, goals, event = self.regrouped(state, ~good[table.metric.index(state.particles)], rng)
        return Move(table.onward(points, goals, good, self.epsilon), goals, event)

    def matched(self, points: FloatArray, others: FloatArray) -> NDArray[np.intp]:
        return super().matched(points, others) if self.table is None else self.table.matched(points, others)

    def distance(self, points: FloatArray, goals: FloatArray) -> float:
        if self.table is None:
            return super().distance(points, goals)
        here, there = (self.table.metric.index(side) for side in (points, goals))
        return float(np.sqrt((self.table.distances[here, there] ** 2).mean()))
