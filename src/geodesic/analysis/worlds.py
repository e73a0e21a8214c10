"""Random tabular CMDPs whose contexts are their start states, with all that the paper's theory speaks of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from geodesic.contexts import FloatArray, Particles
from geodesic.metrics.bisimulation import IntArray, TabularCMDP, contextual_distance
from geodesic.metrics.graph import Matrix
from geodesic.transport.geodesic import Geodesic, wasserstein

GAMMA = 0.9
GOAL = 0


@dataclass(frozen=True, eq=False)
class World:
    """A CMDP, its optimal policy (n,), d* of that policy, and the curriculum: a distribution for every alpha."""

    cmdp: TabularCMDP
    best: IntArray
    metric: Matrix
    path: Callable[[float], Particles]

    @classmethod
    def draw(cls, rng: np.random.Generator, n: int, slip: float) -> World:
        """From the two best starts apart from the goal to the two worst."""
        cmdp = random_cmdp(rng, n, slip)
        best = optimal(cmdp)
        metric = distance(cmdp, best)
        order = np.argsort(-optimal_values(cmdp))
        source, target = (Particles.categorical(np.isin(np.arange(n), part) * 1.0) for part in (order[1:3], order[-2:]))
        return cls(cmdp, best, metric, curriculum(source, target, metric))

    @cached_property
    def star(self) -> FloatArray:
        """V* (n,)."""
        return optimal_values(self.cmdp)

    @cached_property
    def length(self) -> float:
        """W_d*(source, target)."""
        return self.between(self.path(0.0), self.path(1.0))

    @cached_property
    def constant(self) -> float:
        """The theorem's m, from the CMDP alone: max_t (V*(t) - V^uniform(t)) / min_{s != t} d*(s, t).

        Mass on a state t that the stage before does not reach has moved by at least t's distance to its nearest
        neighbour, and loses there at most what a uniformly random policy loses. So m serves any two stages. The paper
        sets the least distance to 1, and its own m is then for values up to 1.
        """
        n = len(self.metric.M)
        nearest = np.where(np.eye(n, dtype=bool), np.inf, self.metric.M).min(axis=1)
        uniform = np.full(self.cmdp.rewards.shape, 1 / self.cmdp.rewards.shape[1])
        return float(((self.star - values(self.cmdp, uniform)) / nearest).max())

    def stages(self, count: int) -> list[Particles]:
        return [self.path(k / count) for k in range(count + 1)]

    def between(self, a: Particles, b: Particles, p: float = 1) -> float:
        return wasserstein(a, b, self.metric, p)

    def gap(self, before: Particles, after: Particles) -> float:
        """V*(after) - V^pi(after) for pi, the policy that was optimal on the stage before."""
        return float(after.weights @ (self.star - values(self.cmdp, self.stage_policy(before))))

    def stage_policy(self, stage: Particles) -> FloatArray:
        """Probabilities (n, A): pi* on the states that pi* reaches from the stage, uniform on the others.

        Any policy that is pi* where the stage can lead is optimal for the stage; the paper's proof takes this one.
        """
        n, actions = self.cmdp.rewards.shape
        links = as_probabilities(self.cmdp.under(self.best)[1]) > 0
        reached = stage.weights > 0
        for _ in range(n):
            reached = reached | links[reached].any(axis=0)
        return np.where(reached[:, None], np.eye(actions)[self.best], 1 / actions)


def curriculum(source: Particles, target: Particles, metric: Matrix) -> Callable[[float], Particles]:
    return Geodesic(source, target, metric)


def distance(cmdp: TabularCMDP, policy: FloatArray | IntArray) -> Matrix:
    """d of a policy: by the deterministic solver where CMDP and policy are, else by the stochastic one."""
    return contextual_distance(cmdp, policy, GAMMA)


def random_cmdp(rng: np.random.Generator, n: int, slip: float) -> TabularCMDP:
    """Four actions: along a ring both ways, along a chord, stay; with probability `slip` a move fails and one stays.

    A slip leads nowhere else: were every state within its reach, every stage would train everywhere and no gap would
    be left to bound. The goal absorbs. Rewards are in [0, 1 - gamma], the paper's bounds, and largest at the goal, so
    that V <= V(goal).
    """
    states = np.arange(n)
    successors = np.stack([(states + 1) % n, (states - 1) % n, rng.permutation(n), states], axis=1)
    successors[GOAL] = GOAL
    steps = (1 - slip) * np.eye(n)[successors] + slip * np.eye(n)[:, None]
    rewards = np.tile((1 - GAMMA) * rng.uniform(0, 0.5, (n, 1)), (1, 4))
    rewards[GOAL] = 1 - GAMMA
    return TabularCMDP(rewards, successors if slip == 0 else steps, states)


def as_probabilities(chain: FloatArray | IntArray) -> FloatArray:
    """A chain (n,) of next states or (n, n) of probabilities, as the latter."""
    return np.asarray(np.eye(len(chain))[chain] if chain.ndim == 1 else chain, dtype=np.float64)


def values(cmdp: TabularCMDP, policy: FloatArray | IntArray) -> FloatArray:
    """V (n,) of a policy."""
    rewards, chain = cmdp.under(policy)
    return np.asarray(np.linalg.solve(np.eye(len(rewards)) - GAMMA * as_probabilities(chain), rewards))


def action_values(cmdp: TabularCMDP, v: FloatArray) -> FloatArray:
    """Q(s, a) = R(s, a) + gamma E V(s'), shape (n, A)."""
    return cmdp.rewards + GAMMA * (v[cmdp.transitions] if cmdp.deterministic else cmdp.transitions @ v)


def optimal(cmdp: TabularCMDP) -> IntArray:
    """The optimal policy (n,), by policy iteration."""
    n = len(cmdp.rewards)
    policy = np.zeros(n, dtype=np.intp)
    while True:
        q = action_values(cmdp, values(cmdp, policy))
        better = q.max(axis=1) > q[np.arange(n), policy] + 1e-12
        if not better.any():
            return policy
        policy = np.where(better, q.argmax(axis=1), policy)


def optimal_values(cmdp: TabularCMDP) -> FloatArray:
    """V* (n,), by value iteration: it knows nothing of the policy that is to be checked against it."""
    v = np.zeros(len(cmdp.rewards))
    for _ in range(int(np.log(1e-14) / np.log(GAMMA))):
        v = action_values(cmdp, v).max(axis=1)
    return v
