"""Sampling for learnability: train where success is uncertain (Rutherford et al., NeurIPS 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from geodesic.checks import Count, Fraction, Natural, Positive, Size
from geodesic.contexts import BoundedSpace, EpisodeBatch, FloatArray, Particles, rows_of
from geodesic.curricula.base import Curriculum, Kind, RecentState
from geodesic.curricula.regression import NadarayaWatson

LEAST = 1e-6  # p (1 - p) above which something can be learned; rounding leaves less


@dataclass(frozen=True)
class Learnability(Curriculum[RecentState]):
    """The contexts of highest p (1 - p), p the agent's success rate, mixed with uniform ones (SFL).

    Every `episodes_per_update` episodes, `candidates` contexts are drawn uniformly (of a discrete space: all), and the
    `top` of them with the highest p (1 - p) are kept, as are those equal to the last of them; those with p (1 - p) = 0
    never are. A context is one of them, or with probability `uniform` any candidate, which is all there is before
    the first update and where nothing can be learned. An episode succeeds if the environment says so, else if its score
    exceeds the threshold.

    p is a kernel regression (Nadaraya-Watson) of the last `memory` episodes, without rollouts. So it is only known near
    contexts that were trained on, as the uniform ones are. With `rollouts`, p is measured instead: a stage of kind
    "explore" plays that many episodes per candidate, drawn uniformly from them, p is the success rate in each, and the
    contexts that are selected are trained on for the next `episodes_per_update` episodes. A candidate that was not
    drawn counts as p = 0. These episodes are steps of the run like all others.

    Differs from the paper, which measures p by rollouts on every candidate that the agent does not learn from: a
    curriculum here sees training episodes only, and stages of kind "explore" are trained on as well. Without rollouts,
    p is estimated, as above. They keep 100 or 1000 of 5000 or 25,000 candidates.

    Args:
        space: Where contexts live; bounded.
        threshold: An episode without reported success succeeds above this score.
        candidates: How many contexts are compared.
        top: How many of them are kept.
        uniform: The probability of any candidate.
        memory: How many of the latest episodes p is fitted to.
        bandwidth: Of the kernel, in diagonals of the space.
        rollouts: How many episodes per candidate p is measured by; 0: it is the regression.
        episodes_per_update: How many episodes come between two updates.
        score: The score of an episode that is compared with the threshold.
    """

    colour: ClassVar[str | None] = "#E7298A"
    follows_threshold: ClassVar[bool] = True

    space: BoundedSpace
    threshold: float
    candidates: Size = 1000
    top: Count = 100
    uniform: Fraction = 0.5
    memory: Count = 300
    bandwidth: Positive = 0.05
    episodes_per_update: Count = 40
    rollouts: Natural = 0

    def init(self, rng: np.random.Generator) -> RecentState:
        """Uniform contexts."""
        nothing = EpisodeBatch.empty(self.space.dim)
        kind: Kind = "explore" if self.rollouts else "train"
        return RecentState(self.space.uniform(self.candidates, rng), kind=kind, recent=nothing)

    def update(self, state: RecentState, episodes: EpisodeBatch, rng: np.random.Generator) -> RecentState:
        """The state after more episodes, with other contexts after every `episodes_per_update` of them."""
        if not self.has_episodes(state, episodes, rng):
            return state
        if self.rollouts:
            return self._measured(state, episodes.of_stage(state.stage), rng)
        state = state.absorb(episodes, self.memory, self.score)
        if state.fresh < self.episodes_per_update:
            return state
        points = self.space.uniform(self.candidates, rng).points
        chances = self.chance(state, points)
        return state.replace(
            distribution=Particles(points, self.weights(chances * (1 - chances))),
            stage=state.stage + 1,
            event="selected",
            fresh=0,
        )

    def _measured(self, state: RecentState, episodes: EpisodeBatch, rng: np.random.Generator) -> RecentState:
        """The state after more episodes of its stage, where candidates are measured and trained on in turn."""
        candidates, nothing = state.distribution.points, EpisodeBatch.empty(self.space.dim)
        own = state.recent.concatenate(episodes)
        exploring = state.kind == "explore"
        if len(own) < (self.rollouts * len(candidates) if exploring else self.episodes_per_update):
            return state.replace(recent=own)
        following = state.replace(stage=state.stage + 1, recent=nothing)
        if not exploring:
            new = self.space.uniform(self.candidates, rng)
            return following.replace(distribution=new, kind="explore", event="new candidates")
        chances = self.rate(own, candidates, self.required(state))
        made = Particles(candidates, self.weights(chances * (1 - chances)))
        return following.replace(distribution=made, kind="train", event="selected")

    def rate(self, episodes: EpisodeBatch, candidates: FloatArray, threshold: float) -> FloatArray:
        """Measure p, the chance of success.

        Args:
            episodes: Episodes; those in other contexts do not count.
            candidates: Contexts (n, d).
            threshold: An episode without reported success succeeds above this score.

        Returns:
            The success rate (n,) in each context; 0 where there was no episode.
        """
        places = {row: place for place, row in enumerate(rows_of(candidates).tolist())}
        found = np.array([places.get(row, -1) for row in rows_of(episodes.contexts).tolist()], np.int64)
        known, successes = found >= 0, episodes.succeeded(self.score, threshold)
        sums = np.bincount(found[known], successes[known], len(candidates))
        return np.asarray(sums / np.maximum(np.bincount(found[known], minlength=len(candidates)), 1))

    def chance(self, state: RecentState, points: FloatArray) -> FloatArray:
        """Estimate p, the chance of success.

        Args:
            state: The state, after some episodes.
            points: Contexts (n, d).

        Returns:
            The chances (n,).
        """
        seen, successes = state.recent.contexts, state.recent.succeeded(self.score, self.required(state))
        model = NadarayaWatson(self.space.relax(seen), successes, self.bandwidth, self.space.unit_length)
        return np.clip(model.predict(self.space.relax(points)), 0.0, 1.0)

    def weights(self, learnability: FloatArray) -> FloatArray:
        """Compute how likely each candidate is.

        Args:
            learnability: p (1 - p) of each candidate (n,).

        Returns:
            The probabilities (n,).
        """
        n = len(learnability)
        kept = (learnability >= np.sort(learnability)[-min(self.top, n)]) & (learnability > LEAST)
        if not kept.any():
            return np.full(n, 1 / n)
        return np.asarray(self.uniform / n + (1 - self.uniform) * kept / kept.sum())
