"""The paper's Lemma, Theorem and Corollary, checked on random tabular CMDPs whose contexts are their start states."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from geodesic.contexts import FloatArray, Particles
from geodesic.metrics.bisimulation import IntArray, TabularCMDP, contextual_distance
from geodesic.metrics.graph import Matrix
from geodesic.transport.geodesic import Geodesic, wasserstein

GAMMA = 0.9
STAGES = 10
ROUNDING = 1e-8


@dataclass(frozen=True)
class Finding:
    """One claim: what was measured over how many cases, the worst figure, and whether the claim held."""

    claim: str
    measured: str
    cases: int
    worst: float
    holds: bool

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "FAILS"
        return f"{self.claim:<10} {verdict}  {self.measured}: {self.worst:.3g} over {self.cases} cases"

    __rich__ = __str__


def check(rng: np.random.Generator, cmdps: int = 6, states: int = 12) -> list[Finding]:
    """Every claim on random CMDPs, half of them deterministic."""
    worlds = [World.draw(rng, states, slip=0.3 * (k % 2)) for k in range(cmdps)]
    return [lemma(worlds, rng), theorem(worlds), corollary(worlds)]


@dataclass(frozen=True, eq=False)
class World:
    """A random CMDP with one start state per context, its optimal policy (n,), and the geodesic's stages under d*."""

    cmdp: TabularCMDP
    best: IntArray
    metric: Matrix
    length: float
    stages: list[Particles]

    @classmethod
    def draw(cls, rng: np.random.Generator, n: int, slip: float) -> World:
        """Steps to the neighbours of a ring with chords, a goal that absorbs, rewards in [0, 1 - gamma]."""
        cmdp = random_cmdp(rng, n, slip)
        best = optimal(cmdp)
        metric = contextual_distance(cmdp, best, GAMMA)
        order = np.argsort(-values(cmdp, best))
        ends = [Particles.categorical(np.isin(np.arange(n), part) * 1.0) for part in (order[1:3], order[-2:])]
        path = Geodesic(ends[0], ends[1], metric)
        return cls(cmdp, best, metric, path.length, [path(k / STAGES) for k in range(STAGES + 1)])


def lemma(worlds: list[World], rng: np.random.Generator) -> Finding:
    """|V(s) - V(t)| <= d(s, t) for every policy."""
    gaps = []
    for world in worlds:
        n, actions = world.cmdp.rewards.shape
        policy = rng.dirichlet(np.ones(actions), n)
        v = values(world.cmdp, policy)
        gaps.append(float((np.abs(v[:, None] - v) - contextual_distance(world.cmdp, policy, GAMMA).M).max()))
    return Finding("Lemma", "max |V(s) - V(t)| - d(s, t), <= 0", len(gaps), max(gaps), max(gaps) <= ROUNDING)


def theorem(worlds: list[World]) -> Finding:
    """V*(rho') - V^pi_k(rho') <= m W_d*(rho, rho') between stages: the least m that makes it hold.

    pi_k, optimal for stage k, is pi* where that stage can lead and uniformly random elsewhere, as in the paper's proof.
    No m would do where two stages at distance 0 have a gap: the claim fails then.
    """
    needed = []
    for world in worlds:
        star = values(world.cmdp, world.best)
        for before, after in pairwise(world.stages):
            gap = float(after.weights @ (star - values(world.cmdp, stage_policy(world, before))))
            distance = wasserstein(before, after, world.metric, p=1)
            needed.append(0.0 if gap <= ROUNDING else gap / distance if distance > ROUNDING else float("inf"))
    return Finding("Theorem", "least m: gap <= m W(stages)", len(needed), max(needed), bool(np.isfinite(needed).all()))


def corollary(worlds: list[World]) -> Finding:
    """W_d*(rho_k, rho_k+1) = step * W_d*(source, target): the stages are evenly spaced."""
    errors = [
        abs(wasserstein(before, after, world.metric, p=1) - world.length / STAGES)
        for world in worlds
        for before, after in pairwise(world.stages)
    ]
    return Finding("Corollary", "max |W(stages) - step * W|", len(errors), max(errors), max(errors) <= ROUNDING)


def random_cmdp(rng: np.random.Generator, n: int, slip: float) -> TabularCMDP:
    """Four actions: along a ring both ways, along a chord, stay; with probability `slip` another action is taken."""
    states = np.arange(n)
    successors = np.stack([(states + 1) % n, (states - 1) % n, rng.permutation(n), states], axis=1)
    successors[0] = 0
    steps = (1 - slip) * np.eye(n)[successors] + slip * np.eye(n)[successors].mean(axis=1, keepdims=True)
    rewards = np.tile((1 - GAMMA) * rng.uniform(0, 0.5, (n, 1)), (1, 4))
    rewards[0] = 1 - GAMMA
    return TabularCMDP(rewards, successors if slip == 0 else steps, states)


def values(cmdp: TabularCMDP, policy: FloatArray | IntArray) -> FloatArray:
    """V (n,) of a policy."""
    rewards, chain = cmdp.under(policy)
    steps = np.eye(len(rewards))[chain] if chain.ndim == 1 else chain
    return np.asarray(np.linalg.solve(np.eye(len(rewards)) - GAMMA * steps, rewards))


def optimal(cmdp: TabularCMDP) -> IntArray:
    """The optimal policy (n,), by policy iteration."""
    n = len(cmdp.rewards)
    policy = np.zeros(n, dtype=np.intp)
    while True:
        v = values(cmdp, policy)
        action_values = cmdp.rewards + GAMMA * (v[cmdp.transitions] if cmdp.deterministic else cmdp.transitions @ v)
        better = action_values.max(axis=1) > action_values[np.arange(n), policy] + 1e-12
        if not better.any():
            return policy
        policy = np.where(better, action_values.argmax(axis=1), policy)


def stage_policy(world: World, stage: Particles) -> FloatArray:
    """Probabilities (n, A): pi* on the states that pi* reaches from the stage, uniform on the others."""
    n, actions = world.cmdp.rewards.shape
    chain = world.cmdp.under(world.best)[1]
    links = np.eye(n, dtype=bool)[chain] if chain.ndim == 1 else chain > 0
    reached = stage.weights > 0
    for _ in range(n):
        reached = reached | links[reached].any(axis=0)
    return np.where(reached[:, None], np.eye(actions)[world.best], 1 / actions)
