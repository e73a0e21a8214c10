"""CURROT: curriculum reinforcement learning by constrained optimal transport (Klink et al., ICML 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import Arrays, ContextSpace, Episodes, FloatArray, Particles, as_count
from geodesic.coupling import assignment
from geodesic.curricula.base import Curriculum, State
from geodesic.curricula.regression import NadarayaWatson
from geodesic.errors import InvalidInput

PROBES = 8  # points on the way of a particle at which its performance is looked up


@dataclass(frozen=True, repr=False)
class CURROTState(State):
    """Particles (n, d) and the samples (n, d) of the target that they are after; and

    mastered: episodes above the threshold; recent: the last episodes; fresh: episodes since the last update;
    competent: whether the agent has once mastered the particles; length: the first particles' distance to the target.
    """

    particles: FloatArray = field(default_factory=lambda: np.zeros((0, 1)))
    goals: FloatArray = field(default_factory=lambda: np.zeros((0, 1)))
    mastered: Episodes = field(default_factory=lambda: Episodes.empty(1))
    recent: Episodes = field(default_factory=lambda: Episodes.empty(1))
    fresh: int = 0
    competent: bool = False
    length: float = 0.0


@dataclass(frozen=True)
class CURROT(Curriculum[CURROTState]):
    """Particles that approach the target as far as the agent's estimated performance stays above the threshold.

        min_p W2(p, target)   with J(c) >= threshold for all c in p and W(p, old) <= epsilon.

    Every `episodes_per_update` episodes, with J a kernel regression (width epsilon) of returns on contexts:
    particles below the threshold go back to mastered contexts that an optimal assignment gives them; the others go
    straight towards the target sample assigned to them, at most epsilon far and only while J stays above the
    threshold. Contexts are measured so that the diagonal of the space has length 1.

    Mastered episodes (return >= threshold) are kept by how well they cover the target: the subset of `n_particles`
    that an optimal assignment to the target's samples picks. Failed ones count while they are among the last
    `n_particles` episodes, so that J forgets what the agent could not do earlier.

    Differs from the paper: the trust region bounds each particle's move (W-infinity, hence W2, <= epsilon), which
    splits the problem into one line search per particle; Nadaraya-Watson replaces the Gaussian process; until the
    mean return on the first particles reaches the threshold the curriculum waits, where the paper searches at random.
    """

    state_type: ClassVar[type[State]] = CURROTState

    source: Particles
    target: Particles
    space: ContextSpace
    threshold: float
    epsilon: float = 0.05
    episodes_per_update: int = 40
    n_particles: int = 100

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise InvalidInput(f"expected epsilon to be positive, got {self.epsilon!r}")
        if not math.isfinite(self.threshold):
            raise InvalidInput(f"expected a finite threshold, got {self.threshold!r}")
        as_count(self.episodes_per_update, "episodes_per_update")
        as_count(self.n_particles, "n_particles")

    def init(self, rng: np.random.Generator) -> CURROTState:
        particles = self.source.sample(rng, self.n_particles)
        goals = self.target.sample(rng, self.n_particles)
        pairs = assignment(self._scaled(particles), self._scaled(goals))
        nothing = Episodes.empty(self.space.dim)
        return CURROTState(
            self.space.inside(particles),
            particles=particles,
            goals=goals,
            mastered=nothing,
            recent=nothing,
            length=self._distance(particles, goals[pairs]),
        )

    def update(self, state: CURROTState, episodes: Episodes, rng: np.random.Generator) -> CURROTState:
        if not len(episodes):
            return state
        state = self.remember(state, episodes)
        if state.fresh < self.episodes_per_update:
            return state
        state = self.select(state.replace(fresh=0))
        if not state.competent and not self.is_competent(state):
            return state
        return self.move(state.replace(competent=True), rng)

    def remember(self, state: CURROTState, episodes: Episodes) -> CURROTState:
        return state.replace(
            mastered=state.mastered.followed_by(episodes[episodes.returns >= self.threshold]),
            recent=state.recent.followed_by(episodes)[-max(self.n_particles, self.episodes_per_update) :],
            fresh=state.fresh + len(episodes),
        )

    def select(self, state: CURROTState) -> CURROTState:
        """Keep the mastered episodes that cover the target best."""
        if len(state.mastered) <= self.n_particles:
            return state
        chosen = assignment(self._scaled(state.goals), self._scaled(state.mastered.contexts))
        return state.replace(mastered=state.mastered[np.sort(chosen)])

    def is_competent(self, state: CURROTState) -> bool:
        own = state.recent[-self.episodes_per_update :].of_stage(state.stage).returns
        return len(own) > 0 and float(own.mean()) >= self.threshold

    def model(self, state: CURROTState) -> NadarayaWatson:
        """The agent's performance as a function of the context, from what it mastered and where it failed lately."""
        kept = state.mastered.followed_by(state.recent[state.recent.returns < self.threshold])
        return NadarayaWatson(self._scaled(kept.contexts), kept.returns, self.epsilon)

    def move(self, state: CURROTState, rng: np.random.Generator) -> CURROTState:
        model = self.model(state)
        low = model.predict(self._scaled(state.particles)) < self.threshold
        points = self.retreat(state, low, rng)
        goals = state.goals[assignment(self._scaled(points), self._scaled(state.goals))]
        points = self.advance(points, goals, model)
        if np.array_equal(points, state.particles):
            return state
        left = self._distance(points, goals)
        return state.replace(
            distribution=self.space.inside(points),
            stage=state.stage + 1,
            alpha=float(np.clip(1.0 - left / state.length, 0.0, 1.0)) if state.length else 1.0,
            event=f"moved, {int(low.sum())} of {len(low)} particles back" if low.any() else "moved",
            particles=points,
        )

    def retreat(self, state: CURROTState, low: NDArray[np.bool_], rng: np.random.Generator) -> FloatArray:
        """Particles below the threshold put on mastered contexts."""
        known = state.mastered.contexts
        if not low.any() or not len(known):
            return state.particles
        if len(known) < len(low):
            known = np.concatenate([known, known[rng.integers(len(known), size=len(low) - len(known))]])
        pairs = assignment(self._scaled(state.particles), self._scaled(known))
        return np.where(low[:, None], known[pairs], state.particles)

    def advance(self, points: FloatArray, goals: FloatArray, model: NadarayaWatson) -> FloatArray:
        """Each point (n, d) moved towards its goal (n, d), by at most epsilon, while the model stays above."""
        way = goals - points
        far = np.linalg.norm(self._scaled(way), axis=1)
        reach = np.minimum(1.0, self.epsilon / np.maximum(far, 1e-300))
        shares = reach[:, None] * np.linspace(0.0, 1.0, PROBES + 1)
        probes = points[:, None] + shares[:, :, None] * way[:, None]
        probes[reach == 1.0, -1] = goals[reach == 1.0]
        n, m, d = probes.shape
        good = model.predict(self._scaled(probes.reshape(n * m, d))).reshape(n, m) >= self.threshold
        steps = np.logical_and.accumulate(good, axis=1).sum(axis=1)
        return np.asarray(probes[np.arange(n), np.maximum(steps - 1, 0)])

    def snapshot(self, state: CURROTState) -> Arrays:
        return {"mastered": state.mastered.contexts}

    def _scaled(self, points: FloatArray) -> FloatArray:
        return points / self.space.unit_length

    def _distance(self, points: FloatArray, goals: FloatArray) -> float:
        return float(np.sqrt((self._scaled(points - goals) ** 2).sum(axis=1).mean()))
