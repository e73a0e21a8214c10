"""ProCuRL-Target: contexts at the edge of what the agent can do, towards the target (Tzannetos et al., IJCAI 2024)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from geodesic.checks import as_count, as_nonnegative, as_positive, as_size, check
from geodesic.contexts import ContextSpace, Episodes, FloatArray, Particles, as_bounded
from geodesic.curricula.base import Curriculum, State
from geodesic.curricula.regression import NadarayaWatson


@dataclass(frozen=True, repr=False)
class ProCuRLTargetState(State):
    """recent: the last episodes; fresh: episodes since the last update; low, high: the range of all scores so far."""

    recent: Episodes = field(default_factory=lambda: Episodes.empty(1))
    fresh: int = 0
    low: float = math.inf
    high: float = -math.inf


@dataclass(frozen=True)
class ProCuRLTarget(Curriculum[ProCuRLTargetState]):
    """Contexts drawn by how much is to be learned in them, weighed by how near and how learnable the target is.

        p(c) ~ exp(beta max_c* V(c) (1 - V(c)) V(c*) (1 - V(c*)) exp(-|c - c*|)),

    c over a pool of contexts drawn once (the whole support of a discrete space), c* over `target_samples` of the
    target, |.| in the units of the contexts, V in [0, 1] the agent's chance of success. Where V is 0 on all of the
    target, and before the first update, p is uniform. No threshold and no end: a "stage" is an update, every
    `episodes_per_update` episodes.

    Differs from the paper: V is a kernel regression (Nadaraya-Watson, `width` in diagonals of the space) of the last
    `memory` episodes' scores, scaled to the range of all scores so far, where the paper asks PPO's critic at the start
    state, clipped to [0, 1]: curricula see episodes, not learners. The pool has 1000 contexts, theirs 10,000; the
    samples of the target are drawn once, theirs at each update.
    """

    state_type: ClassVar[type[State]] = ProCuRLTargetState

    target: Particles
    space: ContextSpace
    beta: float = 110.0
    target_samples: int = 400
    pool: int = 1000
    memory: int = 300
    width: float = 0.05
    episodes_per_update: int = 40

    def __post_init__(self) -> None:
        check(self, space=as_bounded, beta=as_nonnegative, width=as_positive, target_samples=as_size, pool=as_size)
        check(self, memory=as_count, episodes_per_update=as_count)
        super().__post_init__()

    def init(self, rng: np.random.Generator) -> ProCuRLTargetState:
        return ProCuRLTargetState(self.space.uniform(self.pool, rng), recent=Episodes.empty(self.space.dim))

    def update(self, state: ProCuRLTargetState, episodes: Episodes, rng: np.random.Generator) -> ProCuRLTargetState:
        if not self.heard(state, episodes, rng):
            return state
        state = self.absorb(state, episodes)
        if state.fresh < self.episodes_per_update:
            return state
        points = state.distribution.points
        appeal = self.beta * self.appeal(state, points)
        return state.replace(
            distribution=Particles(points, np.exp(appeal - appeal.max())),
            stage=state.stage + 1,
            event="weighed anew",
            fresh=0,
        )

    def absorb(self, state: ProCuRLTargetState, episodes: Episodes) -> ProCuRLTargetState:
        return state.replace(
            recent=state.recent.followed_by(episodes)[-self.memory :],
            fresh=state.fresh + len(episodes),
            low=min(state.low, float(episodes.returns.min())),
            high=max(state.high, float(episodes.returns.max())),
        )

    def appeal(self, state: ProCuRLTargetState, points: FloatArray) -> FloatArray:
        """What beta multiplies (n,), in contexts (n, d)."""
        from scipy.spatial.distance import cdist

        here, there = (value * (1 - value) for value in (self.chance(state, points), self.chance(state, self.goals)))
        return np.asarray(here * (np.exp(-cdist(points, self.goals)) * there).max(axis=1))

    def chance(self, state: ProCuRLTargetState, points: FloatArray) -> FloatArray:
        """V (n,) in contexts (n, d); 0 while all scores are the same: nothing tells success from failure."""
        if state.high <= state.low:
            return np.zeros(len(points))
        scores = (state.recent.returns - state.low) / (state.high - state.low)
        return NadarayaWatson(state.recent.contexts, scores, self.width, self.space.unit_length).predict(points)

    @cached_property
    def goals(self) -> FloatArray:
        """The samples (m, d) of the target: all of its points where they are few."""
        support = self.target.merged()
        if len(support) <= self.target_samples:
            return support.points
        return self.target.thinned(self.target_samples, np.random.default_rng(0)).points
