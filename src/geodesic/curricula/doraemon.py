"""DORAEMON: the most varied contexts in which the agent still succeeds often enough (Tiboni et al., ICLR 2024)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from geodesic.checks import Count, Fraction, Positive, Size
from geodesic.contexts import Arrays, BoundedSpace, EpisodeBatch, FloatArray, Particles
from geodesic.curricula.base import Curriculum, State
from geodesic.errors import InvalidInput

if TYPE_CHECKING:
    from geodesic.curricula.betas import Step

LEAST, LARGEST = 1.0, 110.0  # parameters of a Beta distribution, as in the authors' code
EDGE = 1e-3  # of a side: contexts nearer to its ends count as this far, since densities vanish there


@dataclass(frozen=True, repr=False)
class DORAEMONState(State):
    """A `State` with the Beta distributions and the episodes drawn from them.

    Args:
        params: The parameters a and b (2, d) of each value that can change.
        pending: Episodes of this stage since the last update.
        started: Whether the agent has succeeded often enough once.
        failures: How many updates have failed.
    """

    params: FloatArray = field(default_factory=lambda: np.ones((2, 0)))
    pending: EpisodeBatch = field(default_factory=lambda: EpisodeBatch.empty(1))
    started: bool = False
    failures: int = 0


@dataclass(frozen=True)
class DORAEMON(Curriculum[DORAEMONState]):
    """One Beta distribution for each context value, widened as far as the agent's success rate allows.

    Every `episodes_per_update` episodes of a stage, for phi = (a_1, b_1, ..., a_d, b_d):

        min KL(phi || uniform)  with  mean_i w_i s_i >= success,  KL(phi_old || phi) <= max_kl,  1 <= phi <= 110

    s_i is whether episode i succeeded and w_i = phi(c_i) / phi_old(c_i) the importance weight of its context. If the
    rate under phi_old is too low, first the rate is maximised in the trust region; if it remains too low, this is the
    step. Until the rate has been reached once, there is none. An episode succeeds if the environment says so, else if
    its score exceeds the threshold. The goal is the widest distribution that can be solved, so the target plays no
    part. alpha is the fraction of the first distribution's KL to uniform that has been removed. There is no end.

    Differs from the authors' code: the start has the source's means and standard deviations, as far as the bounds
    allow, theirs is Beta(100, 100); an update takes a number of episodes, not of environment steps; SLSQP with exact
    gradients in the logarithms of the parameters replaces trust-constr. A step that fails is not taken, and counted in
    `state.failures`. Integers and the contexts of a discrete space are those nearest to what is drawn, and have the
    density of the middle of their step. Categories have no order and are refused.

    Args:
        source: Contexts the agent can learn from at the start.
        space: Where contexts live; bounded.
        threshold: An episode without reported success succeeds above this score.
        success: The success rate to keep.
        max_kl: The largest KL of a step; the authors' values are between 0.001 and 0.1.
        episodes_per_update: How many episodes come between two updates.
        particles: How many contexts a stage has.
        score: The score of an episode that is compared with the threshold.
    """

    colour: ClassVar[str | None] = "#1B4F9C"
    follows_threshold: ClassVar[bool] = True

    source: Particles
    space: BoundedSpace
    threshold: float
    success: Fraction = 0.5
    max_kl: Positive = 0.1
    episodes_per_update: Count = 100
    particles: Size = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.space.categories:
            raise InvalidInput(
                "expected contexts without categories for DORAEMON, which draws from Beta distributions, got "
                f"{', '.join(self.space.categories)}; try the methods auto, gradient or learning-progress"
            )

    def init(self, rng: np.random.Generator) -> DORAEMONState:
        """Samples of the Beta distributions that are fitted to the source."""
        nothing = EpisodeBatch.empty(self.space.dim)
        alpha = self._gained(self._first)
        return DORAEMONState(self._draw(self._first, rng), alpha=alpha, params=self._first, pending=nothing)

    def update(self, state: DORAEMONState, episodes: EpisodeBatch, rng: np.random.Generator) -> DORAEMONState:
        """The state after more episodes, with a step after every `episodes_per_update` of its stage."""
        if not self.has_episodes(state, episodes, rng) or not self._free.any():
            return state
        state = state.replace(pending=state.pending.concatenate(episodes.of_stage(state.stage)))
        if len(state.pending) < self.episodes_per_update:
            return state
        step = self.step(state)
        after = state.replace(pending=EpisodeBatch.empty(self.space.dim))
        if not state.started and step.rate(step.old)[0] < self.success:
            return after
        params, event = step.solve(self.success, self.max_kl, (LEAST, LARGEST))
        if params is None:
            return after.replace(started=True, failures=state.failures + 1)
        if np.abs(params - state.params).max() < 1e-6:
            return after.replace(started=True)
        return after.replace(
            distribution=self._draw(params, rng),
            stage=state.stage + 1,
            alpha=self._gained(params),
            event=event + (f", {after.failures} updates failed" if after.failures else ""),
            params=params,
            started=True,
        )

    def step(self, state: DORAEMONState) -> Step:
        """State the optimisation problem of an update.

        Args:
            state: The state with the episodes of the update.

        Returns:
            The problem.
        """
        from geodesic.curricula.betas import Step

        successes = state.pending.succeeded(self.score, self.required(state))
        return Step(state.params, self._unit(state.pending.contexts), successes)

    @cached_property
    def _free(self) -> NDArray[np.bool_]:
        """Which values can change."""
        return np.asarray(self.space.high > self.space.low)

    @cached_property
    def _range(self) -> tuple[FloatArray, FloatArray]:
        """The lower end and the size of what a Beta distribution covers: to half a step outside of discrete values."""
        steps, support = self.space.steps, self.space.support
        if support is not None:
            columns = [np.unique(column) for column in support.T]
            steps = np.array([np.diff(column).min() if len(column) > 1 else 0.0 for column in columns])
        return self.space.low - steps / 2, self.space.high - self.space.low + steps

    def _unit(self, contexts: FloatArray) -> FloatArray:
        """The values of contexts that can change, scaled to (0, 1)."""
        low, size = self._range
        return np.clip((contexts - low)[:, self._free] / size[self._free], EDGE, 1 - EDGE)

    @cached_property
    def _first(self) -> FloatArray:
        """The parameters (2, d) of the distributions with the source's moments, as far as the bounds allow."""
        unit, weights = self._unit(self.source.points), self.source.weights
        mean = weights @ unit
        variance = weights @ (unit - mean) ** 2
        ends = np.stack([mean, 1 - mean])  # a / (a + b) and b / (a + b)
        size = np.minimum(mean * (1 - mean) / np.maximum(variance, 1e-12) - 1, LARGEST / ends.max(axis=0))
        return np.asarray(np.clip(size * ends, LEAST, LARGEST))

    def _gained(self, params: FloatArray) -> float:
        """The fraction of the first distributions' KL to uniform that has been removed."""
        from geodesic.curricula.betas import to_uniform

        whole = to_uniform(self._first)[0]
        return float(np.clip(1 - to_uniform(params)[0] / whole, 0.0, 1.0)) if whole > 0 else 1.0

    def _draw(self, params: FloatArray, rng: np.random.Generator) -> Particles:
        """Samples of the Beta distributions as contexts."""
        low, size = self._range
        unit = np.zeros((self.particles, self.space.dim))
        unit[:, self._free] = rng.beta(params[0], params[1], (self.particles, params.shape[1]))
        return self.space.inside(low + unit * size)

    def snapshot(self, state: DORAEMONState) -> Arrays:
        """The parameters, and how many updates have failed."""
        return {"params": state.params, "failures": np.asarray(state.failures)}
