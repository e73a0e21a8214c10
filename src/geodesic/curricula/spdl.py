"""SPDL: self-paced deep reinforcement learning (Klink et al., NeurIPS 2020; JMLR 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from geodesic.checks import Boolean, Count, Natural, NonNegative, Positive, Size, as_vector
from geodesic.contexts import Arrays, BoundedSpace, EpisodeBatch, FloatArray, Moments, Particles
from geodesic.curricula.base import Curriculum, State
from geodesic.curricula.gaussians import (
    Gaussian,
    ImportanceWeighted,
    KullbackLeibler,
    Step,
    moments,
    reverse_kl,
    unpack,
)
from geodesic.errors import InvalidInput, short_repr

MAX_ALPHA = 1e5  # the benchmark's bound on alpha, reached when the context distribution meets the target


@dataclass(frozen=True, repr=False)
class SPDLState(State):
    """A `State` with a Gaussian and the episodes since the last iteration.

    Args:
        mean: The Gaussian's mean (d,).
        chol: The lower Cholesky factor (d, d) of its covariance.
        pending: Episodes of this stage since the last iteration.
        steps: Environment steps since the last iteration.
        iteration: How many iterations there were.
        failures: How many of them failed.
    """

    mean: FloatArray = field(default_factory=lambda: np.zeros(0))
    chol: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    pending: EpisodeBatch = field(default_factory=lambda: EpisodeBatch.empty(1))
    steps: int = 0
    iteration: int = 0
    failures: int = 0

    @property
    def gaussian(self) -> Gaussian:
        """The distribution that contexts are drawn from."""
        return Gaussian(self.mean, self.chol)

    def absorb(self, episodes: EpisodeBatch) -> SPDLState:
        """Add episodes: steps of all count, but only those that began in this stage were drawn from its Gaussian.

        Args:
            episodes: Episodes that ended.

        Returns:
            The state with them.
        """
        return self.replace(
            pending=self.pending.concatenate(episodes.of_stage(self.stage)),
            steps=self.steps + int(episodes.lengths.sum()),
        )


@dataclass(frozen=True)
class SPDL(Curriculum[SPDLState]):
    """A Gaussian that trades the agent's score against its distance to the target, one small step at a time.

    Every `steps_per_iteration` environment steps:

        max_p E_p[V] - alpha KL(p || target)   with KL(p || old) <= max_kl,
        alpha = 0 in the first alpha_offset of them, then zeta * mean V / KL(old || target).

    The first `idle` iterations pass without a step. V is the score above `worst_return`; E_p[V] weights the episodes of
    this stage by p / old. While KL(old || target) > kl_threshold, the Cholesky diagonal of p, and with it each standard
    deviation, stays above std_lower_bound (or where it already is, if that is lower).

    Differs from the paper: V is the score itself, as curricula do not see the learner's value function, so the weighted
    sum has the mean score as a baseline against noise; and the step is solved by SLSQP with exact gradients instead of
    conjugate gradients and a line search. (The authors' code has `bound="old-new"`, `idle=5` and no baseline.) A step
    that fails or does not improve is not taken; it is counted in `state.failures` and in the next stage's event. Source
    and target become Gaussians: with their moments if given, else with those of the particles, as `state.event` says.
    The agent gets `particles` samples, clipped to the space and rounded to integers where it has some; categories are
    refused.

    Args:
        source: Contexts the agent can learn from at the start.
        target: The contexts to master.
        space: Where contexts live; bounded.
        worst_return: The lowest score an episode can have.
        source_moments: Mean and covariance of the source; None: those of its particles.
        target_moments: Mean and covariance of the target; None: those of its particles.
        alpha_offset: The iterations in which alpha is 0.
        zeta: Scales alpha.
        kl_threshold: The KL to the target up to which standard deviations are bounded from below; without a bound, as
            in the paper's FetchPush, it has no effect.
        max_kl: The largest KL of a step.
        steps_per_iteration: Environment steps of an iteration.
        std_lower_bound: The lower bound of the standard deviations, (d,) or one for all; None: none.
        particles: How many samples a stage has.
        idle: The iterations that pass without a step.
        bound: What `max_kl` bounds: `"new-old"`, KL(p || old), or `"old-new"`, KL(old || p).
        baseline: Whether the mean score is subtracted before episodes are weighted.
        score: The score of an episode that V is.
    """

    colour: ClassVar[str | None] = "#56B4E9"

    source: Particles
    target: Particles
    space: BoundedSpace
    worst_return: float = 0.0
    source_moments: Moments | None = None
    target_moments: Moments | None = None
    alpha_offset: Natural = 0
    zeta: Positive = 1.0
    kl_threshold: NonNegative = 20.0
    max_kl: Positive = 0.05
    steps_per_iteration: Count = 2048
    std_lower_bound: Sequence[float] | float | None = None
    particles: Size = 500
    idle: Natural = 0
    bound: Literal["new-old", "old-new"] = "new-old"
    baseline: Boolean = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.space.categories:
            name, found = type(self).__name__, ", ".join(self.space.categories)
            raise InvalidInput(
                f"expected contexts without categories for {name}, which draws from a Gaussian, got {found}; "
                "try the methods auto, gradient or currot"
            )
        if (self.std_floor <= 0).any():
            raise InvalidInput(f"expected std_lower_bound to be positive, got {short_repr(self.std_lower_bound)}")

    @cached_property
    def std_floor(self) -> FloatArray:
        """std_lower_bound (d,); without one, a bound that keeps covariances invertible."""
        if self.std_lower_bound is None:
            return self._tiny
        return as_vector(self.std_lower_bound, "std_lower_bound", self.space.dim)

    @property
    def _tiny(self) -> FloatArray:
        return 1e-4 * self.space.sides

    @cached_property
    def start(self) -> Gaussian:
        """The source as a Gaussian."""
        return Gaussian.fit(*moments(self.source, self.source_moments), self.std_floor)

    @cached_property
    def goal(self) -> Gaussian:
        """The target as a Gaussian."""
        return Gaussian.fit(*moments(self.target, self.target_moments), self._tiny)

    def init(self, rng: np.random.Generator) -> SPDLState:
        """Samples of the source's Gaussian."""
        fitted = [name for name in ("source", "target") if getattr(self, f"{name}_moments") is None]
        return SPDLState(
            self.space.inside(self.start.sample(self.particles, rng)),
            event=f"start, Gaussian fitted to {' and '.join(fitted)}" if fitted else "start",
            mean=self.start.mean,
            chol=self.start.chol,
            pending=EpisodeBatch.empty(self.space.dim),
        )

    def update(self, state: SPDLState, episodes: EpisodeBatch, rng: np.random.Generator) -> SPDLState:
        """The state after more episodes, with a step after every `steps_per_iteration` environment steps."""
        if not self.has_episodes(state, episodes, rng):
            return state
        state = state.absorb(episodes)
        if state.steps < self.steps_per_iteration or len(state.pending) < 2:
            return state
        surplus = state.steps % self.steps_per_iteration  # counts for the next iteration: episodes arrive in batches
        nothing = EpisodeBatch.empty(self.space.dim)
        after = state.replace(pending=nothing, steps=surplus, iteration=state.iteration + 1)
        if state.iteration < self.idle:
            return after
        step = self.step(state).solve()
        if step is None:
            return after.replace(failures=after.failures + 1)
        if np.abs(step).max() < 1e-9:
            return after
        return self._enter(after, after.gaussian.moved(*unpack(step, self.space.dim)), rng)

    def step(self, state: SPDLState) -> Step:
        """State the optimisation problem of this iteration; its objective is divided by the mean of V.

        Args:
            state: The state with the episodes of the iteration.

        Returns:
            The problem.
        """
        old = state.gaussian
        values = np.maximum(state.pending.scores(self.score) - self.worst_return, 0.0)
        mean = max(float(values.mean()), 1e-12)
        far = old.kl(self.goal)
        competent = state.iteration >= self.idle + self.alpha_offset and values.any()
        bounded = self.std_lower_bound is not None and far > self.kl_threshold
        floor = self.std_floor if bounded else self._tiny
        return Step(
            value=ImportanceWeighted(old, state.pending.contexts, values / mean, self.baseline),
            distance=KullbackLeibler(old, self.goal),
            trust=KullbackLeibler(old, old) if self.bound == "new-old" else reverse_kl,
            pull=min(self.zeta / max(far, 1e-10), MAX_ALPHA / mean) if competent else 0.0,
            radius=self.max_kl,
            log_std_floor=np.minimum(np.log(floor / old.chol.diagonal()), 0.0),
        )

    def _enter(self, state: SPDLState, gaussian: Gaussian, rng: np.random.Generator) -> SPDLState:
        unit = self.space.unit_length
        whole = self.start.wasserstein(self.goal, unit)
        left = gaussian.wasserstein(self.goal, unit)
        return state.replace(
            distribution=self.space.inside(gaussian.sample(self.particles, rng)),
            stage=state.stage + 1,
            alpha=float(np.clip(1.0 - left / whole, 0.0, 1.0)) if whole else 1.0,
            event=f"iteration {state.iteration}" + (f", {state.failures} failed" if state.failures else ""),
            mean=gaussian.mean,
            chol=gaussian.chol,
        )

    def snapshot(self, state: SPDLState) -> Arrays:
        """The Gaussian, and how many steps have failed."""
        return {"mean": state.mean, "cov": state.chol @ state.chol.T, "failures": np.asarray(state.failures)}
