"""ProCuRL-Target: contexts at the edge of the agent's abilities, towards the target (Tzannetos et al., IJCAI 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from geodesic.checks import Count, NonNegative, Positive, Size
from geodesic.contexts import BoundedSpace, EpisodeBatch, FloatArray, Particles
from geodesic.curricula.base import Curriculum, RecentState
from geodesic.curricula.regression import NadarayaWatson


@dataclass(frozen=True)
class ProCuRLTarget(Curriculum[RecentState]):
    """Contexts drawn by how much the agent can learn in them, and by how near and how learnable the target is.

        p(c) ~ exp(beta max_c* V(c) (1 - V(c)) V(c*) (1 - V(c*)) exp(-|c - c*|)),

    c from a pool of contexts drawn once (the whole support of a discrete space), c* from `target_samples` of the
    target, |.| in the units of the contexts, V in [0, 1] the agent's chance of success. If V is 0 on all of the target,
    and before the first update, p is uniform. There is no threshold and no end: a "stage" is an update, every
    `episodes_per_update` episodes.

    Differs from the paper: V is a kernel regression (Nadaraya-Watson) of the last `memory` episodes' scores, scaled to
    the range of all scores so far, where the paper evaluates PPO's critic at the start state, clipped to [0, 1]:
    curricula see episodes, not learners. The pool has 1000 contexts, theirs 10,000; the samples of the target are drawn
    once, theirs at each update.

    Args:
        target: The contexts to master.
        space: Where contexts live; bounded.
        beta: How strongly contexts differ in probability.
        target_samples: How many samples of the target c* ranges over.
        pool: How many contexts c ranges over.
        memory: How many of the latest episodes V is fitted to.
        bandwidth: Of the kernel, in diagonals of the space.
        episodes_per_update: How many episodes come between two updates.
        score: The score of an episode that V is fitted to.
    """

    colour: ClassVar[str | None] = "#44AA99"

    target: Particles
    space: BoundedSpace
    beta: NonNegative = 110.0
    target_samples: Size = 400
    pool: Size = 1000
    memory: Count = 300
    bandwidth: Positive = 0.05
    episodes_per_update: Count = 40

    def init(self, rng: np.random.Generator) -> RecentState:
        """A uniform pool of contexts."""
        return RecentState(self.space.uniform(self.pool, rng), recent=EpisodeBatch.empty(self.space.dim))

    def update(self, state: RecentState, episodes: EpisodeBatch, rng: np.random.Generator) -> RecentState:
        """The state after more episodes, with new weights after every `episodes_per_update` of them."""
        if not self.has_episodes(state, episodes, rng):
            return state
        state = state.absorb(episodes, self.memory, self.score)
        if state.fresh < self.episodes_per_update:
            return state
        points = state.distribution.points
        appeal = self.beta * self.appeal(state, points)
        return state.replace(
            distribution=Particles(points, np.exp(appeal - appeal.max())),
            stage=state.stage + 1,
            event="reweighted",
            fresh=0,
        )

    def appeal(self, state: RecentState, points: FloatArray) -> FloatArray:
        """Compute the logarithm of p, divided by beta and up to a constant.

        Args:
            state: The state.
            points: Contexts (n, d).

        Returns:
            The values (n,).
        """
        from scipy.spatial.distance import cdist

        here, there = (value * (1 - value) for value in (self.chance(state, points), self.chance(state, self.goals)))
        distances = cdist(self.space.relax(points), self.space.relax(self.goals))
        return np.asarray(here * (np.exp(-distances) * there).max(axis=1))

    def chance(self, state: RecentState, points: FloatArray) -> FloatArray:
        """Estimate V, the chance of success.

        Args:
            state: The state.
            points: Contexts (n, d).

        Returns:
            The chances (n,); 0 while all scores are equal.
        """
        if state.high <= state.low:
            return np.zeros(len(points))
        scores = (state.recent.scores(self.score) - state.low) / (state.high - state.low)
        seen = self.space.relax(state.recent.contexts)
        return NadarayaWatson(seen, scores, self.bandwidth, self.space.unit_length).predict(self.space.relax(points))

    @cached_property
    def goals(self) -> FloatArray:
        """The samples (m, d) of the target: all of its points if they are few."""
        support = self.target.merged()
        if len(support) <= self.target_samples:
            return support.points
        return self.target.thinned(self.target_samples, np.random.default_rng(0)).points
