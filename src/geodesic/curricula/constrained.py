"""Curricula of particles that approach the target as far as the agent's estimated performance allows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from geodesic.checks import Count, Positive, Size
from geodesic.contexts import Arrays, BoundedSpace, EpisodeBatch, FloatArray, Particles
from geodesic.coupling.plans import assignment
from geodesic.curricula.base import Curriculum, State
from geodesic.curricula.regression import NadarayaWatson


@dataclass(frozen=True, repr=False)
class ConstrainedState(State):
    """A `State` with particles and the episodes that the agent's performance is estimated from.

    Args:
        particles: Where the particles are (n, d), in the relaxed space.
        goals: Samples (n, d) of the target, to which they were last assigned.
        mastered: Episodes at or above the threshold.
        recent: The latest of the other episodes.
        fresh: Episodes since the last update.
        competent: Whether the agent has ever mastered the particles.
        length: The distance of the first particles to the target.
    """

    particles: FloatArray = field(default_factory=lambda: np.zeros((0, 1)))
    goals: FloatArray = field(default_factory=lambda: np.zeros((0, 1)))
    mastered: EpisodeBatch = field(default_factory=lambda: EpisodeBatch.empty(1))
    recent: EpisodeBatch = field(default_factory=lambda: EpisodeBatch.empty(1))
    fresh: EpisodeBatch = field(default_factory=lambda: EpisodeBatch.empty(1))
    competent: bool = False
    length: float = 0.0


@dataclass(frozen=True)
class Move:
    """New places for the particles.

    Args:
        points: The places (n, d).
        goals: The goal (n, d) that each particle is assigned to.
        event: Why the particles lie there.
    """

    points: FloatArray
    goals: FloatArray
    event: str


@dataclass(frozen=True)
class Constrained(Curriculum[ConstrainedState]):
    """min_p W2(p, target) with the performance of p above the threshold and p within epsilon of the old particles.

    Every `episodes_per_update` episodes the performance J is estimated by a kernel regression of scores on contexts,
    and `step` solves the method's form of the problem. Distances between contexts are in diagonals of the space. Until
    half of the episodes on the first particles reach the threshold the curriculum waits.

    Particles move in the relaxed space (`ContextSpace.relaxed`): between two integers or categories, a particle trains
    on the nearer one.

    Each update draws new samples of the target: particles that are blocked on the way to a sample that cannot be
    reached turn to others, and the agent sees more of the target than `n_particles` contexts. Mastered episodes (score
    >= threshold) are kept if they cover those samples: the subset of `n_particles` that an optimal assignment picks.
    Among the other episodes since the agent was competent, including successes that were not kept, the last
    `n_particles` count, so that J forgets what the agent could not do earlier.

    Args:
        source: Contexts the agent can learn from at the start.
        target: The contexts to master.
        space: Where contexts live; bounded.
        threshold: The score that counts as mastered.
        epsilon: How far the particles may move at once, in diagonals of the space.
        episodes_per_update: How many episodes come between two updates.
        n_particles: How many particles there are.
        bandwidth: Of the kernel, in units of epsilon.
        score: The score of an episode that the performance is measured in.
    """

    source: Particles
    target: Particles
    space: BoundedSpace
    threshold: float
    epsilon: Positive = 0.05
    episodes_per_update: Count = 40
    n_particles: Size = 100
    bandwidth: Positive = 1.0

    @abstractmethod
    def step(self, state: ConstrainedState, model: NadarayaWatson, rng: np.random.Generator) -> Move:
        """Where the particles go next.

        Args:
            state: The state.
            model: The agent's estimated performance.
            rng: The source of randomness.

        Returns:
            The move.
        """

    def init(self, rng: np.random.Generator) -> ConstrainedState:
        """Particles drawn from the source."""
        particles = self.space.relax(self.source.thinned(self.n_particles, rng).points)
        goals = self._goals(rng)
        nothing = EpisodeBatch.empty(self.space.dim)
        return ConstrainedState(
            self.space.inside(particles),
            particles=particles,
            goals=goals,
            mastered=nothing,
            recent=nothing,
            fresh=nothing,
            length=self.distance(particles, self._paired(particles, goals)),
        )

    def update(self, state: ConstrainedState, episodes: EpisodeBatch, rng: np.random.Generator) -> ConstrainedState:
        """The state after more episodes, with a step after every `episodes_per_update` of them."""
        if not self.has_episodes(state, episodes, rng):
            return state
        state = state.replace(fresh=state.fresh.concatenate(episodes))
        if len(state.fresh) < self.episodes_per_update:
            return state
        state = state.replace(goals=self._goals(rng))
        state = self.remember(state.replace(competent=state.competent or self._is_competent(state)))
        return self._enter(state, self.step(state, self.model(state), rng)) if state.competent else state

    def _goals(self, rng: np.random.Generator) -> FloatArray:
        """New samples (n, d) of the target."""
        return self.space.relax(self.target.thinned(self.n_particles, rng).points)

    def _is_competent(self, state: ConstrainedState) -> bool:
        own = state.fresh.of_stage(state.stage).scores(self.score)
        return len(own) > 0 and float(np.median(own)) >= self.threshold

    def remember(self, state: ConstrainedState) -> ConstrainedState:
        """Sort the fresh episodes into mastered ones that cover the target, and recent ones."""
        good, before = state.fresh.scores(self.score) >= self.threshold, len(state.mastered)
        mastered = state.mastered.concatenate(state.fresh[good])
        if len(mastered) > self.n_particles:
            chosen = np.sort(self.matched(state.goals, self.space.relax(mastered.contexts)))
            mastered = mastered[chosen]
            good[np.flatnonzero(good)] = np.isin(np.arange(before, before + int(good.sum())), chosen)
        others = state.fresh[~good] if state.competent else EpisodeBatch.empty(self.space.dim)
        return state.replace(
            mastered=mastered,
            recent=state.recent.concatenate(others)[-self.n_particles :],
            fresh=EpisodeBatch.empty(self.space.dim),
        )

    def known(self, state: ConstrainedState) -> EpisodeBatch:
        """The episodes that the performance is estimated from."""
        return state.mastered.concatenate(state.recent)

    def model(self, state: ConstrainedState) -> NadarayaWatson:
        """The agent's performance as a function of the context."""
        kept = self.known(state)
        contexts, scores = self.space.relax(kept.contexts), kept.scores(self.score)
        return NadarayaWatson(contexts, scores, self.bandwidth * self.epsilon, self.space.unit_length)

    def _enter(self, state: ConstrainedState, move: Move) -> ConstrainedState:
        """The next stage, on the moved particles; the same stage if none moved."""
        if np.array_equal(move.points, state.particles):
            return state
        left = self.distance(move.points, move.goals)
        return state.replace(
            distribution=self.space.inside(move.points),
            stage=state.stage + 1,
            alpha=float(np.clip(1.0 - left / state.length, 0.0, 1.0)) if state.length else 1.0,
            event=move.event,
            particles=move.points,
        )

    def havens(self, state: ConstrainedState, rng: np.random.Generator) -> FloatArray:
        """A mastered context for each particle (n, d), by an optimal assignment; if there is none, the particles."""
        known, n = self.space.relax(state.mastered.contexts), len(state.particles)
        if not len(known):
            return state.particles
        if len(known) < n:
            known = np.concatenate([known, known[rng.integers(len(known), size=n - len(known))]])
        return self._paired(state.particles, known)

    def snapshot(self, state: ConstrainedState) -> Arrays:
        """The contexts of mastered episodes."""
        return {"mastered": state.mastered.contexts}

    def _paired(self, points: FloatArray, others: FloatArray) -> FloatArray:
        """The one of the others (m, d) for each point (n, d) in an optimal assignment."""
        return np.asarray(others[self.matched(points, others)])

    def matched(self, points: FloatArray, others: FloatArray) -> NDArray[np.intp]:
        """The row of the one of the others (m, d) for each point (n, d) in an optimal assignment."""
        return assignment(self.scaled(points), self.scaled(others))

    def scaled(self, points: FloatArray) -> FloatArray:
        """Relaxed contexts in units in which the diagonal of the space has length 1."""
        return points / self.space.unit_length

    def distance(self, points: FloatArray, goals: FloatArray) -> float:
        """The root mean square of the distances between pairs: W2 where they are an optimal assignment."""
        return float(np.sqrt((self.scaled(points - goals) ** 2).sum(axis=1).mean()))
