"""ALP-GMM: train where learning progress is high (Portelas et al., CoRL 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from geodesic.checks import Count, Fraction, Size
from geodesic.contexts import Arrays, BoundedSpace, EpisodeBatch, FloatArray
from geodesic.curricula.base import Curriculum, RecentState

COMPONENTS = range(2, 11)
RIDGE = 1e-6  # added to each variance, so that a component on one point keeps a density
SMALLEST = 10 * np.finfo(np.float64).eps  # mass of a component that no point belongs to


@dataclass(frozen=True, repr=False)
class ALPGMMState(RecentState):
    """A `State` with the latest episodes and the mixture.

    Args:
        failures: How many fits have failed.
        means: The components' means (k, d + 1) in (context, progress), each scaled to [0, 1].
    """

    failures: int = 0
    means: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))


@dataclass(frozen=True)
class ALPGMM(Curriculum[ALPGMMState]):
    """A Gaussian mixture on (context, absolute learning progress), sampled where progress is high.

        ALP(c) = |score(c) - score(nearest earlier context)| / range of all scores

    The neighbour is among the last `max_size` episodes, contexts scaled to the unit cube. Every `fit_rate` episodes,
    mixtures of 2-10 Gaussians are fitted to the last `fit_rate` pairs, and the one of lowest AIC is kept. A component
    is drawn in proportion to its mean ALP, then a context from it; a fraction `random_ratio` of the contexts is
    uniform. Before the first fit all are.

    Differs from the paper: scores are scaled by the range seen so far, as their bounds need not be known; mixtures
    start from k-means++ seeds without k-means, and end when the mean log-likelihood gains less than 0.003, where the
    authors' (scikit-learn's) end at 0.001. A fit that fails keeps the old mixture and is counted.

    Args:
        space: Where contexts live; bounded.
        random_ratio: The fraction of contexts that are uniform.
        fit_rate: How many episodes come between two fits, and are used in one.
        max_size: How many episodes back the nearest earlier context may be.
        particles: How many contexts a stage has.
        score: The score of an episode that progress is measured in.
    """

    colour: ClassVar[str | None] = "#E69F00"

    space: BoundedSpace
    random_ratio: Fraction = 0.2
    fit_rate: Count = 200
    max_size: Count = 1000
    particles: Size = 1000

    def init(self, rng: np.random.Generator) -> ALPGMMState:
        """Uniform contexts."""
        return ALPGMMState(
            self.space.uniform(self.particles, rng),
            recent=EpisodeBatch.empty(self.space.dim),
            means=np.zeros((0, self.space.relaxed.dim + 1)),
        )

    def update(self, state: ALPGMMState, episodes: EpisodeBatch, rng: np.random.Generator) -> ALPGMMState:
        """The state after more episodes, with a new mixture after every `fit_rate` of them."""
        if not self.has_episodes(state, episodes, rng):
            return state
        state = state.absorb(episodes, self.max_size + self.fit_rate, self.score)
        if state.fresh < self.fit_rate:
            return state
        mixture = self._fit(state, rng)
        if mixture is None:
            return state.replace(fresh=0, failures=state.failures + 1)
        return self._enter(state, mixture, rng)

    def changes(self, contexts: FloatArray, scores: FloatArray, known: int) -> FloatArray:
        """Compute |score - score of the nearest earlier context| of each new episode.

        Args:
            contexts: The contexts (n, d) of the episodes, oldest first.
            scores: Their scores (n,).
            known: How many of the first episodes are not new.

        Returns:
            The changes (n - known,); 0 for an episode without an earlier one.
        """
        scaled = self.space.relax(contexts) / self.space.relaxed.sides
        new = np.arange(known, len(scores))[:, None]
        squared = ((scaled[known:, None] - scaled) ** 2).sum(axis=2)
        others = np.arange(len(scores))
        squared[(others >= new) | (others < new - self.max_size)] = np.inf
        nearest = squared.argmin(axis=1)
        nearest[0] = nearest[0] if known else 0
        return np.asarray(np.abs(scores[known:] - scores[nearest]))

    def _fit(self, state: ALPGMMState, rng: np.random.Generator) -> Mixture | None:
        """The mixture of lowest AIC on the last fit_rate (context, ALP) pairs, or None if none could be fitted."""
        recent, known = state.recent, max(len(state.recent) - self.fit_rate, 0)
        changes = self.changes(recent.contexts, recent.scores(self.score), known)
        progress = changes / max(state.high - state.low, 1e-12)
        pairs = np.column_stack([self.space.to_unit(recent.contexts[known:]), progress])
        distinct = len(np.unique(pairs, axis=0))
        try:
            mixtures = fit_mixtures(pairs, [k for k in COMPONENTS if k <= distinct], rng) if distinct > 1 else []
        except np.linalg.LinAlgError:
            return None
        return min(mixtures, key=lambda mixture: mixture.aic, default=None)

    def _enter(self, state: ALPGMMState, mixture: Mixture, rng: np.random.Generator) -> ALPGMMState:
        """The next stage, on contexts sampled from the mixture."""
        progress = np.maximum(mixture.means[:, -1], 0.0)
        fractions = progress / progress.sum() if progress.sum() > 0 else np.full(len(progress), 1.0 / len(progress))
        free = round(self.random_ratio * self.particles)
        counts = rng.multinomial(self.particles - free, fractions)
        drawn = [
            rng.multivariate_normal(mean, cov, size=count, method="cholesky")[:, :-1]
            for mean, cov, count in zip(mixture.means, mixture.covariances, counts)
        ]
        box = self.space.relaxed
        contexts = box.low + np.concatenate(drawn) * box.sides
        if free:
            contexts = np.concatenate([self.space.relax(self.space.draw(free, rng)), contexts])
        return state.replace(
            distribution=self.space.inside(contexts),
            stage=state.stage + 1,
            event=f"mixture of {len(fractions)}" + (f", {state.failures} fits failed" if state.failures else ""),
            fresh=0,
            means=mixture.means,
        )

    def snapshot(self, state: ALPGMMState) -> Arrays:
        """The components' means."""
        return {"means": state.means}


@dataclass(frozen=True, eq=False)
class Mixture:
    """A Gaussian mixture.

    Args:
        weights: Of the components (k,).
        means: Of the components (k, d).
        covariances: Of the components (k, d, d).
        aic: Akaike's information criterion on the points it was fitted to.
    """

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray
    aic: float


def fit_mixtures(
    points: FloatArray, sizes: Sequence[int], rng: np.random.Generator, tol: float = 3e-3, max_iter: int = 100
) -> list[Mixture]:
    """Mixtures of several sizes with full covariances, by expectation maximisation.

    The components of all mixtures are rows of the same arrays, so that an iteration costs a handful of array
    operations. From the same start, each mixture is the one that scikit-learn's GaussianMixture finds, at a fraction
    of its cost. All start from one k-means++ sequence: its first k points are the seeds of k components.

    Args:
        points: Points (n, d).
        sizes: How many components each mixture has.
        rng: Draws the seeds.
        tol: The iterations end when no mixture's mean log-likelihood gains as much.
        max_iter: The most iterations.

    Returns:
        One mixture for each size.
    """
    seeds = points[plus_plus(points, max(sizes), rng)]
    responsibilities = np.concatenate([nearest_seed(points, seeds[:k]) for k in sizes])
    em = _ExpectationMaximisation(points, sizes)
    before = np.full(len(sizes), -np.inf)
    for _ in range(max_iter):
        weights, means, covariances = em.maximise(responsibilities)
        responsibilities, now = em.expect(weights, means, covariances)
        if (now - before < tol).all():
            break
        before = now
    weights, means, covariances = em.maximise(responsibilities)
    now = em.expect(weights, means, covariances)[1]
    n, d = points.shape
    cuts = np.cumsum(sizes)[:-1]
    return [
        Mixture(w, m, c, 2.0 * (len(w) * (d * (d + 1) // 2 + d + 1) - 1) - 2.0 * n * float(score))
        for w, m, c, score in zip(
            np.split(weights, cuts), np.split(means, cuts), np.split(covariances, cuts), now, strict=True
        )
    ]


class _ExpectationMaximisation:
    """Both steps, for all mixtures at once."""

    def __init__(self, points: FloatArray, sizes: Sequence[int]) -> None:
        n, d = points.shape
        self.points = points
        self.squares = np.einsum("ni,nj->nij", points, points).reshape(n, d * d)
        self.starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self.owner = np.repeat(np.arange(len(sizes)), sizes)

    def maximise(self, responsibilities: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weights, means and covariances from the responsibility (k, n) of each component for each point."""
        d = self.points.shape[1]
        mass = responsibilities.sum(axis=1) + SMALLEST
        means = responsibilities @ self.points / mass[:, None]
        seconds = (responsibilities @ self.squares / mass[:, None]).reshape(-1, d, d)
        covariances = seconds - means[:, :, None] * means[:, None, :]
        covariances[:, np.arange(d), np.arange(d)] += RIDGE
        return mass / np.add.reduceat(mass, self.starts)[self.owner], means, covariances

    def expect(self, weights: FloatArray, means: FloatArray, covariances: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The responsibility (k, n) of each component for each point, and each mixture's mean log-likelihood."""
        chol = np.linalg.cholesky(covariances)
        scores = np.linalg.inv(chol) @ (self.points.T - means[:, :, None])
        log_det = np.log(np.einsum("kii->ki", chol)).sum(axis=1)
        log_joint = -0.5 * (scores * scores).sum(axis=1)
        log_joint += (np.log(weights) - log_det - 0.5 * means.shape[1] * np.log(2.0 * np.pi))[:, None]
        top = np.maximum.reduceat(log_joint, self.starts, axis=0)
        joint = np.exp(log_joint - top[self.owner])
        total = np.add.reduceat(joint, self.starts, axis=0)
        return joint / total[self.owner], (np.log(total) + top).mean(axis=1)


def plus_plus(points: FloatArray, k: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Rows drawn one by one in proportion to their squared distance to those already drawn (k-means++)."""
    rows = [int(rng.integers(len(points)))]
    squared = np.full(len(points), np.inf)
    for _ in range(k - 1):
        squared = np.minimum(squared, ((points - points[rows[-1]]) ** 2).sum(axis=1))
        total = squared.sum()
        rows.append(int(rng.choice(len(points), p=squared / total if total > 0 else None)))
    return np.array(rows)


def nearest_seed(points: FloatArray, seeds: FloatArray) -> FloatArray:
    """Responsibilities (k, n) that assign each point to its nearest seed."""
    squared = ((seeds[:, None] - points) ** 2).sum(axis=2)
    return np.asarray(np.arange(len(seeds))[:, None] == squared.argmin(axis=0), dtype=np.float64)
