"""The paper's Lemma, Theorem and Corollary on random tabular CMDPs, with constants that are fixed before the tests.

The contexts of these CMDPs are their start states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from geodesic.checks import FloatArray, as_count, as_integer, as_rng
from geodesic.contexts import Particles
from geodesic.coupling.plans import IndexArray
from geodesic.metrics.bisimulation import TabularCMDP, contextual_distance
from geodesic.metrics.graph import Matrix
from geodesic.transport.geodesic import Geodesic, wasserstein

GAMMA = 0.9
GOAL = 0
ROUNDING = 1e-8
COARSE, FINE = 5, (10, 20, 40)  # stages of a curriculum


@dataclass(frozen=True)
class Finding:
    """The result of testing one claim.

    Args:
        claim: Its name.
        sentence: The claim in a sentence.
        cases: The number of cases tested.
        worst: The worst value over all cases.
        allowed: The largest value at which the claim holds.
        remark: A remark for the reader.
    """

    claim: str
    sentence: str
    cases: int
    worst: float
    allowed: float
    remark: str = ""

    @property
    def holds(self) -> bool:
        """Whether the claim holds in every case."""
        return bool(self.worst <= self.allowed)

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "FAILS"
        result = f"In {self.cases} cases the worst is {self.worst:.2g}, allowed {self.allowed:.2g}."
        return f"{self.claim} ({verdict}): {self.sentence} {result} {self.remark}".rstrip()


@dataclass(frozen=True, eq=False)
class Case:
    """A CMDP under one policy.

    Args:
        cmdp: The tables.
        policy: The policy: actions (n,) or probabilities (n, A).
        v: Its values (n,).
        metric: The contextual distance under it.
    """

    cmdp: TabularCMDP
    policy: FloatArray | IndexArray
    v: FloatArray
    metric: Matrix


def check(rng: np.random.Generator, cmdps: int = 6, states: int = 12) -> list[Finding]:
    """Test every claim on random CMDPs, half of them deterministic.

    Args:
        rng: The source of randomness.
        cmdps: The number of CMDPs.
        states: The number of states of each.

    Returns:
        One finding per claim.
    """
    states = as_integer(states, "states", 5, 1000)  # the goal, two to start from, two to end in
    problems = [RandomCMDP.draw(as_rng(rng), states, slip=0.3 * (k % 2)) for k in range(as_count(cmdps, "cmdps"))]
    cases = [case for problem in problems for case in _cases(problem, rng)]
    distances = [definition(cases), solvers(problems)]
    lemma = [lemma_states(cases), lemma_distributions(cases, rng), lemma_tight(cases)]
    stages = [theorem(problems), corollary_speed(problems), corollary_gap(problems), mixture(problems)]
    return [*distances, *lemma, *stages]


def _cases(problem: RandomCMDP, rng: np.random.Generator) -> Iterator[Case]:
    """The optimal policy, a random deterministic one (for the deterministic solver), and a random stochastic one."""
    n, actions = problem.cmdp.rewards.shape
    yield Case(problem.cmdp, problem.best, values(problem.cmdp, problem.best), problem.metric)
    single = np.asarray(rng.integers(0, actions, n), dtype=np.intp)
    for policy in (single, rng.dirichlet(np.ones(actions), n)):
        yield Case(problem.cmdp, policy, values(problem.cmdp, policy), distance(problem.cmdp, policy))


def _finding(claim: str, sentence: str, errors: list[float], remark: str = "") -> Finding:
    return Finding(claim, sentence, len(errors), max(errors), ROUNDING, remark)


def definition(cases: list[Case]) -> Finding:
    """Test d(s, t) = |R_s - R_t| + gamma W_d(P_s, P_t), with one plan for every pair."""
    errors = []
    for case in cases:
        rewards, chain = case.cmdp.under(case.policy)
        rows = [Particles(case.metric.support, row) for row in as_probabilities(chain)]
        for s, t in zip(*np.triu_indices(len(rows), 1)):
            step = abs(rewards[s] - rewards[t]) + GAMMA * wasserstein(rows[s], rows[t], case.metric, p=1)
            errors.append(abs(step - case.metric.M[s, t]))
    return _finding("Definition", "d(s, t) = |R_s - R_t| + gamma W_d(P_s, P_t).", errors)


def solvers(problems: list[RandomCMDP]) -> Finding:
    """Test that a deterministic CMDP written as probabilities has the same d* from the stochastic solver."""
    errors = []
    for problem in (problem for problem in problems if problem.cmdp.deterministic):
        steps = np.eye(len(problem.cmdp.rewards))[problem.cmdp.transitions]
        other = distance(TabularCMDP(problem.cmdp.rewards, steps, problem.cmdp.initial), problem.best)
        errors.append(float(np.abs(other.M - problem.metric.M).max()))
    return _finding("Solvers", "the deterministic and the stochastic solver agree.", errors)


def lemma_states(cases: list[Case]) -> Finding:
    """Test the first half: |V(s) - V(t)| <= d(s, t) for every policy."""
    excess = [float((np.abs(case.v[:, None] - case.v) - case.metric.M).max()) for case in cases]
    return _finding("Lemma on states", "|V(s) - V(t)| - d(s, t) <= 0.", excess)


def lemma_distributions(cases: list[Case], rng: np.random.Generator, draws: int = 10) -> Finding:
    """Test the second half: |V(rho) - V(rho')| <= W_d(rho, rho') for every policy."""
    excess = []
    for case in cases:
        for one, two in rng.dirichlet(np.ones(len(case.v)), (draws, 2)):
            a, b = (Particles(case.metric.support, weights) for weights in (one, two))
            excess.append(abs(float((one - two) @ case.v)) - wasserstein(a, b, case.metric, p=1))
    return _finding("Lemma on distributions", "|V(rho) - V(rho')| - W_d(rho, rho') <= 0.", excess)


def lemma_tight(cases: list[Case]) -> Finding:
    """Test that the bound is tight at the goal: d(s, goal) = V(goal) - V(s).

    The goal is absorbing and no reward exceeds its own, so there is one coupling and no sign changes.
    """
    errors = [float(np.abs(case.metric.M[GOAL] - (case.v[GOAL] - case.v)).max()) for case in cases]
    return _finding("Lemma at the goal", "|d(s, goal) - (V(goal) - V(s))| = 0.", errors)


def theorem(problems: list[RandomCMDP]) -> Finding:
    """Test V*(rho') - V^pi_k(rho') <= m W_d*(rho_k, rho') with the m of each CMDP; at rho' = rho_k the gap is 0.

    The second part means that pi_k is optimal for its stage. There W_d* = 0, so no m can hide a gap.
    """
    excess: list[float] = []
    needed = np.array([[_needed(problem, count, excess) for count in (COARSE, *FINE)] for problem in problems])
    constants = np.array([problem.constant for problem in problems])
    sentence = "V*(next) - V_k(next) - m W(stage, next) <= 0, m = max (V* - V_uniform) / nearest d*."
    finer = int((needed[:, 1:].max(axis=1) > needed[:, 0] + ROUNDING).sum())
    remark = (
        f"m is {constants.min():.3g} to {constants.max():.3g}; stages need at most "
        f"{(needed.max(axis=1) / constants).max():.0%} of it. An m just large enough for {COARSE} stages is too small "
        f"for more stages in {finer} of {len(problems)} CMDPs."
    )
    return _finding("Theorem", sentence, excess, remark)


def _needed(problem: RandomCMDP, count: int, excess: list[float]) -> float:
    """The least m that holds for this many stages; appends the excess of each gap over the constant's bound."""
    stages, ratios = problem.stages(count), [0.0]
    excess += [problem.gap(stage, stage) for stage in stages]
    for before, after in pairwise(stages):
        gap, moved = problem.gap(before, after), problem.between(before, after)
        excess.append(gap - problem.constant * moved)
        ratios.append(gap / moved if gap > ROUNDING else 0.0)
    return max(ratios)


def corollary_speed(problems: list[RandomCMDP]) -> Finding:
    """Test W_d*(rho_k, rho_k+1) = step * W_d*(source, target): the stages are evenly spaced."""
    errors = [abs(cmdp.between(*stages) - cmdp.length / count) for cmdp, count, stages in _steps(problems)]
    return _finding("Corollary on speed", "|W(stage, next) - step W(source, target)| = 0.", errors)


def corollary_gap(problems: list[RandomCMDP]) -> Finding:
    """Test V*(rho_k+1) - V^pi_k(rho_k+1) <= m step W_d*(source, target), with the theorem's m."""
    excess = [cmdp.gap(*stages) - cmdp.constant * cmdp.length / count for cmdp, count, stages in _steps(problems)]
    return _finding("Corollary on the value gap", "V*(next) - V_k(next) - m step W(source, target) <= 0.", excess)


def _steps(problems: list[RandomCMDP]) -> Iterator[tuple[RandomCMDP, int, tuple[Particles, Particles]]]:
    """Every two stages in a row of every curriculum, with the number of its steps."""
    for problem in problems:
        for count in FINE:
            for stages in pairwise(problem.stages(count)):
                yield problem, count, stages


def mixture(problems: list[RandomCMDP], count: int = 20) -> Finding:
    """Test that the theory does not separate the geodesic from the mixture (1 - alpha) source + alpha target.

    The mixture has the same W1 speed and obeys the bound, though its mass jumps from source to target. Its W2 steps are
    sqrt(step) W2. Those of the geodesic are shorter if states lie between, and the same if none does.
    """
    worst, ratios, alphas = [], [], np.linspace(0, 1, count + 1)
    for problem in problems:
        source, target, step = problem.path(0.0), problem.path(1.0), problem.length / count
        mixed = [Particles(source.points, (1 - t) * source.weights + t * target.weights) for t in alphas]
        for before, after in pairwise(mixed):
            worst += [abs(problem.between(before, after) - step), problem.gap(before, after) - problem.constant * step]
        hops = [max(problem.between(*ends, p=2) for ends in pairwise(path)) for path in (mixed, problem.stages(count))]
        ratios.append(hops[0] / hops[1])
    sentence = "the linear mixture has the geodesic's W1 speed and obeys the same bound: neither separates the two."
    remark = f"W2 does: the mixture's longest step is {min(ratios):.3g} to {max(ratios):.3g} times the geodesic's."
    return _finding("Not separated", sentence, worst, remark)


@dataclass(frozen=True, eq=False)
class RandomCMDP:
    """A random CMDP with its curriculum.

    Args:
        cmdp: The tables.
        best: The optimal policy (n,).
        metric: d*, the contextual distance under that policy.
        path: The curriculum: alpha -> distribution.
    """

    cmdp: TabularCMDP
    best: IndexArray
    metric: Matrix
    path: Geodesic

    @classmethod
    def draw(cls, rng: np.random.Generator, n: int, slip: float) -> RandomCMDP:
        """Draw a CMDP of n states, with a curriculum from the two best starts besides the goal to the two worst."""
        cmdp = random_cmdp(rng, n, slip)
        best = optimal(cmdp)
        metric = distance(cmdp, best)
        order = np.argsort(-optimal_values(cmdp))
        source, target = (Particles.categorical(np.isin(np.arange(n), part) * 1.0) for part in (order[1:3], order[-2:]))
        return cls(cmdp, best, metric, Geodesic(source, target, metric))

    @cached_property
    def star(self) -> FloatArray:
        """The optimal values V* (n,)."""
        return optimal_values(self.cmdp)

    @cached_property
    def length(self) -> float:
        """The length W_d*(source, target) of the curriculum."""
        return self.between(self.path(0.0), self.path(1.0))

    @cached_property
    def constant(self) -> float:
        """The theorem's m, from the CMDP alone: max_t (V*(t) - V^uniform(t)) / min_{s != t} d*(s, t).

        Mass on a state t that the previous stage does not reach has moved by at least t's distance to its nearest
        neighbour, and loses there at most what a uniformly random policy loses. So m holds for any two stages. The
        paper scales the least distance to 1; its own m is then for values up to 1.
        """
        n = len(self.metric.M)
        nearest = np.where(np.eye(n, dtype=bool), np.inf, self.metric.M).min(axis=1)
        uniform = np.full(self.cmdp.rewards.shape, 1 / self.cmdp.rewards.shape[1])
        return float(((self.star - values(self.cmdp, uniform)) / nearest).max())

    def stages(self, count: int) -> list[Particles]:
        """Split the curriculum into `count` even steps."""
        return [self.path(k / count) for k in range(count + 1)]

    def between(self, a: Particles, b: Particles, p: float = 1) -> float:
        """Compute W_p between two distributions under d*."""
        return wasserstein(a, b, self.metric, p)

    def gap(self, before: Particles, after: Particles) -> float:
        """Compute V*(after) - V^pi(after) for the policy pi that is optimal on the previous stage."""
        return float(after.weights @ (self.star - values(self.cmdp, self.stage_policy(before))))

    def stage_policy(self, stage: Particles) -> FloatArray:
        """Build the policy (n, A) that is pi* on the states that pi* reaches from the stage, and uniform on the others.

        Any policy that equals pi* on the reachable states is optimal for the stage; the paper's proof uses this one.
        """
        n, actions = self.cmdp.rewards.shape
        links = as_probabilities(self.cmdp.under(self.best)[1]) > 0
        reached = stage.weights > 0
        for _ in range(n):
            reached = reached | links[reached].any(axis=0)
        return np.where(reached[:, None], np.eye(actions)[self.best], 1 / actions)


def distance(cmdp: TabularCMDP, policy: FloatArray | IndexArray) -> Matrix:
    """Compute d under a policy, by the deterministic solver if CMDP and policy are deterministic."""
    return contextual_distance(cmdp, policy, GAMMA)


def random_cmdp(rng: np.random.Generator, n: int, slip: float) -> TabularCMDP:
    """Draw a CMDP with four actions: along a ring both ways, along a chord, stay.

    With probability `slip` a move fails and the agent stays. A slip that could lead anywhere would make every stage
    train everywhere, without a gap left to bound. The goal is absorbing. Rewards are in [0, 1 - gamma], the paper's
    bounds, and largest at the goal, so that V <= V(goal).
    """
    states = np.arange(n)
    successors = np.stack([(states + 1) % n, (states - 1) % n, rng.permutation(n), states], axis=1)
    successors[GOAL] = GOAL
    steps = (1 - slip) * np.eye(n)[successors] + slip * np.eye(n)[:, None]
    rewards = np.tile((1 - GAMMA) * rng.uniform(0, 0.5, (n, 1)), (1, 4))
    rewards[GOAL] = 1 - GAMMA
    return TabularCMDP(rewards, successors if slip == 0 else steps, states)


def as_probabilities(chain: FloatArray | IndexArray) -> FloatArray:
    """Convert a chain of next states (n,) or probabilities (n, n) to probabilities."""
    return np.asarray(np.eye(len(chain))[chain] if chain.ndim == 1 else chain, dtype=np.float64)


def values(cmdp: TabularCMDP, policy: FloatArray | IndexArray) -> FloatArray:
    """Compute the values V (n,) of a policy."""
    rewards, chain = cmdp.under(policy)
    return np.asarray(np.linalg.solve(np.eye(len(rewards)) - GAMMA * as_probabilities(chain), rewards))


def action_values(cmdp: TabularCMDP, v: FloatArray) -> FloatArray:
    """Compute Q(s, a) = R(s, a) + gamma E V(s'), shape (n, A)."""
    return cmdp.rewards + GAMMA * (v[cmdp.transitions] if cmdp.deterministic else cmdp.transitions @ v)


def optimal(cmdp: TabularCMDP) -> IndexArray:
    """Find the optimal policy (n,), by policy iteration."""
    n = len(cmdp.rewards)
    policy = np.zeros(n, dtype=np.intp)
    while True:
        q = action_values(cmdp, values(cmdp, policy))
        better = q.max(axis=1) > q[np.arange(n), policy] + 1e-12
        if not better.any():
            return policy
        policy = np.where(better, q.argmax(axis=1), policy)


def optimal_values(cmdp: TabularCMDP) -> FloatArray:
    """Compute V* (n,) by value iteration, independently of the policies that are checked against it."""
    v = np.zeros(len(cmdp.rewards))
    for _ in range(int(np.log(1e-14) / np.log(GAMMA))):
        v = action_values(cmdp, v).max(axis=1)
    return v
