"""ALP-GMM: teach where learning progress is (Portelas et al., CoRL 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from geodesic.checks import as_count, as_share, as_size, check
from geodesic.contexts import Arrays, ContextSpace, Episodes, FloatArray, as_bounded
from geodesic.curricula.base import Curriculum, State
from geodesic.curricula.mixtures import Mixture, fit_mixtures

COMPONENTS = range(2, 11)


@dataclass(frozen=True, repr=False)
class ALPGMMState(State):
    """The last episodes, oldest first: contexts (n, d), returns (n,) and the return's change (n,) at each; and

    fresh: episodes since the last fit; low, high: the range of all returns so far; failures: fits that failed;
    means (k, d + 1): components in (context, progress), both scaled to [0, 1].
    """

    contexts: FloatArray = field(default_factory=lambda: np.zeros((0, 1)))
    returns: FloatArray = field(default_factory=lambda: np.zeros(0))
    changes: FloatArray = field(default_factory=lambda: np.zeros(0))
    fresh: int = 0
    low: float = math.inf
    high: float = -math.inf
    failures: int = 0
    means: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))


@dataclass(frozen=True)
class ALPGMM(Curriculum[ALPGMMState]):
    """A Gaussian mixture on (context, absolute learning progress), drawn from where progress is high.

        ALP(c) = |return(c) - return(nearest earlier context)| / range of all returns

    The neighbour is looked for among the last `max_size` episodes, contexts scaled to the unit cube. Every `fit_rate`
    episodes, mixtures of 2-10 Gaussians are fitted to the last `fit_rate` pairs and the one of lowest AIC is kept.
    A component is drawn in proportion to its mean ALP, then a context from it; a share `random_ratio` of the contexts
    is uniform. All are, before the first fit.

    Differs from the paper: returns are scaled by the range seen so far, as their bounds need not be known; mixtures
    start from k-means++ seeds without k-means. A fit that fails keeps the old mixture and is counted.
    """

    state_type: ClassVar[type[State]] = ALPGMMState

    space: ContextSpace
    random_ratio: float = 0.2
    fit_rate: int = 200
    max_size: int = 1000
    particles: int = 1000

    def __post_init__(self) -> None:
        check(self, space=as_bounded, random_ratio=as_share, fit_rate=as_count, max_size=as_count, particles=as_size)
        super().__post_init__()

    def init(self, rng: np.random.Generator) -> ALPGMMState:
        return ALPGMMState(
            self.space.uniform(self.particles, rng),
            contexts=np.zeros((0, self.space.dim)),
            means=np.zeros((0, self.space.dim + 1)),
        )

    def update(self, state: ALPGMMState, episodes: Episodes, rng: np.random.Generator) -> ALPGMMState:
        if not self.heard(state, episodes, rng):
            return state
        state = self.absorb(state, episodes)
        if state.fresh < self.fit_rate:
            return state
        mixture = self.fit(state, rng)
        if mixture is None:
            return state.replace(fresh=0, failures=state.failures + 1)
        return self.enter(state, mixture, rng)

    def absorb(self, state: ALPGMMState, episodes: Episodes) -> ALPGMMState:
        """Note each episode's change of return against its nearest neighbour among the max_size before it."""
        kept = max(self.max_size, self.fit_rate)
        contexts = np.concatenate([state.contexts, episodes.contexts])
        returns = np.concatenate([state.returns, episodes.returns])
        changes = np.concatenate([state.changes, self.changes(contexts, returns, len(state.returns))])
        return state.replace(
            contexts=contexts[-kept:],
            returns=returns[-kept:],
            changes=changes[-kept:],
            fresh=state.fresh + len(episodes),
            low=min(state.low, float(episodes.returns.min())),
            high=max(state.high, float(episodes.returns.max())),
        )

    def changes(self, contexts: FloatArray, returns: FloatArray, known: int) -> FloatArray:
        """|return - return of the nearest earlier context| of all but the first `known` episodes; 0 for the first."""
        scaled = contexts / self.space.sides
        new = np.arange(known, len(returns))[:, None]
        squared = ((scaled[known:, None] - scaled) ** 2).sum(axis=2)
        others = np.arange(len(returns))
        squared[(others >= new) | (others < new - self.max_size)] = np.inf
        nearest = squared.argmin(axis=1)
        nearest[0] = nearest[0] if known else 0
        return np.asarray(np.abs(returns[known:] - returns[nearest]))

    def fit(self, state: ALPGMMState, rng: np.random.Generator) -> Mixture | None:
        """The mixture of lowest AIC on the last fit_rate (context, ALP) pairs, or nothing if none could be fitted."""
        recent = slice(-self.fit_rate, None)
        progress = state.changes[recent] / max(state.high - state.low, 1e-12)
        pairs = np.column_stack([(state.contexts[recent] - self.space.low) / self.space.sides, progress])
        distinct = len(np.unique(pairs, axis=0))
        try:
            mixtures = fit_mixtures(pairs, [k for k in COMPONENTS if k <= distinct], rng) if distinct > 1 else []
        except np.linalg.LinAlgError:
            return None
        return min(mixtures, key=lambda mixture: mixture.aic, default=None)

    def enter(self, state: ALPGMMState, mixture: Mixture, rng: np.random.Generator) -> ALPGMMState:
        progress = np.maximum(mixture.means[:, -1], 0.0)
        shares = progress / progress.sum() if progress.sum() > 0 else np.full(len(progress), 1.0 / len(progress))
        free = round(self.random_ratio * self.particles)
        counts = rng.multinomial(self.particles - free, shares)
        drawn = [
            rng.multivariate_normal(mean, cov, size=count, method="cholesky")[:, :-1]
            for mean, cov, count in zip(mixture.means, mixture.covariances, counts)
        ]
        contexts = self.space.low + np.concatenate(drawn) * self.space.sides
        if free:
            contexts = np.concatenate([self.space.draw(free, rng), contexts])
        return state.replace(
            distribution=self.space.inside(contexts),
            stage=state.stage + 1,
            event=f"mixture of {len(shares)}" + (f", {state.failures} fits failed" if state.failures else ""),
            fresh=0,
            means=mixture.means,
        )

    def snapshot(self, state: ALPGMMState) -> Arrays:
        return {"means": state.means}
