"""VDS: value disagreement sampling (Zhang, Abbeel and Pinto, NeurIPS 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from geodesic.checks import Count, Positive, Size
from geodesic.contexts import BoundedSpace, EpisodeBatch, FloatArray, Particles
from geodesic.curricula.base import Curriculum, RecentState


@dataclass(frozen=True)
class VDS(Curriculum[RecentState]):
    """Train in contexts where an ensemble of value estimates disagrees.

    Every `episodes_per_update` episodes, `candidates` contexts are drawn uniformly (in a discrete space, all are used),
    and each is weighted by the standard deviation of its estimated score over the ensemble. With the last `memory`
    episodes of contexts c_i and scores v_i, and a Gaussian kernel k, member m estimates

        f_m(c) = (u_m + sum_i w_im k(c, c_i) v_i) / (1 + sum_i w_im k(c, c_i))

    The w_im are exponential with mean 1 (the Bayesian bootstrap). u_m, a member's estimate where it has seen nothing,
    is uniform between the lowest and the highest score so far. So members disagree far from all episodes, and where
    outcomes differ between neighbours; they agree where the agent always fails or always succeeds.

    Differs from the paper: an ensemble of kernel regressions of scores on contexts, fitted to the latest episodes at
    each update, takes the place of Q functions of state, action and goal, which are trained by temporal differences and
    keep what they have learned. Members differ by their bootstrap and their prior instead of their initial weights and
    batches. In many dimensions few episodes are close to any context, and the weights become nearly equal. Random
    outcomes look like disagreement.

    Args:
        space: Where contexts live; bounded.
        members: The number of estimates in the ensemble.
        candidates: The number of contexts in a stage.
        memory: The number of latest episodes that the estimates are fitted to.
        bandwidth: The bandwidth of the kernel, in diagonals of the space.
        episodes_per_update: The number of episodes between two updates.
        score: The score of an episode that is estimated.
    """

    colour: ClassVar[str | None] = "#9467BD"

    space: BoundedSpace
    members: Size = 10
    candidates: Size = 1000
    memory: Count = 300
    bandwidth: Positive = 0.05
    episodes_per_update: Count = 40

    def init(self, rng: np.random.Generator) -> RecentState:
        """Uniform contexts."""
        return RecentState(self.space.uniform(self.candidates, rng), recent=EpisodeBatch.empty(self.space.dim))

    def update(self, state: RecentState, episodes: EpisodeBatch, rng: np.random.Generator) -> RecentState:
        """The state after more episodes, with new weights after every `episodes_per_update` of them."""
        if not self.has_episodes(state, episodes, rng):
            return state
        state = state.absorb(episodes, self.memory, self.score)
        if state.fresh < self.episodes_per_update:
            return state
        points = self.space.uniform(self.candidates, rng).points
        weights = self.disagreement(state, points, rng)
        if not weights.any():
            weights = np.ones(len(points))
        return state.replace(
            distribution=Particles(points, weights / weights.sum()), stage=state.stage + 1, event="reweighted", fresh=0
        )

    def disagreement(self, state: RecentState, points: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Compute how far the members of a new ensemble are apart.

        Args:
            state: The state, after some episodes.
            points: Contexts (n, d).
            rng: Draws the ensemble.

        Returns:
            The standard deviation (n,) of their estimates, as a fraction of the range of all scores so far.
        """
        span = state.high - state.low
        if span <= 0:
            return np.zeros(len(points))
        unit = self.space.unit_length * self.bandwidth
        seen, asked = (self.space.relax(each) / unit for each in (state.recent.contexts, points))
        squares = (asked**2).sum(axis=1)[:, None] + (seen**2).sum(axis=1) - 2 * asked @ seen.T
        kernel = np.exp(np.clip(-squares / 2, -60.0, 0.0))
        scores = (state.recent.scores(self.score) - state.low) / span
        bootstrap = rng.exponential(size=(len(seen), self.members))
        prior = rng.uniform(size=self.members)
        estimates = (prior + kernel @ (bootstrap * scores[:, None])) / (1 + kernel @ bootstrap)
        return np.asarray(estimates.std(axis=1))
