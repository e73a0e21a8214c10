"""WB-SPDL: self-paced learning along Wasserstein barycenters (Klink et al., "Metrics Matter", 2021, eqs. 6 and 7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geodesic.contexts import FloatArray
from geodesic.curricula.constrained import Constrained, ConstrainedState, Move
from geodesic.curricula.regression import NadarayaWatson

PROBES = 8  # places on a way at which the performance is looked up
SHARES = np.linspace(0.0, 1.0, PROBES + 1)


@dataclass(frozen=True)
class WassersteinSPDL(Constrained):
    """Particles that approach the target together, as far as the agent's mean performance on them allows.

        min_p W2(p, target)   with J(p) = E_p[J] >= threshold and W2(p, old) <= epsilon,

    over barycenters p of the old particles, the target's and, where J(old) falls short, the mastered contexts': first
    the shortest way towards the mastered ones on which J(p) reaches the threshold, then the longest way towards the
    target on which it is there still, both on optimal assignments and together at most epsilon long. Where no
    barycenter that near reaches the threshold, the best one is taken. Buffers, regression and waiting are
    `Constrained`'s.

    Differs from CURROT in what is constrained, the mean over p in place of each context, so that all particles move by
    one share of their ways. Differs from the paper: W2 to the old particles is bounded by the sum of both ways, which
    makes two line searches of one problem in two weights; Nadaraya-Watson estimates J.
    """

    def step(self, state: ConstrainedState, model: NadarayaWatson, rng: np.random.Generator) -> Move:
        points, event = state.particles, "moved"
        if self.mean(points[None], model)[0] < self.threshold:
            points, event = self.retreat(points, self.havens(state, rng), model), "moved back"
        goals = self.paired(points, state.goals)
        room = self.epsilon - self.distance(points, state.particles)
        return Move(self.advance(points, goals, model, room), goals, event)

    def retreat(self, points: FloatArray, havens: FloatArray, model: NadarayaWatson) -> FloatArray:
        """The first barycenter (n, d) on the way to the havens that is good enough, or else the best one."""
        clouds = self.barycenters(points, havens, self.epsilon)
        values = self.mean(clouds, model)
        good = values >= self.threshold
        return np.asarray(clouds[good.argmax() if good.any() else values.argmax()])

    def advance(self, points: FloatArray, goals: FloatArray, model: NadarayaWatson, room: float) -> FloatArray:
        """The last barycenter (n, d) on the way to the goals that is good enough, or else the points themselves."""
        clouds = self.barycenters(points, goals, room)
        good = np.flatnonzero(self.mean(clouds, model) >= self.threshold)
        return np.asarray(clouds[good[-1]]) if good.size else points

    def barycenters(self, points: FloatArray, ends: FloatArray, room: float) -> FloatArray:
        """PROBES + 1 barycenters (m, n, d) of the points and their ends, W2 to the points evenly from 0 to `room`."""
        reach = min(1.0, max(room, 0.0) / max(self.distance(points, ends), 1e-300))
        clouds = points + (reach * SHARES)[:, None, None] * (ends - points)
        clouds[0] = points
        if reach == 1.0:
            clouds[-1] = ends
        return np.asarray(clouds)

    def mean(self, clouds: FloatArray, model: NadarayaWatson) -> FloatArray:
        """J (m,) of each of the clouds (m, n, d)."""
        m, n, d = clouds.shape
        return np.asarray(model.predict(clouds.reshape(m * n, d)).reshape(m, n).mean(axis=1))
