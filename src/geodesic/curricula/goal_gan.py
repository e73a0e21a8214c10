"""Goal-GAN: generate goals of intermediate difficulty (Florensa et al., ICML 2018)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from geodesic.checks import Count, Fraction, NonNegative, Size
from geodesic.contexts import Arrays, BoundedSpace, EpisodeBatch, FloatArray, Particles
from geodesic.curricula.base import Curriculum, RecentState

LOWEST, HIGHEST = 0.25, 0.75  # success probabilities between which a goal is of intermediate difficulty
APART = 0.01  # least distance of two mastered goals, as a fraction of the space


@dataclass(frozen=True, repr=False)
class GoalGANState(RecentState):
    """A `State` with the networks and the latest episodes.

    Args:
        params: The parameters of both networks.
        mastered: Goals (m, d) that the agent reaches.
    """

    params: dict[str, Any] = field(default_factory=dict)
    mastered: FloatArray = field(default_factory=lambda: np.zeros((0, 1)))


@dataclass(frozen=True)
class GoalGAN(Curriculum[GoalGANState]):
    """A least-squares GAN, pretrained on the source, that learns to draw goals with success in [0.25, 0.75].

    Every `fit_rate` episodes the last `memory` contexts are labelled by their estimated success, and both networks are
    trained on them (`gan.discriminator_loss`, `gan.generator_loss`). If no goal is of intermediate difficulty, they
    stay as they are. A context is the generator's output plus Gaussian noise. With probability `p_old` (the tables'
    "probability to sample state with noise") it is a goal mastered earlier instead, with the same noise, so that it is
    not forgotten. An episode succeeds if the environment says so, else if its score exceeds the threshold.

    Differs from the paper: it repeats each goal a few times to estimate its success; here success is averaged over the
    `neighbours` nearest contexts. The optimizer is reset at each fit. Networks are smaller and trained otherwise than
    the authors', which are `form="original"`; which of the two learns more is undecided (docs/results/notes.md).

    Args:
        source: Goals that the generator is pretrained on.
        space: Where contexts live; bounded.
        threshold: An episode without reported success succeeds above this score.
        noise: The standard deviation of the noise, in sides of the space.
        fit_rate: How many episodes come between two fits.
        p_old: The fraction of contexts that were mastered earlier.
        memory: How many of the latest episodes are labelled, and how many mastered goals are kept.
        neighbours: How many contexts the success of one is averaged over.
        form: The networks and their training (`gan.FORMS`): `"original"`, the authors', or `"small"`.
        fit_steps: Updates of both networks at a fit; None: the form's.
        pretrain_steps: Updates before the first stage; None: the form's.
        particles: How many contexts a stage has.
        score: The score of an episode that is compared with the threshold.
    """

    colour: ClassVar[str | None] = "#CC79A7"

    source: Particles
    space: BoundedSpace
    threshold: float
    noise: NonNegative = 0.05
    fit_rate: Count = 25
    p_old: Fraction = 0.05
    memory: Size = 200
    neighbours: Count = 5
    form: Literal["original", "small"] = "small"
    fit_steps: Count | None = None
    pretrain_steps: Count | None = None
    particles: Size = 500

    def init(self, rng: np.random.Generator) -> GoalGANState:
        """Goals of a generator that is pretrained on the source."""
        from geodesic.curricula import gan

        form = gan.FORMS[self.form]
        n, steps = form.pretrain_goals, self.pretrain_steps or form.pretrain_steps
        goals = self._scaled(self.source.sample(rng, n))
        params = gan.init(self.space.relaxed.dim, rng, form)
        params = gan.train(params, goals, np.ones(n), n, steps, rng, form)
        nothing, none = EpisodeBatch.empty(self.space.dim), np.zeros((0, self.space.dim))
        return GoalGANState(self._draw(params, none, rng), params=params, recent=nothing, mastered=none)

    def update(self, state: GoalGANState, episodes: EpisodeBatch, rng: np.random.Generator) -> GoalGANState:
        """The state after more episodes, with new goals after every `fit_rate` of them."""
        if not self.has_episodes(state, episodes, rng):
            return state
        state = state.absorb(episodes, self.memory, self.score)
        if state.fresh < self.fit_rate:
            return state
        success = self.success(state)
        state = state.replace(mastered=self.collect(state, success), fresh=0)
        labels = (success >= LOWEST) & (success <= HIGHEST)
        if not labels.any():
            return state
        params = self._fit(state, labels.astype(np.float64), rng)
        return state.replace(
            distribution=self._draw(params, state.mastered, rng),
            stage=state.stage + 1,
            event=f"fitted to {int(labels.sum())} goals of intermediate success",
            params=params,
        )

    def success(self, state: GoalGANState) -> FloatArray:
        """Estimate the success in each context in memory by its nearest neighbours, itself included.

        Args:
            state: The state.

        Returns:
            The success rates (n,).
        """
        recent, scaled = state.recent, self._scaled(state.recent.contexts)
        successes = recent.succeeded(self.score, self.threshold)
        squared = (scaled**2).sum(axis=1) - 2.0 * scaled @ scaled.T  # up to a constant for each row
        k = min(self.neighbours, len(scaled))
        nearest = np.argpartition(squared, k - 1, axis=1)[:, :k]
        return np.asarray(successes[nearest].mean(axis=1))

    def collect(self, state: GoalGANState, success: FloatArray) -> FloatArray:
        """Add goals that the agent has mastered since the last fit, unless they are close to known ones.

        Args:
            state: The state.
            success: The success rate (n,) in each context in memory.

        Returns:
            The mastered goals (m, d), the latest `memory` of them.
        """
        fresh = min(state.fresh, len(success))
        candidates = state.recent.contexts[-fresh:][success[-fresh:] > HIGHEST]
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

    def _fit(self, state: GoalGANState, labels: FloatArray, rng: np.random.Generator) -> dict[str, Any]:
        from geodesic.curricula import gan

        count, form = len(labels), gan.FORMS[self.form]
        # always of one shape, so that nothing is compiled twice
        goals = np.zeros((self.memory, self.space.relaxed.dim))
        goals[:count] = self._scaled(state.recent.contexts)
        padded = np.concatenate([labels, np.zeros(self.memory - count)])
        return gan.train(state.params, goals, padded, count, self.fit_steps or form.fit_steps, rng, form)

    def _draw(self, params: dict[str, Any], mastered: FloatArray, rng: np.random.Generator) -> Particles:
        from geodesic.curricula import gan

        old = round(self.p_old * self.particles) if len(mastered) else 0
        box = self.space.relaxed
        goals = gan.sample(params, self.particles, box.dim, rng, gan.FORMS[self.form])
        contexts = box.low + 0.5 * (goals + 1.0) * box.sides
        if old:
            contexts[:old] = self.space.relax(mastered[rng.integers(len(mastered), size=old)])
        return self.space.inside(contexts + self.noise * box.sides * rng.standard_normal(contexts.shape))

    def snapshot(self, state: GoalGANState) -> Arrays:
        """The mastered goals."""
        return {"mastered": state.mastered}

    def _scaled(self, contexts: FloatArray) -> FloatArray:
        """Relaxed contexts (n, m) scaled to [-1, 1]^m."""
        box = self.space.relaxed
        return 2.0 * (self.space.relax(contexts) - box.low) / box.sides - 1.0
