"""Random tabular CMDPs whose contexts are their start states: their values, optimal policies and curricula."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from geodesic.checks import FloatArray
from geodesic.contexts import Particles
from geodesic.coupling.plans import IndexArray
from geodesic.metrics.bisimulation import TabularCMDP, contextual_distance
from geodesic.metrics.graph import Matrix
from geodesic.transport.geodesic import Geodesic

GOAL = 0
ACTIONS = 10  # of a corridor


@dataclass(frozen=True, eq=False)
class Problem:
    """A CMDP with its optimal policy, its distance and a curriculum.

    Args:
        cmdp: The tables.
        gamma: The discount.
        best: The optimal policy (n,).
        metric: d*, the contextual distance under that policy.
        path: The curriculum: alpha -> distribution.
    """

    cmdp: TabularCMDP
    gamma: float
    best: IndexArray
    metric: Matrix
    path: Geodesic

    @staticmethod
    def solve(cmdp: TabularCMDP, gamma: float, source: ArrayLike, target: ArrayLike) -> Problem:
        """Find the optimal policy, its distance, and the geodesic between two sets of starts."""
        best = optimal(cmdp, gamma)
        metric = contextual_distance(cmdp, best, gamma)
        states = np.arange(len(best))
        ends = [Particles.categorical(np.isin(states, part) * 1.0) for part in (source, target)]
        return Problem(cmdp, gamma, best, metric, Geodesic(ends[0], ends[1], metric))

    @cached_property
    def star(self) -> FloatArray:
        """The optimal values V* (n,)."""
        return optimal_values(self.cmdp, self.gamma)

    @cached_property
    def regret(self) -> FloatArray:
        """What a uniformly random action costs in each state, V* - mean_a Q* (n,)."""
        return np.asarray(self.star - action_values(self.cmdp, self.star, self.gamma).mean(axis=1))

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of steps that the curriculum is split into."""
        return 5, 10, 20, 40

    def stages(self, count: int) -> list[Particles]:
        """Split the curriculum into `count` even steps."""
        return [self.path(k / count) for k in range(count + 1)]

    def reached(self, stage: Particles) -> np.ndarray:
        """Whether the optimal policy reaches each state (n,) from a stage."""
        links = as_probabilities(self.cmdp.under(self.best)[1]) > 0
        reached = stage.weights > 0
        for _ in range(len(links)):
            reached = reached | links[reached].any(axis=0)
        return reached

    def stage_policy(self, stage: Particles) -> FloatArray:
        """Build the policy (n, A) that is pi* on the states that pi* reaches from the stage, and uniform on the others.

        Any policy that equals pi* on the reached states is optimal for the stage; the paper's proof uses this one.
        """
        actions = self.cmdp.rewards.shape[1]
        return np.where(self.reached(stage)[:, None], np.eye(actions)[self.best], 1 / actions)

    def hitting_loss(self, stage: Particles) -> FloatArray:
        """Compute what random actions cost from each state (n,) until the stage's policy knows what to do.

        E[sum of gamma^n regret(s_n) over n < N], where N is the time at which a random walk meets a reached state.
        """
        new = ~self.reached(stage)
        actions = self.cmdp.rewards.shape[1]
        walk = as_probabilities(self.cmdp.under(np.full((len(new), actions), 1 / actions))[1])
        lost = np.zeros(len(new))
        lost[new] = np.linalg.solve(np.eye(new.sum()) - self.gamma * walk[np.ix_(new, new)], self.regret[new])
        return lost


@dataclass(frozen=True, eq=False)
class Corridor(Problem):
    """A corridor on which every assumption of the paper's appendix holds, with distances in units of the least one.

    State 0 is the goal. In states s = 1 ... length, `towards` of 10 actions lead to s - 1 and the others to s + 1
    (at the end, they stay). The rewards make V*(s) = 1 - unit s, so that d*(s, t) = unit |s - t|, and are in
    [0, 1 - gamma]. The curriculum moves the start from 1 to length - 1.

    Args:
        towards: The number of actions that lead towards the goal.
    """

    towards: int

    @classmethod
    def make(cls, length: int, towards: int, gamma: float) -> Corridor:
        """Make a corridor."""
        states = np.arange(length + 1)
        near, far = np.maximum(states - 1, 0), np.minimum(states + 1, length)
        steps = np.stack([near] * towards + [far] * (ACTIONS - towards), axis=1)
        steps[GOAL] = GOAL
        unit = 1 / (length + gamma / (1 - gamma))
        rewards = (1 - gamma) * (1 - unit * states) - gamma * unit
        rewards[GOAL], rewards[-1] = 1 - gamma, 0.0  # the last one is 0 up to rounding
        cmdp = TabularCMDP(np.tile(rewards[:, None], (1, ACTIONS)), steps, states)
        return cls(**vars(Problem.solve(cmdp, gamma, [1], [length - 1])), towards=towards)

    @classmethod
    def draw(cls, rng: np.random.Generator, shortest: int) -> Corridor:
        """Draw a corridor of at least this length."""
        length, towards = int(rng.integers(shortest, 3 * shortest)), int(rng.integers(1, ACTIONS))
        return cls.make(length, towards, float(rng.choice([0.9, 0.95, 0.99])))

    @property
    def length(self) -> int:
        """The largest distance in units, D."""
        return len(self.cmdp.rewards) - 1

    @property
    def counts(self) -> tuple[int, ...]:
        """Few large steps, and steps of a state and of half a state."""
        moves = self.length - 2
        return 5, 10, moves, 2 * moves

    @property
    def p(self) -> float:
        """The probability that a random action leads towards the goal."""
        return self.towards / ACTIONS

    @property
    def unit(self) -> float:
        """The least positive distance."""
        return float(self.metric.M[0, 1])

    @property
    def paper_constant(self) -> float:
        """The m = 1 + c_model of the paper's proof, with C_1 = 1: a walk meets the block at its nearest state.

            c_model = max(D, sqrt(D / min(1 - 2p, 1))) + C_1 + 1 + 4 / sqrt(D),   D the largest distance in units

        The square root is not defined for p >= 1/2; it is left out there.
        """
        term = np.sqrt(self.length / (1 - 2 * self.p)) if self.p < 0.5 else 0.0
        return float(1 + max(self.length, term) + 2 + 4 / np.sqrt(self.length))

    @property
    def constant(self) -> float:
        """The corrected m: what random actions cost, in units, one state beyond the source.

            m = c (1 - z) - (y - z) (1 + c z^n (1 - z)) / (y^n (y - 1) + z^n (1 - z)),    c = 2 gamma q / (1 - gamma),

        z < 1 < y the roots of gamma q x^2 - x + gamma p, and n the number of states beyond the source. Without an end
        (n infinite) it is c (1 - z), and z = E[gamma^N] for the time N in which a walk comes one state nearer.
        """
        p, q, gamma, n = self.p, 1 - self.p, self.gamma, self.length - 1
        root = np.sqrt(1 - 4 * p * q * gamma**2)
        z, y = (1 - root) / (2 * gamma * q), (1 + root) / (2 * gamma * q)
        c = 2 * gamma * q / (1 - gamma)
        end = (1 + c * z**n * (1 - z)) / ((y - 1) + (z / y) ** n * (1 - z)) / y**n  # y^n may be large
        return float(c * (1 - z) - (y - z) * end)


def random_cmdp(rng: np.random.Generator, n: int, slip: float, gamma: float) -> TabularCMDP:
    """Draw a CMDP with four actions: along a ring both ways, along a chord, stay.

    With probability `slip` a move fails and the agent stays. A slip that could lead anywhere would make every stage
    train everywhere, without a gap left to bound. The goal is absorbing. Rewards are in [0, 1 - gamma], the paper's
    bounds, and largest at the goal.
    """
    states = np.arange(n)
    successors = np.stack([(states + 1) % n, (states - 1) % n, rng.permutation(n), states], axis=1)
    successors[GOAL] = GOAL
    steps = (1 - slip) * np.eye(n)[successors] + slip * np.eye(n)[:, None]
    rewards = np.tile((1 - gamma) * rng.uniform(0, 0.5, (n, 1)), (1, 4))
    rewards[GOAL] = 1 - gamma
    return TabularCMDP(rewards, successors if slip == 0 else steps, states)


def random_problem(rng: np.random.Generator, n: int, slip: float, gamma: float) -> Problem:
    """Draw a CMDP of n states, with a curriculum from the two best starts besides the goal to the two worst."""
    cmdp = random_cmdp(rng, n, slip, gamma)
    order = np.argsort(-optimal_values(cmdp, gamma))
    return Problem.solve(cmdp, gamma, order[1:3], order[-2:])


def as_probabilities(chain: FloatArray | IndexArray) -> FloatArray:
    """Convert a chain of next states (n,) or probabilities (n, n) to probabilities."""
    return np.asarray(np.eye(len(chain))[chain] if chain.ndim == 1 else chain, dtype=np.float64)


def values(cmdp: TabularCMDP, policy: FloatArray | IndexArray, gamma: float) -> FloatArray:
    """Compute the values V (n,) of a policy."""
    rewards, chain = cmdp.under(policy)
    return np.asarray(np.linalg.solve(np.eye(len(rewards)) - gamma * as_probabilities(chain), rewards))


def action_values(cmdp: TabularCMDP, v: FloatArray, gamma: float) -> FloatArray:
    """Compute Q(s, a) = R(s, a) + gamma E V(s'), shape (n, A)."""
    return cmdp.rewards + gamma * (v[cmdp.transitions] if cmdp.deterministic else cmdp.transitions @ v)


def optimal(cmdp: TabularCMDP, gamma: float) -> IndexArray:
    """Find the optimal policy (n,), by policy iteration."""
    n = len(cmdp.rewards)
    policy = np.zeros(n, dtype=np.intp)
    while True:
        q = action_values(cmdp, values(cmdp, policy, gamma), gamma)
        better = q.max(axis=1) > q[np.arange(n), policy] + 1e-12
        if not better.any():
            return policy
        policy = np.where(better, q.argmax(axis=1), policy)


def optimal_values(cmdp: TabularCMDP, gamma: float) -> FloatArray:
    """Compute V* (n,) by value iteration, independently of the policies that are checked against it."""
    v = np.zeros(len(cmdp.rewards))
    for _ in range(int(np.log(1e-14) / np.log(gamma))):
        v = action_values(cmdp, v, gamma).max(axis=1)
    return v
