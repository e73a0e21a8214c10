"""Goal-GAN: generate goals of intermediate difficulty (Florensa et al., ICML 2018)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from geodesic.checks import as_count, as_nonnegative, as_share, as_size, check
from geodesic.contexts import Arrays, ContextSpace, Episodes, FloatArray, Particles, as_bounded
from geodesic.curricula.base import Curriculum, State

LOWEST, HIGHEST = 0.25, 0.75  # success probabilities between which a goal is of intermediate difficulty
APART = 0.01  # least distance of two mastered goals, as a share of the space


@dataclass(frozen=True, repr=False)
class GoalGANState(State):
    """params: both networks; contexts (n, d) and successes (n,) of the last episodes, oldest first; mastered (m, d):

    goals that the agent reaches; fresh: episodes since the last fit.
    """

    params: dict[str, Any] = field(default_factory=dict)
    contexts: FloatArray = field(default_factory=lambda: np.zeros((0, 1)))
    successes: FloatArray = field(default_factory=lambda: np.zeros(0))
    mastered: FloatArray = field(default_factory=lambda: np.zeros((0, 1)))
    fresh: int = 0


@dataclass(frozen=True)
class GoalGAN(Curriculum[GoalGANState]):
    """A least-squares GAN, pretrained on the source, that learns to draw goals with success in [0.25, 0.75].

    Every `fit_rate` episodes the last `memory` contexts are labelled by their estimated success and both networks are
    trained on them (`gan.discriminator_loss`, `gan.generator_loss`); without a goal of intermediate difficulty they
    are left alone. A context is the generator's output plus Gaussian noise of `noise` times the space's size. The
    tables' "probability to sample state with noise" is the probability p_old with which, instead, a goal mastered
    earlier is drawn again, with the same noise, so that it is not forgotten.

    Success is what the environment reports, else return > threshold. Differs from the paper: it repeats each goal a
    few times to estimate its success; here the agent draws goals at will, so success is averaged over the
    `neighbours` nearest contexts. Networks have two layers (the authors': 256 and 128 units, 250 steps a
    fit) and their optimiser starts afresh at each fit.
    """

    state_type: ClassVar[type[State]] = GoalGANState

    source: Particles
    space: ContextSpace
    threshold: float
    noise: float = 0.05
    fit_rate: int = 25
    p_old: float = 0.05
    memory: int = 200
    neighbours: int = 5
    fit_steps: int = 30
    pretrain_steps: int = 1000
    particles: int = 500
    generator_width: int = 32
    discriminator_width: int = 32

    def __post_init__(self) -> None:
        check(self, space=as_bounded, noise=as_nonnegative, p_old=as_share, memory=as_size, particles=as_size)
        check(self, fit_rate=as_count, neighbours=as_count, fit_steps=as_count, pretrain_steps=as_count)
        check(self, generator_width=as_size, discriminator_width=as_size)
        super().__post_init__()

    def init(self, rng: np.random.Generator) -> GoalGANState:
        from geodesic.curricula import gan

        d = self.space.dim
        goals = self._scaled(self.source.sample(rng, self.memory))
        params = gan.train(
            gan.init(d, rng, *self._widths), goals, np.ones(self.memory), self.memory, self.pretrain_steps, rng
        )
        none = np.zeros((0, d))
        return GoalGANState(self.draw(params, none, rng), params=params, contexts=none, mastered=none)

    def update(self, state: GoalGANState, episodes: Episodes, rng: np.random.Generator) -> GoalGANState:
        if not self.heard(state, episodes, rng):
            return state
        state = self.absorb(state, episodes)
        if state.fresh < self.fit_rate:
            return state
        success = self.success(state)
        state = state.replace(mastered=self.collect(state, success), fresh=0)
        labels = (success >= LOWEST) & (success <= HIGHEST)
        if not labels.any():
            return state
        params = self.fit(state, labels.astype(np.float64), rng)
        return state.replace(
            distribution=self.draw(params, state.mastered, rng),
            stage=state.stage + 1,
            event=f"fitted to {int(labels.sum())} goals of intermediate success",
            params=params,
        )

    def absorb(self, state: GoalGANState, episodes: Episodes) -> GoalGANState:
        unknown = np.isnan(episodes.successes)
        successes = np.where(unknown, episodes.returns > self.threshold, episodes.successes)
        return state.replace(
            contexts=np.concatenate([state.contexts, episodes.contexts])[-self.memory :],
            successes=np.concatenate([state.successes, successes])[-self.memory :],
            fresh=state.fresh + len(episodes),
        )

    def success(self, state: GoalGANState) -> FloatArray:
        """The success rate (n,) among the nearest neighbours of each remembered context, itself included."""
        scaled = self._scaled(state.contexts)
        squared = (scaled**2).sum(axis=1) - 2.0 * scaled @ scaled.T  # up to a constant for each row
        k = min(self.neighbours, len(scaled))
        nearest = np.argpartition(squared, k - 1, axis=1)[:, :k]
        return np.asarray(state.successes[nearest].mean(axis=1))

    def collect(self, state: GoalGANState, success: FloatArray) -> FloatArray:
        """The mastered goals with the fresh ones that lie apart from them; the oldest go beyond `memory`."""
        fresh = min(state.fresh, len(success))
        candidates = state.contexts[-fresh:][success[-fresh:] > HIGHEST]
        known = np.concatenate([state.mastered, candidates])
        scaled = self._scaled(known)
        near = ((scaled[:, None] - scaled[None, len(state.mastered) :]) ** 2).sum(axis=2) <= (
            2.0 * APART
        ) ** 2 * scaled.shape[1]
        kept = np.ones(len(known), dtype=np.bool_)
        for i in range(len(candidates)):
            row = len(state.mastered) + i
            kept[row] = not near[:row, i][kept[:row]].any()
        return known[kept][-self.memory :]

    def fit(self, state: GoalGANState, labels: FloatArray, rng: np.random.Generator) -> dict[str, Any]:
        from geodesic.curricula import gan

        count = len(labels)
        goals = np.zeros((self.memory, self.space.dim))  # always of one shape, so that nothing is compiled twice
        goals[:count] = self._scaled(state.contexts)
        padded = np.concatenate([labels, np.zeros(self.memory - count)])
        return gan.train(state.params, goals, padded, count, self.fit_steps, rng)

    def draw(self, params: dict[str, Any], mastered: FloatArray, rng: np.random.Generator) -> Particles:
        from geodesic.curricula import gan

        old = round(self.p_old * self.particles) if len(mastered) else 0
        goals = gan.sample(params, self.particles, self.space.dim, rng)
        contexts = self.space.low + 0.5 * (goals + 1.0) * self.space.sides
        if old:
            contexts[:old] = mastered[rng.integers(len(mastered), size=old)]
        return self.space.inside(contexts + self.noise * self.space.sides * rng.standard_normal(contexts.shape))

    def snapshot(self, state: GoalGANState) -> Arrays:
        return {"mastered": state.mastered}

    @property
    def _widths(self) -> tuple[int, int]:
        return self.generator_width, self.discriminator_width

    def _scaled(self, contexts: FloatArray) -> FloatArray:
        """Contexts (n, d) scaled to [-1, 1]^d."""
        return 2.0 * (contexts - self.space.low) / self.space.sides - 1.0
