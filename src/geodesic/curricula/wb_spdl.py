"""WB-SPDL: self-paced learning along Wasserstein barycenters (Klink et al., "Metrics Matter", 2021, eqs. 6 and 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from geodesic.contexts import FloatArray
from geodesic.curricula.constrained import Constrained, ConstrainedState, Move
from geodesic.curricula.regression import NadarayaWatson

PROBES = 8  # barycenters on a path at which the performance is evaluated
FRACTIONS = np.linspace(0.0, 1.0, PROBES + 1)


@dataclass(frozen=True)
class WassersteinSPDL(Constrained):
    """Particles that approach the target together, as far as the agent's mean performance on them allows.

        min_p W2(p, target)   with J(p) = E_p[J] >= threshold and W2(p, old) <= epsilon,

    over barycenters p of the old particles, the target's and, if J(old) is too low, those of the mastered contexts:
    first the shortest path towards the mastered ones on which J(p) reaches the threshold, then the longest path towards
    the target on which it still does, both on optimal assignments and together at most epsilon long. If no barycenter
    within reach meets the threshold, the best one is taken. Buffers, regression and waiting are `Constrained`'s.

    Differs from CURROT: the mean over p is constrained rather than each context, so that all particles move by the same
    fraction of their paths. Differs from the paper: W2 to the old particles is bounded by the sum of both paths, which
    turns one problem in two weights into two line searches; Nadaraya-Watson estimates J.

    Args:
        source: Contexts the agent can learn from at the start.
        target: The contexts to master.
        space: Where contexts live; bounded.
        threshold: The mean score that the particles have to keep.
        epsilon: How far the particles may move at once (W2), in diagonals of the space.
        episodes_per_update: How many episodes come between two updates.
        n_particles: How many particles there are.
        bandwidth: Of the kernel, in units of epsilon.
        score: The score of an episode that the performance is measured in.
    """

    colour: ClassVar[str | None] = "#332288"

    def step(self, state: ConstrainedState, model: NadarayaWatson, rng: np.random.Generator) -> Move:
        """All particles on towards the target, or back."""
        points, event = state.particles, "moved"
        if self.mean(points[None], model)[0] < self.threshold:
            points, event = self.retreat(points, self.havens(state, rng), model), "moved back"
        goals = self._paired(points, state.goals)
        room = self.epsilon - self.distance(points, state.particles)
        return Move(self.advance(points, goals, model, room), goals, event)

    def retreat(self, points: FloatArray, havens: FloatArray, model: NadarayaWatson) -> FloatArray:
        """Move back to mastered contexts until the mean performance is good enough.

        Args:
            points: The particles (n, d).
            havens: The mastered context (n, d) that each moves to.
            model: The expected score in a context.

        Returns:
            The first barycenter (n, d) on the path that is good enough, or else the best one.
        """
        clouds = self.barycenters(points, havens, self.epsilon)
        values = self.mean(clouds, model)
        good = values >= self.threshold
        return np.asarray(clouds[good.argmax() if good.any() else values.argmax()])

    def advance(self, points: FloatArray, goals: FloatArray, model: NadarayaWatson, room: float) -> FloatArray:
        """Move towards the target as far as the mean performance stays good enough.

        Args:
            points: The particles (n, d).
            goals: The goal (n, d) of each.
            model: The expected score in a context.
            room: The longest way (W2), in diagonals of the space.

        Returns:
            The last barycenter (n, d) on the path that is good enough, or else the points themselves.
        """
        clouds = self.barycenters(points, goals, room)
        good = np.flatnonzero(self.mean(clouds, model) >= self.threshold)
        return np.asarray(clouds[good[-1]]) if good.size else points

    def barycenters(self, points: FloatArray, ends: FloatArray, room: float) -> FloatArray:
        """Compute barycenters of the particles and the ends of their paths, at even W2 distances.

        Args:
            points: The particles (n, d).
            ends: The end (n, d) of the path of each.
            room: The distance of the last barycenter, in diagonals of the space.

        Returns:
            PROBES + 1 barycenters (m, n, d), of which the first is at the particles.
        """
        reach = min(1.0, max(room, 0.0) / max(self.distance(points, ends), 1e-300))
        clouds = points + (reach * FRACTIONS)[:, None, None] * (ends - points)
        clouds[0] = points
        if reach == 1.0:
            clouds[-1] = ends
        return np.asarray(clouds)

    def mean(self, clouds: FloatArray, model: NadarayaWatson) -> FloatArray:
        """Compute J, the mean performance.

        Args:
            clouds: Sets (m, n, d) of particles.
            model: The expected score in a context.

        Returns:
            J (m,) of each of them.
        """
        m, n, d = clouds.shape
        return np.asarray(model.predict(clouds.reshape(m * n, d)).reshape(m, n).mean(axis=1))
