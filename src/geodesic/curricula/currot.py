"""CURROT: curriculum reinforcement learning by constrained optimal transport (Klink et al., ICML 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import FloatArray
from geodesic.curricula.constrained import Constrained, ConstrainedState, Move
from geodesic.curricula.regression import NadarayaWatson
from geodesic.curricula.table import Table
from geodesic.metrics.base import Metric, Recipe
from geodesic.metrics.graph import Finite

SIDES = 100  # places looked at beside a particle's way
SHARES = np.linspace(0.1, 1.0, 10)  # and on it
TINY = 1e-300


@dataclass(frozen=True)
class CURROT(Constrained):
    """Particles that approach the target, each as far as the agent's performance in its own context allows.

        min_p W2(p, target)   with J(c) >= threshold for all c in p and W(p, old) <= epsilon.

    Particles below the threshold go back to mastered contexts that an optimal assignment gives them. Then each goes to
    where it is nearest to the target sample assigned to it, among places at most epsilon away with J above the
    threshold: straight on if it can, else the best of 10 on the way and 100 to its sides, so that it slides along the
    edge of what is mastered. Where J is nowhere above, it goes to where J is highest. Buffers, regression and waiting
    are `Constrained`'s.

    On a discrete space with a metric, distances, assignments and the regression are the metric's, and a particle goes
    to the mastered support point nearest to its goal, among those at most epsilon away, in units of the longest way
    from source to target, or as far as the longest step that cannot be done without.

    Differs from the paper: the trust region bounds each particle's move (W-infinity, hence W2, <= epsilon), which
    splits the problem into one per particle, as in the authors' code; Nadaraya-Watson replaces the Gaussian process;
    until half of the episodes on the first particles reach the threshold the curriculum waits, where the paper
    searches at random.
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
        return Move(self.advance(points, goals, model, rng), goals, event)

    def regrouped(
        self, state: ConstrainedState, low: NDArray[np.bool_], rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, str]:
        """The particles (n, d) with those that are `low` back at their havens, their goals (n, d), and why."""
        points = np.where(low[:, None], self.havens(state, rng), state.particles) if low.any() else state.particles
        event = f"moved, {int(low.sum())} of {len(low)} particles back" if low.any() else "moved"
        return points, self.paired(points, state.goals), event

    def advance(
        self, points: FloatArray, goals: FloatArray, model: NadarayaWatson, rng: np.random.Generator
    ) -> FloatArray:
        """Each point (n, d) moved by at most epsilon, as near to its goal (n, d) as the model lets it."""
        far = np.linalg.norm(self.scaled(goals - points), axis=1)
        near = far <= self.epsilon
        ahead = np.where(near, 1.0, self.epsilon / np.where(near, 1.0, far))[:, None] * (goals - points)
        moved = np.where(near[:, None], goals, points + ahead)
        stuck = model.predict(moved) < self.threshold
        if stuck.any():
            moved[stuck] = self.around(points[stuck], goals[stuck], ahead[stuck], model, rng)
        return moved

    def around(
        self,
        points: FloatArray,
        goals: FloatArray,
        ahead: FloatArray,
        model: NadarayaWatson,
        rng: np.random.Generator,
    ) -> FloatArray:
        """Of places no farther from each point (n, d) than its way `ahead` (n, d): good and nearest to its goal.

        They are on that way and in the ball around the point, in the goal's half of it where the point itself is good.
        """
        ways = self.scaled(ahead)
        reach = np.linalg.norm(ways, axis=1)[:, None, None]
        ball = in_ball(SIDES, self.space.dim, rng)
        side = ball @ ways.T  # (SIDES, n)
        behind = (
            np.minimum(side, 0.0) * (model.predict(points) >= self.threshold) / np.maximum((ways**2).sum(axis=1), TINY)
        )
        offsets = np.concatenate(
            [reach * (ball - 2 * behind.T[:, :, None] * ways[:, None]), SHARES[:, None] * ways[:, None]], axis=1
        )
        places = self.space.clip((points[:, None] + offsets * self.space.unit_length).reshape(-1, self.space.dim))
        places = places.reshape(offsets.shape)
        values = model.predict(places.reshape(-1, self.space.dim)).reshape(offsets.shape[:2])
        left = np.linalg.norm(self.scaled(places - goals[:, None]), axis=2)
        left[values < self.threshold] = np.inf
        best = np.where(np.isfinite(left).any(axis=1), left.argmin(axis=1), values.argmax(axis=1))
        return np.asarray(places[np.arange(len(points)), best])

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


def in_ball(n: int, d: int, rng: np.random.Generator) -> FloatArray:
    """Points (n, d) uniform in the unit ball."""
    directions = rng.standard_normal((n, d))
    return np.asarray(directions / np.linalg.norm(directions, axis=1, keepdims=True) * rng.random((n, 1)) ** (1 / d))
