"""A threshold that is found during training, for any method that takes one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from geodesic.checks import Count, Fraction, Positive
from geodesic.contexts import BoundedSpace, EpisodeBatch, FloatArray, Particles, are_drawn_from
from geodesic.curricula.base import Curriculum, Wrapper, WrapperState
from geodesic.curricula.regression import NadarayaWatson
from geodesic.errors import InvalidInput

MOST = 0.9  # of the way from the untrained agent on the target to the best: more is never required
BETTER = 0.9  # the quantile of the estimated scores that counts as what the agent can earn
EVERY = 3  # the estimate is evaluated at one in this many of the remembered contexts


@dataclass(frozen=True, repr=False)
class AutoThresholdState(WrapperState):
    """A `State` with what is known about the scores.

    Args:
        inner: The state of the method; distribution, stage, alpha, event, kind and threshold are copied from it.
        seen: The latest episodes.
        untrained: The mean scores of the untrained agent on easy contexts and on the target, (2,); empty: not known.
        best: The best that the agent has shown it can earn.
        played: How many episodes there have been.
    """

    seen: EpisodeBatch = field(default_factory=lambda: EpisodeBatch.empty(1))
    untrained: FloatArray = field(default_factory=lambda: np.zeros(0))
    best: float = -math.inf
    played: int = 0


@dataclass(frozen=True)
class AutoThreshold(Wrapper[AutoThresholdState]):
    """A method whose threshold follows what the agent has shown it can earn.

        threshold = min(untrained + fraction * (best - untrained), hard + 0.9 * (best - hard))
        untrained = (1 - alpha) * easy + alpha * hard

    `easy` and `hard` are the mean scores of the untrained agent on easy contexts and on the target. They come from a
    first stage of kind "explore" with `probe` episodes, half of them on each. `best` is the 0.9 quantile of the
    estimated score over the contexts of the latest `memory` episodes (a kernel regression). It never falls: the
    requirement must not drop as the contexts get harder.

    Until a better score than the untrained agent's on the target has been seen, no score is good enough. The second
    term of the minimum is for contexts in which even the untrained agent is close to the best. It only applies after
    `patience` episodes: before that, the agent may simply not have learned anything yet. If all scores are scaled or
    shifted, the threshold is too.

    Args:
        method: The curriculum; it has a threshold and follows it when it changes (`follows_threshold`).
        easy: Easy contexts: the source, or the whole space if it is searched for.
        target: The contexts to master.
        space: Where contexts live, bounded; it sets the unit of the bandwidth.
        fraction: How far from the untrained agent to the best the threshold lies.
        probe: How many episodes the first stage, the probe, takes.
        patience: The episodes after which contexts may count as easy for an untrained agent.
        memory: How many of the latest episodes the estimate is fitted to.
        bandwidth: The estimate's, in diagonals of the context space.
        score: Which score of an episode counts.
    """

    method: Curriculum[Any]
    easy: Particles
    target: Particles
    space: BoundedSpace
    fraction: Fraction = 0.5
    probe: Count = 40
    patience: Count = 200
    memory: Count = 300
    bandwidth: Positive = 0.04

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.method.follows_threshold:
            raise InvalidInput(f"expected a method whose threshold may change, got {type(self.method).__name__}")
        object.__setattr__(self, "needs_value_losses", self.method.needs_value_losses)
        if self.easy.dim != self.target.dim:
            raise InvalidInput(f"expected easy and target of one dimension, got {self.easy.dim} and {self.target.dim}")

    def inside(self, state: AutoThresholdState) -> Curriculum[Any] | None:
        """The method, once the probe is over."""
        return self.method if state.untrained.size else None

    def init(self, rng: np.random.Generator) -> AutoThresholdState:
        """The first stage: the probe."""
        points = np.concatenate([self.easy.points, self.target.points])
        both = Particles(points, np.concatenate([self.easy.weights, self.target.weights])).merged()
        return AutoThresholdState(both, kind="explore", seen=EpisodeBatch.empty(self.target.dim))

    def update(self, state: AutoThresholdState, episodes: EpisodeBatch, rng: np.random.Generator) -> AutoThresholdState:
        """The state after more episodes: of the probe, or of the method once the probe is over."""
        if not self.has_episodes(state, episodes, rng):
            return state
        seen = state.seen.concatenate(episodes)[-self.memory :]
        state = state.replace(seen=seen, played=state.played + len(episodes))
        inner = state.inner
        if inner is None:
            return self._begin(state, rng)
        state = state.replace(best=max(state.best, self._earned(state.seen)))
        threshold = self._threshold(state, inner.alpha)
        return state.follow(self.method.update(inner.replace(threshold=threshold), episodes, rng))

    def _begin(self, state: AutoThresholdState, rng: np.random.Generator) -> AutoThresholdState:
        """The method's first stage, once the probe has enough episodes, of both kinds."""
        on_target = are_drawn_from(state.seen.contexts, self.target)
        if len(state.seen) < self.probe or on_target.all() or not on_target.any():
            return state
        scores = state.seen.scores(self.score)
        untrained = np.array([scores[~on_target].mean(), scores[on_target].mean()])
        state = state.replace(untrained=untrained, best=self._earned(state.seen))
        inner = self.method.init(rng).replace(threshold=self._threshold(state, 0.0))
        return state.follow(inner.replace(stage=state.stage + 1, event="probed"))

    def _threshold(self, state: AutoThresholdState, alpha: float) -> float:
        easy, hard = state.untrained.tolist()
        untrained = (1 - alpha) * easy + alpha * hard
        if state.best <= (hard if state.played >= self.patience else untrained):
            return state.best + 1e-6 * max(1.0, abs(state.best))  # more than has been seen
        threshold = untrained + self.fraction * (state.best - untrained)
        return float(threshold if state.played < self.patience else min(threshold, hard + MOST * (state.best - hard)))

    def _earned(self, seen: EpisodeBatch) -> float:
        """The estimated score in the better of the contexts seen."""
        scores = seen.scores(self.score)
        contexts = self.space.relax(seen.contexts)
        model = NadarayaWatson(contexts, scores, self.bandwidth, self.space.unit_length)
        return float(np.quantile(model.predict(contexts[::EVERY]), BETTER))
