"""The paper's theory, tested: what it states on problems that meet its assumptions, what fails, and what holds instead.

docs/concepts/mathematics.md has the proofs of the corrected bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Generic, TypeVar

import numpy as np
from scipy.linalg import solve_banded

from geodesic.analysis.random_cmdps import Corridor, Problem, as_probabilities, random_problem, values
from geodesic.checks import FloatArray, as_count, as_integer, as_rng
from geodesic.contexts import Particles
from geodesic.coupling.plans import IndexArray
from geodesic.metrics.bisimulation import TabularCMDP, contextual_distance
from geodesic.metrics.graph import Matrix
from geodesic.transport.geodesic import wasserstein

GAMMA = 0.9
ROUNDING = 1e-8
STATED = "What the paper states, on problems that meet its assumptions"
FAILS = "What fails"
INSTEAD = "What holds instead"
WALKS = tuple(product((0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7), (10, 20, 50, 100), (1, 3, 10)))  # p, D, d

AnyProblem = TypeVar("AnyProblem", bound=Problem, covariant=True)
Sides = tuple[float, float]  # of an inequality, left <= right


@dataclass(frozen=True)
class Finding:
    """The result of testing one claim.

    Args:
        part: The part of the report that it belongs to: STATED, FAILS or INSTEAD.
        claim: Its name.
        sentence: The claim in a sentence.
        cases: The number of cases tested.
        worst: The worst value over all cases.
        allowed: The largest value at which the claim holds.
        remark: A remark for the reader.
        quantity: What the worst value is.
    """

    part: str
    claim: str
    sentence: str
    cases: int
    worst: float
    allowed: float
    remark: str = ""
    quantity: str = "error"

    @property
    def holds(self) -> bool:
        """Whether the claim holds in every case."""
        return bool(self.worst <= self.allowed)

    @property
    def confirmed(self) -> bool:
        """Whether the claim holds, or fails if it belongs to those that fail."""
        return self.holds != (self.part == FAILS)

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "FAILS"
        result = f"In {self.cases} cases the worst {self.quantity} is {self.worst:.3g}, allowed {self.allowed:.3g}."
        return f"{self.claim} ({verdict}): {self.sentence} {result} {self.remark}".rstrip()


@dataclass(frozen=True, eq=False)
class Case:
    """A CMDP under one policy.

    Args:
        problem: The CMDP.
        policy: The policy: actions (n,) or probabilities (n, A).
        v: Its values (n,).
        metric: The contextual distance under it.
    """

    problem: Problem
    policy: FloatArray | IndexArray
    v: FloatArray
    metric: Matrix


@dataclass(frozen=True, eq=False)
class Step(Generic[AnyProblem]):
    """Two stages in a row.

    Args:
        problem: The problem.
        count: The number of steps of the curriculum.
        before: The stage that the policy is optimal on.
        after: The next stage.
    """

    problem: AnyProblem
    count: int
    before: Particles
    after: Particles


def check(rng: np.random.Generator, cmdps: int = 6, states: int = 12) -> list[Finding]:
    """Test every claim on random CMDPs, corridors and random walks.

    Args:
        rng: The source of randomness.
        cmdps: The number of random CMDPs, half of them deterministic, and of corridors.
        states: The number of states of each CMDP, and the least length of a corridor.

    Returns:
        One finding per claim, by part.
    """
    states = as_integer(states, "states", 5, 100)  # the goal, two to start from, two to end in
    slips = [0.3 * (k % 2) for k in range(as_count(cmdps, "cmdps"))]
    problems = [random_problem(as_rng(rng), states, slip, GAMMA) for slip in slips]
    corridors = [Corridor.draw(rng, states) for _ in slips]
    cases = [case for problem in problems for case in _cases(problem, rng)]
    walked = [*_steps(corridors)]
    steps: list[Step[Problem]] = [*_steps(problems), *walked]
    stated = [definition(cases), solvers(problems), lemma_states(cases), lemma_distributions(cases, rng)]
    stated += [walk_chance(STATED), walk_time(STATED), stage_policies(steps)]
    stated += [theorem(walked), speed(steps), corollary(walked)]
    fails = [ranges(problems), walk_chance(FAILS), walk_time(FAILS), duality(corridors), same_scale(), twins()]
    instead = [walk_formulas(), losses(steps), corrected_theorem(steps), corrected_constant(walked)]
    instead += [corrected_corollary(walked), tightness(walked), mixture(corridors)]
    return [*stated, *fails, *instead]


def moved(before: Particles, after: Particles, metric: Matrix, p: float = 1) -> float:
    """Compute W_p between two distributions."""
    return wasserstein(before, after, metric, p)


def gap(problem: Problem, before: Particles, after: Particles) -> float:
    """Compute V*(after) - V^pi(after) for the policy pi that is optimal on the stage before."""
    policy = problem.stage_policy(before)
    return float(after.weights @ (problem.star - values(problem.cmdp, policy, problem.gamma)))


def _gap(step: Step[AnyProblem]) -> float:
    return gap(step.problem, step.before, step.after)


def _moved(step: Step[AnyProblem]) -> float:
    return moved(step.before, step.after, step.problem.metric)


def _even(step: Step[AnyProblem]) -> float:
    """An even step's part of W(source, target)."""
    path = step.problem.path
    return moved(path(0.0), path(1.0), step.problem.metric) / step.count


def _cases(problem: Problem, rng: np.random.Generator) -> Iterator[Case]:
    """The optimal policy, a random deterministic one (for the deterministic solver), and a random stochastic one."""
    cmdp, gamma = problem.cmdp, problem.gamma
    n, actions = cmdp.rewards.shape
    yield Case(problem, problem.best, values(cmdp, problem.best, gamma), problem.metric)
    single = np.asarray(rng.integers(0, actions, n), dtype=np.intp)
    for policy in (single, rng.dirichlet(np.ones(actions), n)):
        yield Case(problem, policy, values(cmdp, policy, gamma), contextual_distance(cmdp, policy, gamma))


def _steps(problems: Sequence[AnyProblem]) -> Iterator[Step[AnyProblem]]:
    """Every two stages in a row of every curriculum."""
    for problem in problems:
        for count in problem.counts:
            for before, after in pairwise(problem.stages(count)):
                yield Step(problem, count, before, after)


def _error(part: str, claim: str, sentence: str, errors: list[float]) -> Finding:
    return Finding(part, claim, sentence, len(errors), max(errors), ROUNDING)


def _bound(part: str, claim: str, sentence: str, sides: list[Sides], remark: str = "") -> Finding:
    """A finding about left <= right, by left / right."""
    found = quotients(sides)
    positive = found[found > 0]
    typical = f"The median of those above 0 is {np.median(positive):.3g}." if len(positive) else "None is above 0."
    worst = float(found.max()) if len(found) else np.inf  # nothing was tested
    return Finding(
        part, claim, sentence, len(sides), worst, 1 + ROUNDING, f"{typical} {remark}".rstrip(), "left / right"
    )


def quotients(sides: list[Sides]) -> FloatArray:
    """Compute left / right: 0 where the left side is not positive, infinite where only the right side is not."""
    left, right = np.reshape(sides, (-1, 2)).T
    found = np.where(left > ROUNDING, np.inf, 0.0)
    return np.asarray(np.divide(left, right, out=found, where=(left > ROUNDING) & (right > ROUNDING)))


def definition(cases: list[Case]) -> Finding:
    """Test d(s, t) = |R_s - R_t| + gamma W_d(P_s, P_t), with one plan for every pair."""
    errors = []
    for case in cases:
        rewards, chain = case.problem.cmdp.under(case.policy)
        rows = [Particles(case.metric.support, row) for row in as_probabilities(chain)]
        for s, t in zip(*np.triu_indices(len(rows), 1)):
            rest = wasserstein(rows[s], rows[t], case.metric, p=1)
            errors.append(abs(abs(rewards[s] - rewards[t]) + case.problem.gamma * rest - case.metric.M[s, t]))
    return _error(STATED, "Definition of the distance", "d(s, t) = |R_s - R_t| + gamma W_d(P_s, P_t).", errors)


def solvers(problems: list[Problem]) -> Finding:
    """Test that a deterministic CMDP written as probabilities has the same d* from the stochastic solver."""
    errors = []
    for problem in (problem for problem in problems if problem.cmdp.deterministic):
        cmdp = problem.cmdp
        steps = np.eye(len(cmdp.rewards))[cmdp.transitions]
        other = contextual_distance(TabularCMDP(cmdp.rewards, steps, cmdp.initial), problem.best, problem.gamma)
        errors.append(float(np.abs(other.M - problem.metric.M).max()))
    return _error(STATED, "Its two solvers", "the deterministic and the stochastic solver agree.", errors)


def lemma_states(cases: list[Case]) -> Finding:
    """Test the first half of Lemma A.1, for every policy."""
    sides: list[Sides] = []
    for case in cases:
        pairs = np.triu_indices(len(case.v), 1)
        sides += zip(np.abs(case.v[:, None] - case.v)[pairs], case.metric.M[pairs])
    return _bound(STATED, "Lemma A.1, states", "|V(s) - V(t)| <= d(s, t), for every policy.", sides)


def lemma_distributions(cases: list[Case], rng: np.random.Generator, draws: int = 10) -> Finding:
    """Test the second half of Lemma A.1, for every policy, between random distributions and from the goal to them."""
    sides = []
    for case in cases:
        n = len(case.v)
        goal, ends = np.eye(n)[0], rng.dirichlet(np.ones(n), (2 * draws, 2))
        ends[::2, 0] = goal
        for one, two in ends:
            a, b = (Particles(case.metric.support, weights) for weights in (one, two))
            sides.append((abs(float((one - two) @ case.v)), moved(a, b, case.metric)))
    sentence = "|V(rho) - V(rho')| <= W_d(rho, rho'), for every policy."
    return _bound(STATED, "Lemma A.1, distributions", sentence, sides)


def walk_chance(part: str) -> Finding:
    """Test the probability of Lemma A.2 where it holds, p >= 1/2, or where it does not, below."""
    sides = [(claimed_chance(p, d, most), chance(p, d, most)) for p, most, d in _walks(part)]
    example = f"{chance(0.3, 1, 100):.3f}, claimed at least {claimed_chance(0.3, 1, 100):.3f}."
    sentence = f"P(a walk meets d before -D) >= 1 - 2 d sqrt(D) / (d + D), {_range(part)}."
    return _bound(part, "Lemma A.2, probability", sentence, sides, _broken(sides, example) if part == FAILS else "")


def walk_time(part: str) -> Finding:
    """Test the time of Lemma A.2 where it holds, p >= 1/2, or where it does not, below."""
    sides = [(duration(p, d, most), claimed_duration(p, d, most)) for p, most, d in _walks(part)]
    example = f"{duration(0.3, 1, 100):.0f} steps, claimed at most {claimed_duration(0.3, 1, 100):.0f}."
    sentence = f"E[time until then] <= max(D, sqrt(D / min(1 - 2p, 1))) d, {_range(part)}."
    return _bound(part, "Lemma A.2, time", sentence, sides, _broken(sides, example) if part == FAILS else "")


def _walks(part: str) -> list[tuple[float, int, int]]:
    return [setting for setting in WALKS if (setting[0] < 0.5) == (part == FAILS)]


def _range(part: str) -> str:
    return "p < 1/2" if part == FAILS else "p >= 1/2 (where the square root is not defined: without it)"


def _broken(sides: list[Sides], example: str) -> str:
    count = int((quotients(sides) > 1 + ROUNDING).sum())
    return f"It fails in {count} of all {len(WALKS)} settings. D = 100, d = 1, p = 0.3: {example}"


def chance(p: float, d: int, most: int) -> float:
    """Compute the gambler's ruin: P(a walk of steps +1, with probability p, and -1 meets d before -most)."""
    odds = (1 - p) / p
    if odds == 1:
        return most / (d + most)
    if odds < 1:
        return float((1 - odds**most) / (1 - odds ** (d + most)))
    return float((odds**-d - odds ** -(d + most)) / (1 - odds ** -(d + most)))


def duration(p: float, d: int, most: int) -> float:
    """Compute the expected time until a walk meets d or -most."""
    if p == 0.5:
        return float(d * most)
    return float((chance(p, d, most) * (d + most) - most) / (2 * p - 1))


def claimed_chance(p: float, d: int, most: int) -> float:
    """Compute the paper's lower bound on `chance`, which does not depend on p."""
    return float(1 - 2 * d * np.sqrt(most) / (d + most))


def claimed_duration(p: float, d: int, most: int) -> float:
    """Compute the paper's upper bound on `duration`."""
    return float(max(most, np.sqrt(most / (1 - 2 * p)) if p < 0.5 else 0.0) * d)


def stage_policies(steps: list[Step[Problem]]) -> Finding:
    """Test that the policy of a stage is optimal on it, as steps (ii) and (iii) of the proof need."""
    errors = [abs(gap(step.problem, step.before, step.before)) for step in steps]
    return _error(STATED, "Policy of a stage", "V*(stage) = V_k(stage), for the pi_k of the proof.", errors)


def theorem(walked: list[Step[Corridor]]) -> Finding:
    """Test the theorem on corridors, with rewards in [0, 1 - gamma] and distances in units of the least one.

    No other reading meets the appendix's two ranges at once. There V <= 1, and all mass that leaves the reached states
    moves by at least 1: m = 1 is enough, without a random walk.
    """
    constants = [step.problem.paper_constant for step in walked]
    sides = [(_gap(step), m * _moved(step) / step.problem.unit) for step, m in zip(walked, constants)]
    alone = quotients([(left, right / m) for (left, right), m in zip(sides, constants)]).max()
    slack = f"W could be {1 / quotients(sides).max():.0f} times smaller; with m = 1 the worst is {alone:.3g}."
    remark = f"m is {min(constants):.3g} to {max(constants):.3g} (c_model is not defined for p >= 1/2). {slack}"
    sentence = "V*(next) - V_k(next) <= m W(stage, next), m = 1 + c_model, W in units of the least distance."
    return _bound(STATED, "Theorem", sentence, sides, remark)


def speed(steps: list[Step[Problem]]) -> Finding:
    """Test that stages are evenly spaced."""
    errors = [abs(_moved(step) - _even(step)) for step in steps]
    return _error(STATED, "Corollary, speed", "W(stage, next) = step W(source, target).", errors)


def corollary(walked: list[Step[Corridor]]) -> Finding:
    """Test the corollary on corridors, read as the theorem is."""
    sides = [(_gap(step), step.problem.paper_constant * _even(step) / step.problem.unit) for step in walked]
    sentence = "V*(next) - V_k(next) <= m step W(source, target), with the theorem's m."
    return _bound(STATED, "Corollary, gap", sentence, sides)


def ranges(problems: list[Problem]) -> Finding:
    """Test the appendix's two ranges at once: rewards in [0, 1 - gamma], positive distances of at least 1."""
    found = np.concatenate([problem.metric.M[np.triu_indices(len(problem.star), 1)] for problem in problems])
    remark = f"The largest is {found.max():.3g} and none can exceed 1. "
    remark += "If none were below 1, all would be 1, and no step could lead away from distance 1."
    sentence = "1 <= d*(s, t) for s and t at a positive distance, with rewards in [0, 1 - gamma]."
    return _bound(FAILS, "Ranges of the appendix", sentence, [(1.0, float(each)) for each in found if each > 0], remark)


def duality(corridors: list[Corridor]) -> Finding:
    """Test the dual form of the appendix, whose potentials are in [0, 1]: it computes W of min(d, 1)."""
    sides = []
    for problem in corridors:
        ends, units = (problem.path(0.0), problem.path(1.0)), problem.metric.M / problem.unit
        sides.append((moved(*ends, Matrix(units)), moved(*ends, Matrix(np.minimum(units, 1)))))
    sentence = "W <= max u rho - v rho' over potentials in [0, 1], with distances of at least 1."
    remark = "With potentials in [0, 1] the dual never exceeds 1, the total variation."
    return _bound(FAILS, "Duality of the appendix", sentence, sides, remark)


def same_scale() -> Finding:
    """Test the theorem on corridors with distances as they are, on the scale of the values, as Lemma A.1 needs."""
    sides, broken = [], []
    corridors = [Corridor.make(*each) for each in product((8, 16), (1, 3, 5, 7, 9), (0.9, 0.99))]
    for problem in corridors:
        own = [(_gap(step), problem.paper_constant * _moved(step)) for step in _steps([problem])]
        worst = quotients(own).max()
        if worst > 1 + ROUNDING:
            broken.append(f"D = {problem.length}, p = {problem.p}, gamma = {problem.gamma}: {worst:.2g}")
        sides += own
    remark = f"It fails in {len(broken)} of {len(corridors)} corridors ({'; '.join(broken)})."
    sentence = "V*(next) - V_k(next) <= m W(stage, next), with values and distances on one scale."
    return _bound(FAILS, "Theorem on one scale", sentence, sides, remark)


def twins() -> Finding:
    """Test the theorem without the least distance, on two starts that are alike under the optimal policy."""
    rewards = np.array([1 - GAMMA, 0, 0, 0])[:, None].repeat(2, axis=1)
    cmdp = TabularCMDP(rewards, [[0, 0], [0, 0], [0, 3], [3, 3]], np.arange(4))
    problem = Problem.solve(cmdp, GAMMA, [1], [2])
    step = Step(problem, 1, problem.path(0.0), problem.path(1.0))
    left, right = _gap(step), _moved(step)
    remark = f"Between two starts that are alike under pi* W is {right:g} and the gap {left:.2g}."
    sentence = "V*(next) - V_k(next) <= m W(stage, next) for some m."
    return _bound(FAILS, "Theorem without a least distance", sentence, [(left, right)], remark)


def walk_formulas() -> Finding:
    """Test the exact chance and duration of a walk, which replace Lemma A.2, by solving for all places at once."""
    errors = []
    for p, most, d in WALKS:
        n = d + most - 1  # the places between -most and d
        bands = np.repeat([[-p], [1.0], [p - 1]], n, axis=1)  # x = p x_above + (1 - p) x_below + right side
        right = np.stack([p * (np.arange(n) == n - 1), np.ones(n)], axis=1)
        solved = solve_banded((1, 1), bands, right)[most - 1]
        errors.append(float(np.abs(solved - (chance(p, d, most), duration(p, d, most))).max() / solved[1]))
    sentence = "P = (1 - r^D) / (1 - r^(d + D)) with r = (1 - p) / p, E[time] = ((d + D) P - D) / (2p - 1)."
    return _error(INSTEAD, "Exact random walk", sentence, errors)


def losses(steps: list[Step[Problem]]) -> Finding:
    """Test what a move costs: random actions, until they meet a state that the stage has trained."""
    errors = [abs(_gap(step) - float(step.after.weights @ step.problem.hitting_loss(step.before))) for step in steps]
    sentence = "V*(next) - V_k(next) = E[sum of gamma^n regret(s_n), n < N], N the time to a reached state."
    return _error(INSTEAD, "Loss of a move", sentence, errors)


def corrected_theorem(steps: list[Step[Problem]]) -> Finding:
    """Test the corrected theorem, on every problem: the constant of a step is its largest loss per distance moved."""
    sides = [(_gap(step), _constant(step) * _moved(step)) for step in steps]
    sides = [each for each in sides if each[1] > 0]
    sentence = "V*(next) - V_k(next) <= m W(stage, next), m = max loss(t) / d(t, stage) over new starts t."
    remark = f"The other {len(steps) - len(sides)} steps lead to no new start, and their gap is 0."
    return _bound(INSTEAD, "Corrected theorem", sentence, sides, remark)


def _constant(step: Step[AnyProblem]) -> float:
    """The corrected theorem's m of one step; 0 if it leads to no new start."""
    new = (step.after.weights > 0) & ~step.problem.reached(step.before)
    nearest = step.problem.metric.M[:, step.before.weights > 0].min(axis=1)
    return float((step.problem.hitting_loss(step.before)[new] / nearest[new]).max(initial=0.0))


def corrected_constant(walked: list[Step[Corridor]]) -> Finding:
    """Test the constant that a corridor has before any stage is known."""
    sides = [(_gap(step), step.problem.constant * _moved(step)) for step in walked]
    sentence = "the same on corridors, with one m from gamma, p and the length (docs/concepts/mathematics.md)."
    return _bound(INSTEAD, "Corrected constant", sentence, sides)


def corrected_corollary(walked: list[Step[Corridor]]) -> Finding:
    """Test the corollary with that constant."""
    sides = [(_gap(step), step.problem.constant * _even(step)) for step in walked]
    few = quotients([each for step, each in zip(walked, sides) if step.count == min(step.problem.counts)])
    sentence = "V*(next) - V_k(next) <= m step W(source, target) on corridors, with that m."
    remark = f"With the fewest steps the worst is {few.max():.2g}."
    return _bound(INSTEAD, "Corrected corollary", sentence, sides, remark)


def tightness(walked: list[Step[Corridor]]) -> Finding:
    """Test that the corrected corollary cannot be improved: in every corridor a step loses all of its bound."""
    best: dict[Corridor, float] = {}
    for step in walked:
        fraction = _gap(step) / (step.problem.constant * _even(step))
        best[step.problem] = max(best.get(step.problem, 0.0), fraction)
    sentence = "in every corridor some step loses all that the corrected corollary allows."
    worst = max(1 / fraction if fraction > 0 else np.inf for fraction in best.values())
    return Finding(INSTEAD, "Tightness", sentence, len(best), worst, 1 + ROUNDING, quantity="allowed / lost")


def mixture(corridors: list[Corridor], count: int = 20) -> Finding:
    """Test that the theory does not separate the geodesic from the mixture (1 - alpha) source + alpha target.

    The mixture has the same W1 speed and obeys the same bound, though its mass jumps from source to target. Its W2
    steps are sqrt(step) W2; those of the geodesic are shorter.
    """
    sides, ratios, alphas = [], [], np.linspace(0, 1, count + 1)
    for problem in corridors:
        source, target = problem.path(0.0), problem.path(1.0)
        mixed = [Particles(source.points, (1 - t) * source.weights + t * target.weights) for t in alphas]
        steps = [[Step(problem, count, *ends) for ends in pairwise(path)] for path in (mixed, problem.stages(count))]
        for step in steps[0]:
            sides += [(_moved(step), _even(step)), (_gap(step), problem.constant * _even(step))]
        hops = [max(moved(step.before, step.after, problem.metric, 2) for step in path) for path in steps]
        worst = [max(map(_gap, path)) for path in steps]
        ratios.append((worst[0] / worst[1], hops[0] / hops[1]))
    (low, shortest), (high, longest) = np.min(ratios, axis=0), np.max(ratios, axis=0)
    sentence = "the linear mixture has the geodesic's W1 speed and obeys the corrected corollary."
    remark = f"Neither separates the two. Its largest loss is {low:.2g} to {high:.2g} times the geodesic's. "
    remark += f"W2 does: its longest step is {shortest:.3g} to {longest:.3g} times the geodesic's."
    return _bound(INSTEAD, "Not separated", sentence, sides, remark)
