"""SPDL: self-paced deep reinforcement learning (Klink et al., NeurIPS 2020; JMLR 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import ClassVar, Literal

import numpy as np

from geodesic.checks import (
    as_count,
    as_flag,
    as_integer,
    as_name,
    as_nonnegative,
    as_positive,
    as_size,
    as_vector,
    check,
)
from geodesic.contexts import Arrays, ContextSpace, Episodes, FloatArray, Particles, as_bounded
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
from geodesic.errors import InvalidInput, shown

BOUNDS = ("new-old", "old-new")  # which of the two distributions the KL bound takes its mean under
MAX_ALPHA = 1e5  # the benchmark's bound on alpha, reached when the context distribution meets the target


@dataclass(frozen=True, repr=False)
class SPDLState(State):
    """The Gaussian, the episodes and environment steps since the last iteration, iterations, failed iterations."""

    mean: FloatArray = field(default_factory=lambda: np.zeros(0))
    chol: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    pending: Episodes = field(default_factory=lambda: Episodes.empty(1))
    steps: int = 0
    iteration: int = 0
    failures: int = 0

    @property
    def gaussian(self) -> Gaussian:
        return Gaussian(self.mean, self.chol)

    def absorb(self, episodes: Episodes) -> SPDLState:
        """Steps of all episodes count; only those that began in this stage were drawn from its distribution."""
        return self.replace(
            pending=self.pending.followed_by(episodes.of_stage(self.stage)),
            steps=self.steps + int(episodes.lengths.sum()),
        )


@dataclass(frozen=True)
class SPDL(Curriculum[SPDLState]):
    """A Gaussian that trades the agent's return against its distance to the target, one small step at a time.

    Every `steps_per_iteration` environment steps:

        max_p E_p[V] - alpha KL(p || target)   with KL(p || old) <= max_kl,
        alpha = 0 in the first alpha_offset of them, then zeta * mean V / KL(old || target).

    The first `idle` iterations pass without a step. V is the return above `worst_return`; E_p[V] weighs the episodes
    of this stage by p / old. While
    KL(old || target) > kl_threshold, the Cholesky diagonal of p, and with it each standard deviation, stays above
    std_lower_bound (or where it already is, if that is lower).

    Differs from the paper: V is the return itself, as no learner's value function is at hand, so the weighted sum has
    the mean return as its `baseline` against the noise; and the step is solved by SLSQP with exact gradients in place
    of conjugate gradients and a line search. (The authors' code has `bound="old-new"`, KL(old || p), `idle=5` and no
    baseline.) A step that fails or is no improvement is not taken, counted in `state.failures` and named in the next
    stage's event. Source and target are taken as Gaussians: their moments where stated, else those of the particles;
    `state.event` says so. The agent gets `particles` samples, clipped.
    """

    state_type: ClassVar[type[State]] = SPDLState

    source: Particles
    target: Particles
    space: ContextSpace
    worst_return: float = 0.0
    source_moments: tuple[FloatArray, FloatArray] | None = None
    target_moments: tuple[FloatArray, FloatArray] | None = None
    alpha_offset: int = 0
    zeta: float = 1.0
    kl_threshold: float = 20.0
    max_kl: float = 0.05
    steps_per_iteration: int = 2048
    std_lower_bound: Sequence[float] | float | None = None
    particles: int = 500
    idle: int = 0
    bound: Literal["new-old", "old-new"] = "new-old"
    baseline: bool = True

    def __post_init__(self) -> None:
        check(self, space=as_bounded, zeta=as_positive, max_kl=as_positive, kl_threshold=as_nonnegative)
        check(self, alpha_offset=as_integer, steps_per_iteration=as_count, particles=as_size)
        check(self, idle=as_integer, baseline=as_flag, bound=partial(as_name, known=BOUNDS))
        super().__post_init__()
        if (self.std_floor <= 0).any():
            raise InvalidInput(f"expected std_lower_bound to be positive, got {shown(self.std_lower_bound)}")

    @cached_property
    def std_floor(self) -> FloatArray:
        """std_lower_bound (d,); without one, what keeps a covariance invertible."""
        if self.std_lower_bound is None:
            return self._tiny
        return as_vector(self.std_lower_bound, "std_lower_bound", self.space.dim)

    @property
    def _tiny(self) -> FloatArray:
        return 1e-4 * self.space.sides

    @cached_property
    def start(self) -> Gaussian:
        return Gaussian.fit(*moments(self.source, self.source_moments), self.std_floor)

    @cached_property
    def goal(self) -> Gaussian:
        return Gaussian.fit(*moments(self.target, self.target_moments), self._tiny)

    def init(self, rng: np.random.Generator) -> SPDLState:
        fitted = [name for name in ("source", "target") if getattr(self, f"{name}_moments") is None]
        return SPDLState(
            self.space.inside(self.start.sample(self.particles, rng)),
            event=f"start, Gaussian fitted to {' and '.join(fitted)}" if fitted else "start",
            mean=self.start.mean,
            chol=self.start.chol,
            pending=Episodes.empty(self.space.dim),
        )

    def update(self, state: SPDLState, episodes: Episodes, rng: np.random.Generator) -> SPDLState:
        if not self.heard(state, episodes, rng):
            return state
        state = state.absorb(episodes)
        if state.steps < self.steps_per_iteration or len(state.pending) < 2:
            return state
        surplus = state.steps % self.steps_per_iteration  # counts for the next iteration: reports come in segments
        nothing = Episodes.empty(self.space.dim)
        after = state.replace(pending=nothing, steps=surplus, iteration=state.iteration + 1)
        if state.iteration < self.idle:
            return after
        step = self.step(state).solve()
        state = after
        if step is None:
            return state.replace(failures=state.failures + 1)
        if np.abs(step).max() < 1e-9:
            return state
        return self.enter(state, state.gaussian.moved(*unpack(step, self.space.dim)), rng)

    def step(self, state: SPDLState) -> Step:
        """The optimisation problem of this iteration; the objective is divided by the mean of V."""
        old = state.gaussian
        values, mean = self.gains(state.pending.returns)
        distance = KullbackLeibler(old, self.goal)
        now = max(distance(np.zeros(old.dim), np.eye(old.dim))[0], 1e-10)
        competent = state.iteration >= self.idle + self.alpha_offset and values.any()
        bounded = self.std_lower_bound is not None and old.kl(self.goal) > self.kl_threshold
        floor = self.std_floor if bounded else self._tiny
        return Step(
            value=ImportanceWeighted(old, state.pending.contexts, values, self.baseline),
            distance=distance,
            trust=KullbackLeibler(old, old) if self.bound == "new-old" else reverse_kl,
            pull=min(self.zeta / now, MAX_ALPHA / mean) if competent else 0.0,
            radius=self.max_kl,
            log_std_floor=np.minimum(np.log(floor / old.chol.diagonal()), 0.0),
        )

    def gains(self, returns: FloatArray) -> tuple[FloatArray, float]:
        """V (n,) in units of its mean, and that mean."""
        values = np.maximum(returns - self.worst_return, 0.0)
        mean = max(float(values.mean()), 1e-12)
        return values / mean, mean

    def enter(self, state: SPDLState, gaussian: Gaussian, rng: np.random.Generator) -> SPDLState:
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
        return {"mean": state.mean, "cov": state.chol @ state.chol.T, "failures": np.asarray(state.failures)}
