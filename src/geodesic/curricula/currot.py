"""CURROT: curriculum reinforcement learning by constrained optimal transport (Klink et al., ICML 2022)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geodesic.contexts import FloatArray
from geodesic.curricula.constrained import SHARES, Constrained, ConstrainedState, Move
from geodesic.curricula.regression import NadarayaWatson


@dataclass(frozen=True)
class CURROT(Constrained):
    """Particles that approach the target, each as far as the agent's performance in its own context allows.

        min_p W2(p, target)   with J(c) >= threshold for all c in p and W(p, old) <= epsilon.

    Particles below the threshold go back to mastered contexts that an optimal assignment gives them; the others go
    straight towards the target sample assigned to them, at most epsilon far and only while J stays above the
    threshold. Buffers, regression and waiting are `Constrained`'s.

    Differs from the paper: the trust region bounds each particle's move (W-infinity, hence W2, <= epsilon), which
    splits the problem into one line search per particle; Nadaraya-Watson replaces the Gaussian process; until the
    mean return on the first particles reaches the threshold the curriculum waits, where the paper searches at random.
    """

    def step(self, state: ConstrainedState, model: NadarayaWatson, rng: np.random.Generator) -> Move:
        low = model.predict(state.particles) < self.threshold
        points = np.where(low[:, None], self.havens(state, rng), state.particles) if low.any() else state.particles
        goals = self.paired(points, state.goals)
        event = f"moved, {int(low.sum())} of {len(low)} particles back" if low.any() else "moved"
        return Move(self.advance(points, goals, model), goals, event)

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
