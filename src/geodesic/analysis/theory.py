"""The paper's Lemma, Theorem and Corollary on random tabular CMDPs, with every constant fixed before it is tested."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from geodesic.analysis import worlds
from geodesic.analysis.worlds import GAMMA, GOAL, World, as_probabilities, values
from geodesic.checks import FloatArray, as_count, as_integer, as_rng
from geodesic.contexts import Particles
from geodesic.metrics.bisimulation import IntArray, TabularCMDP
from geodesic.metrics.graph import Matrix
from geodesic.transport.geodesic import wasserstein

ROUNDING = 1e-8
COARSE, FINE = 5, (10, 20, 40)  # stages of a curriculum


@dataclass(frozen=True)
class Finding:
    """One claim in a sentence, over how many cases, the worst figure of all, the most that was allowed."""

    claim: str
    sentence: str
    cases: int
    worst: float
    allowed: float
    remark: str = ""

    @property
    def holds(self) -> bool:
        return bool(self.worst <= self.allowed)

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "FAILS"
        measured = f"In {self.cases} cases the worst is {self.worst:.2g}, allowed {self.allowed:.2g}."
        return " ".join(part for part in (f"{self.claim} ({verdict}): {self.sentence}", measured, self.remark) if part)

    __rich__ = __str__


@dataclass(frozen=True, eq=False)
class Case:
    """A CMDP under one policy, with its values (n,) and distances."""

    cmdp: TabularCMDP
    policy: FloatArray | IntArray
    v: FloatArray
    metric: Matrix


def check(rng: np.random.Generator, cmdps: int = 6, states: int = 12) -> list[Finding]:
    """Every claim on random CMDPs, half of them deterministic."""
    states = as_integer(states, "states", 5, 1000)  # the goal, two to start from, two to end in
    drawn = [World.draw(as_rng(rng), states, slip=0.3 * (k % 2)) for k in range(as_count(cmdps, "cmdps"))]
    cases = [case for world in drawn for case in _cases(world, rng)]
    return [
        definition(cases),
        solvers(drawn),
        lemma_states(cases),
        lemma_distributions(cases, rng),
        lemma_tight(cases),
        theorem(drawn),
        corollary_speed(drawn),
        corollary_gap(drawn),
        mixture(drawn),
    ]


def _cases(world: World, rng: np.random.Generator) -> Iterator[Case]:
    """The optimal policy, a random one of single actions (the deterministic solver's), and one of probabilities."""
    n, actions = world.cmdp.rewards.shape
    yield Case(world.cmdp, world.best, values(world.cmdp, world.best), world.metric)
    single = np.asarray(rng.integers(0, actions, n), dtype=np.intp)
    for policy in (single, rng.dirichlet(np.ones(actions), n)):
        yield Case(world.cmdp, policy, values(world.cmdp, policy), worlds.distance(world.cmdp, policy))


def definition(cases: list[Case]) -> Finding:
    """d(s, t) = |R_s - R_t| + gamma W_d(P_s, P_t), with W_d by one plan for every pair."""
    errors = []
    for case in cases:
        rewards, chain = case.cmdp.under(case.policy)
        rows = [Particles(case.metric.support, row) for row in as_probabilities(chain)]
        for s, t in zip(*np.triu_indices(len(rows), 1)):
            step = abs(rewards[s] - rewards[t]) + GAMMA * wasserstein(rows[s], rows[t], case.metric, p=1)
            errors.append(abs(step - case.metric.M[s, t]))
    return Finding("Definition", "d(s, t) = |R_s - R_t| + gamma W_d(P_s, P_t).", len(errors), max(errors), ROUNDING)


def solvers(drawn: list[World]) -> Finding:
    """A deterministic CMDP written as probabilities is solved by policy iteration on couplings: the same d*."""
    errors = []
    for world in (world for world in drawn if world.cmdp.deterministic):
        steps = np.eye(len(world.cmdp.rewards))[world.cmdp.transitions]
        other = worlds.distance(TabularCMDP(world.cmdp.rewards, steps, world.cmdp.initial), world.best)
        errors.append(float(np.abs(other.M - world.metric.M).max()))
    return Finding("Solvers", "the deterministic and the stochastic one agree.", len(errors), max(errors), ROUNDING)


def lemma_states(cases: list[Case]) -> Finding:
    """First half: |V(s) - V(t)| <= d(s, t) for every policy."""
    excess = [float((np.abs(case.v[:, None] - case.v) - case.metric.M).max()) for case in cases]
    return Finding("Lemma on states", "|V(s) - V(t)| - d(s, t) <= 0.", len(excess), max(excess), ROUNDING)


def lemma_distributions(cases: list[Case], rng: np.random.Generator, draws: int = 10) -> Finding:
    """Second half: |V(rho) - V(rho')| <= W_d(rho, rho') for every policy."""
    excess = []
    for case in cases:
        for one, two in rng.dirichlet(np.ones(len(case.v)), (draws, 2)):
            a, b = (Particles(case.metric.support, weights) for weights in (one, two))
            excess.append(abs(float((one - two) @ case.v)) - wasserstein(a, b, case.metric, p=1))
    sentence = "|V(rho) - V(rho')| - W_d(rho, rho') <= 0."
    return Finding("Lemma on distributions", sentence, len(excess), max(excess), ROUNDING)


def lemma_tight(cases: list[Case]) -> Finding:
    """The bound is attained at the goal, d(s, goal) = V(goal) - V(s): no smaller d would do, and no larger one is d.

    The goal stays where it is and no reward exceeds its own, so there is one coupling and no sign changes.
    """
    errors = [float(np.abs(case.metric.M[GOAL] - (case.v[GOAL] - case.v)).max()) for case in cases]
    return Finding("Lemma at the goal", "|d(s, goal) - (V(goal) - V(s))| = 0.", len(errors), max(errors), ROUNDING)


def theorem(drawn: list[World]) -> Finding:
    """V*(rho') - V^pi_k(rho') <= m W_d*(rho_k, rho') with m of each CMDP; at rho' = rho_k the gap is 0.

    The second part is what `optimal for the stage` means; there W_d* = 0, so that no m could hide a gap.
    """
    excess: list[float] = []
    needed = np.array([[_needed(world, count, excess) for count in (COARSE, *FINE)] for world in drawn])
    constants = np.array([world.constant for world in drawn])
    sentence = "V*(next) - V_k(next) - m W(stage, next) <= 0, m = max (V* - V_uniform) / nearest d*."
    finer = int((needed[:, 1:].max(axis=1) > needed[:, 0] + ROUNDING).sum())
    remark = (
        f"m is {constants.min():.3g} to {constants.max():.3g}, of which stages need up to "
        f"{(needed.max(axis=1) / constants).max():.0%}. An m that just serves {COARSE} stages fails on finer ones in "
        f"{finer} of {len(drawn)} CMDPs."
    )
    return Finding("Theorem", sentence, len(excess), max(excess), ROUNDING, remark)


def _needed(world: World, count: int, excess: list[float]) -> float:
    """The least m that serves this many stages; appends what is left of each gap beyond the constant's bound."""
    stages, ratios = world.stages(count), [0.0]
    excess += [world.gap(stage, stage) for stage in stages]
    for before, after in pairwise(stages):
        gap, moved = world.gap(before, after), world.between(before, after)
        excess.append(gap - world.constant * moved)
        ratios.append(gap / moved if gap > ROUNDING else 0.0)
    return max(ratios)


def corollary_speed(drawn: list[World]) -> Finding:
    """W_d*(rho_k, rho_k+1) = step * W_d*(source, target): the stages are evenly spaced."""
    errors = [
        abs(world.between(before, after) - world.length / count)
        for world in drawn
        for count in FINE
        for before, after in pairwise(world.stages(count))
    ]
    sentence = "|W(stage, next) - step W(source, target)| = 0."
    return Finding("Corollary on speed", sentence, len(errors), max(errors), ROUNDING)


def corollary_gap(drawn: list[World]) -> Finding:
    """V*(rho_k+1) - V^pi_k(rho_k+1) <= m step W_d*(source, target), with the theorem's m."""
    excess = [
        world.gap(before, after) - world.constant * world.length / count
        for world in drawn
        for count in FINE
        for before, after in pairwise(world.stages(count))
    ]
    sentence = "V*(next) - V_k(next) - m step W(source, target) <= 0."
    return Finding("Corollary on the value gap", sentence, len(excess), max(excess), ROUNDING)


def mixture(drawn: list[World], count: int = 20) -> Finding:
    """What the theory does not tell apart: (1 - alpha) source + alpha target has the same W1 speed and obeys the bound.

    Its mass jumps from source to target, so its W2 steps are sqrt(step) W2. The geodesic's are shorter where states lie
    between; where none does, the two are the same.
    """
    worst, ratios = [], []
    for world in drawn:
        mixed, step = _mixed(world, count), world.length / count
        for before, after in pairwise(mixed):
            worst += [abs(world.between(before, after) - step), world.gap(before, after) - world.constant * step]
        hops = [max(world.between(*ends, p=2) for ends in pairwise(path)) for path in (mixed, world.stages(count))]
        ratios.append(hops[0] / hops[1])
    sentence = "the linear mixture has the same W1 speed and obeys the same bound: neither tells the geodesic from it."
    remark = f"W2 can: the mixture's longest step is {min(ratios):.3g} to {max(ratios):.3g} times the geodesic's."
    return Finding("Not separated", sentence, len(worst), max(worst), ROUNDING, remark)


def _mixed(world: World, count: int) -> list[Particles]:
    """Stages (1 - alpha) source + alpha target, on all contexts."""
    source, target = world.path(0.0), world.path(1.0)
    return [
        Particles(source.points, (1 - alpha) * source.weights + alpha * target.weights)
        for alpha in np.linspace(0, 1, count + 1)
    ]
