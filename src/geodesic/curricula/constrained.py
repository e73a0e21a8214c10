"""Curricula of particles that approach the target as far as the agent's estimated performance allows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from geodesic.checks import as_count, as_positive, as_size, check
from geodesic.contexts import Arrays, ContextSpace, Episodes, FloatArray, Particles, as_bounded
from geodesic.coupling import assignment
from geodesic.curricula.base import Curriculum, State
from geodesic.curricula.regression import NadarayaWatson


@dataclass(frozen=True, repr=False)
class ConstrainedState(State):
    """Particles (n, d) and the samples (n, d) of the target that they were last sent to; and

    mastered: episodes above the threshold; recent: the last of the others; fresh: episodes since the last update;
    competent: whether the agent has once mastered the particles; length: the first particles' distance to the target.
    """

    particles: FloatArray = field(default_factory=lambda: np.zeros((0, 1)))
    goals: FloatArray = field(default_factory=lambda: np.zeros((0, 1)))
    mastered: Episodes = field(default_factory=lambda: Episodes.empty(1))
    recent: Episodes = field(default_factory=lambda: Episodes.empty(1))
    fresh: Episodes = field(default_factory=lambda: Episodes.empty(1))
    competent: bool = False
    length: float = 0.0


@dataclass(frozen=True)
class Move:
    """Particles (n, d), the goals (n, d) that they were sent to, each its own, and why they lie where they do."""

    points: FloatArray
    goals: FloatArray
    event: str


@dataclass(frozen=True)
class Constrained(Curriculum[ConstrainedState]):
    """min_p W2(p, target) with the performance of p above the threshold and p within epsilon of the old particles.

    Every `episodes_per_update` episodes the performance J is estimated, by a kernel regression of returns on contexts
    (`width` times epsilon wide), and `step` solves the method's form of the problem. Contexts are measured so that the
    diagonal of the space has length 1. Until half of the episodes on the first particles reach the threshold the
    curriculum waits.

    The target is sampled anew at each update: particles held up on the way to a sample that cannot be reached go after
    others, and the agent meets more of the target than `n_particles` contexts. Mastered episodes (return >= threshold)
    are kept by how well they cover those samples: the subset of `n_particles` that an optimal assignment picks. Of the
    other episodes since the agent was competent the last `n_particles` count, successes that were not kept among them,
    so that J forgets what the agent could not do earlier.
    """

    state_type: ClassVar[type[State]] = ConstrainedState

    source: Particles
    target: Particles
    space: ContextSpace
    threshold: float
    epsilon: float = 0.05
    episodes_per_update: int = 40
    n_particles: int = 100
    width: float = 1.0

    def __post_init__(self) -> None:
        check(self, space=as_bounded, epsilon=as_positive, width=as_positive)
        check(self, episodes_per_update=as_count, n_particles=as_size)
        super().__post_init__()

    @abstractmethod
    def step(self, state: ConstrainedState, model: NadarayaWatson, rng: np.random.Generator) -> Move:
        """Where the particles go next, under this estimate of the performance."""

    def init(self, rng: np.random.Generator) -> ConstrainedState:
        particles = self.source.thinned(self.n_particles, rng).points
        goals = self.target.thinned(self.n_particles, rng).points
        nothing = Episodes.empty(self.space.dim)
        return ConstrainedState(
            self.space.inside(particles),
            particles=particles,
            goals=goals,
            mastered=nothing,
            recent=nothing,
            fresh=nothing,
            length=self.distance(particles, self.paired(particles, goals)),
        )

    def update(self, state: ConstrainedState, episodes: Episodes, rng: np.random.Generator) -> ConstrainedState:
        if not self.heard(state, episodes, rng):
            return state
        state = state.replace(fresh=state.fresh.followed_by(episodes))
        if len(state.fresh) < self.episodes_per_update:
            return state
        state = state.replace(goals=self.target.thinned(self.n_particles, rng).points)
        state = self.remember(state.replace(competent=state.competent or self.is_competent(state)))
        return self.enter(state, self.step(state, self.model(state), rng)) if state.competent else state

    def is_competent(self, state: ConstrainedState) -> bool:
        own = state.fresh.of_stage(state.stage).returns
        return len(own) > 0 and float(np.median(own)) >= self.threshold

    def remember(self, state: ConstrainedState) -> ConstrainedState:
        """The fresh episodes where they belong: those that cover the target best among the mastered ones."""
        good, before = state.fresh.returns >= self.threshold, len(state.mastered)
        mastered = state.mastered.followed_by(state.fresh[good])
        if len(mastered) > self.n_particles:
            chosen = np.sort(self.matched(state.goals, mastered.contexts))
            mastered = mastered[chosen]
            good[np.flatnonzero(good)] = np.isin(np.arange(before, before + int(good.sum())), chosen)
        others = state.fresh[~good] if state.competent else Episodes.empty(self.space.dim)
        return state.replace(
            mastered=mastered,
            recent=state.recent.followed_by(others)[-self.n_particles :],
            fresh=Episodes.empty(self.space.dim),
        )

    def known(self, state: ConstrainedState) -> Episodes:
        """What it mastered, and how it fared lately."""
        return state.mastered.followed_by(state.recent)

    def model(self, state: ConstrainedState) -> NadarayaWatson:
        """The agent's performance as a function of the context."""
        kept = self.known(state)
        return NadarayaWatson(kept.contexts, kept.returns, self.width * self.epsilon, self.space.unit_length)

    def enter(self, state: ConstrainedState, move: Move) -> ConstrainedState:
        """The next stage, on the moved particles; the same stage where none moved."""
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
        """For each particle (n, d) a mastered context of its own, by an optimal assignment; itself if there is none."""
        known, n = state.mastered.contexts, len(state.particles)
        if not len(known):
            return state.particles
        if len(known) < n:
            known = np.concatenate([known, known[rng.integers(len(known), size=n - len(known))]])
        return self.paired(state.particles, known)

    def snapshot(self, state: ConstrainedState) -> Arrays:
        return {"mastered": state.mastered.contexts}

    def paired(self, points: FloatArray, others: FloatArray) -> FloatArray:
        """For each point (n, d) its own one of the others (m, d), by an optimal assignment."""
        return np.asarray(others[self.matched(points, others)])

    def matched(self, points: FloatArray, others: FloatArray) -> NDArray[np.intp]:
        return assignment(self.scaled(points), self.scaled(others))

    def scaled(self, points: FloatArray) -> FloatArray:
        return points / self.space.unit_length

    def distance(self, points: FloatArray, goals: FloatArray) -> float:
        """The root mean square of the distances between pairs: W2 where they are an optimal assignment."""
        return float(np.sqrt((self.scaled(points - goals) ** 2).sum(axis=1).mean()))
