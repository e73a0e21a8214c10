"""SPGL: SPDL's Gaussian step in closed form, after self-paced Gaussian curriculum learning (arXiv 2603.23755)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar, cast

import numpy as np

from geodesic.contexts import FloatArray
from geodesic.curricula.gaussians import KullbackLeibler, Step, Valued, flatten
from geodesic.curricula.spdl import SPDL, SPDLState

HALVINGS = 60  # of the interval of the multiplier, on a logarithmic scale
REACH = 1e12  # how far the multiplier may lie above or below the size of what it is weighed against, as a factor
UNUSED = ("bound", "baseline")  # options of SPDL that have no effect here


class Quadratic:
    """E_p[w + b'z + z'Cz / 2] under the new Gaussian p, with z in coordinates where the old one is N(0, I).

    w, b and C are a ridge regression of values on the Hermite polynomials 1, z_i, z_i z_j and (z_i^2 - 1) / sqrt 2,
    which are orthonormal under the old Gaussian; a coefficient other than the constant costs as much as one episode.

    Args:
        points: Contexts (d, n) in these coordinates, as columns.
        values: The value (n,) in each of them.
    """

    def __init__(self, points: FloatArray, values: FloatArray) -> None:
        d = len(points)
        rows, columns = np.triu_indices(d, 1)
        curved = (points**2 - 1) / math.sqrt(2)
        basis = np.concatenate([points, curved, points[rows] * points[columns]])
        basis = basis - (means := basis.mean(axis=1))[:, None]
        found = np.linalg.solve(basis @ basis.T + np.eye(len(basis)), basis @ (values - values.mean()))
        self.slope = found[:d]
        self.curvature = np.diag(math.sqrt(2) * found[d : 2 * d])
        self.curvature[rows, columns] = self.curvature[columns, rows] = found[2 * d :]
        self.constant = float(values.mean() - means @ found - found[d : 2 * d].sum() / math.sqrt(2))

    def __call__(self, u: FloatArray, a: FloatArray) -> Valued:
        """The expectation and its gradients at the step (u, A)."""
        by_u, by_a = self.slope + self.curvature @ u, self.curvature @ a
        value = self.constant + float(u @ (self.slope + by_u) + (a * by_a).sum()) / 2
        return value, by_u, by_a


class ClosedForm(Step):
    """A step for a quadratic value; its optimum is known up to one multiplier (see `SPGL`)."""

    def solve(self) -> FloatArray | None:
        """The best step as a flat vector; None if there is none that is allowed and better."""
        d = self.dim
        try:
            with np.errstate(all="ignore"):
                u, cov = self.optimum()
                x = flatten(u, np.asarray(np.linalg.cholesky(cov), np.float64))
                x[d : 2 * d] = np.maximum(x[d : 2 * d], self.log_std_floor)
                return self._accept(x, np.zeros_like(x))
        except np.linalg.LinAlgError:
            return None

    def optimum(self) -> tuple[FloatArray, FloatArray]:
        """Mean (d,) and covariance (d, d) of the best Gaussian, where the old one is N(0, I)."""
        value, distance = cast(Quadratic, self.value), cast(KullbackLeibler, self.distance)
        pulled = self.pull * distance.precision - value.curvature
        push = self.pull * distance.precision @ distance.centre + value.slope
        sizes = np.linalg.eigvalsh(pulled)
        least = max(0.0, -float(sizes[0]))  # below it, there is no optimum
        scale = max(float(np.abs(sizes).max()), float(np.abs(push).max()))
        if scale == 0:
            return np.zeros(self.dim), np.eye(self.dim)

        def at(free: float) -> tuple[float, FloatArray, FloatArray]:
            eta = least + scale * free
            precision = (eta * np.eye(self.dim) + pulled) / (eta + self.pull)
            cov = np.asarray(np.linalg.inv(precision), np.float64)
            u = cov @ push / (eta + self.pull)
            log_det = float(np.linalg.slogdet(precision)[1])
            return (float(np.trace(cov) + u @ u) - self.dim + log_det) / 2, u, cov

        low, high = -math.log(REACH), math.log(REACH)
        if at(1 / REACH)[0] <= self.radius:
            return at(1 / REACH)[1:]
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if at(math.exp(middle))[0] <= self.radius else (middle, high)
        return at(math.exp(high))[1:]


@dataclass(frozen=True)
class SPGL(SPDL):
    """SPDL with a closed-form step to the next Gaussian instead of an optimisation.

    SPDL's step maximises E_p[V] - alpha KL(p || target) with KL(p || old) <= max_kl. With a multiplier eta of the
    constraint, its optimum among all distributions is

        p = old^(eta / (eta + alpha)) target^(alpha / (eta + alpha)) exp(V / (eta + alpha)) / Z

    In coordinates in which old = N(0, I) and target = N(c, Q^-1), and for a quadratic V = w + b'z + z'Cz / 2, this is
    the Gaussian with

        precision P = (eta I + alpha Q - C) / (eta + alpha),   mean m = P^-1 (alpha Q c + b) / (eta + alpha)

    KL(p || old) falls with eta, so bisection finds the smallest eta >= 0 that satisfies the constraint and makes P
    positive definite. V is a ridge regression on the episodes of the iteration. alpha, iterations and bounds are
    SPDL's.

    Differs from the paper: this form is derived here from SPDL's objective. The paper announces a closed-form update
    for Gaussian contexts, but only its abstract was available: its formulas, its estimate of V and its settings may
    differ. Differs from SPDL: V enters as a quadratic function instead of importance weights, so the optimum is exact
    for that function, but only as good as the fit. Standard deviations below the bound are raised to it after the step,
    and the step is then shortened if it left the trust region. Where V is neither flat nor quadratic over the width of
    the Gaussian, as at the edge of what the agent can do, the fit is poor and steps may be as well.

    Args:
        source: Contexts the agent can learn from at the start.
        target: The contexts to master.
        space: Where contexts live; bounded.
        worst_return: The lowest score an episode can have.
        source_moments: Mean and covariance of the source; None: those of its particles.
        target_moments: Mean and covariance of the target; None: those of its particles.
        alpha_offset: The number of iterations in which alpha is 0.
        zeta: Scales alpha.
        kl_threshold: The KL to the target up to which standard deviations are bounded from below.
        max_kl: The largest KL of a step.
        steps_per_iteration: Environment steps of an iteration.
        std_lower_bound: The lower bound of the standard deviations, (d,) or one for all; None: none.
        particles: How many samples a stage has.
        idle: The number of iterations without a step.
        bound: No effect; `max_kl` bounds KL(p || old).
        baseline: No effect; the regression has a constant.
        score: The episode score used as V.
    """

    colour: ClassVar[str | None] = "#17BECF"

    @classmethod
    def option_names(cls, **options: Any) -> list[str]:
        """The names of the parameters that `from_problem` takes."""
        return [name for name in super().option_names(**options) if name not in UNUSED]

    def step(self, state: SPDLState) -> ClosedForm:
        """State the optimisation problem of this iteration, with a quadratic value.

        Args:
            state: The state with the episodes of the iteration.

        Returns:
            The problem.
        """
        given = super().step(state)
        parts = {entry.name: getattr(given, entry.name) for entry in fields(given)}
        values = np.maximum(state.pending.scores(self.score) - self.worst_return, 0.0)
        points = state.gaussian.whiten(state.pending.contexts)
        quadratic = Quadratic(points, values / max(float(values.mean()), 1e-12))
        trust = KullbackLeibler(state.gaussian, state.gaussian)
        return ClosedForm(**{**parts, "value": quadratic, "trust": trust})
