"""The exact contextual distance against brute force, and the paper's Lemma."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from geodesic.metrics.bisimulation import TabularCMDP, contextual_distance, state_distance

few = settings(max_examples=6, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


def random_cmdp(seed: int, n: int = 5, actions: int = 2, contexts: int = 3) -> tuple[TabularCMDP, np.ndarray]:
    """Stochastic tables, starts and policy; half of the transitions are unreachable."""
    rng = np.random.default_rng(seed)
    steps = (
        rng.dirichlet(np.ones(n), (n, actions)) * (rng.uniform(size=(n, actions, n)) < 0.5) + 1e-3 * np.eye(n)[:, None]
    )
    steps /= steps.sum(axis=-1, keepdims=True)
    cmdp = TabularCMDP(rng.normal(size=(n, actions)), steps, rng.dirichlet(np.ones(n), contexts))
    return cmdp, rng.dirichlet(np.ones(actions), n)


def transport(cost: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    n = len(a)
    rows = np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    return linprog(cost.ravel(), A_eq=rows, b_eq=np.concatenate([a, b])).fun


def brute_force(rewards: np.ndarray, chain: np.ndarray, gamma: float) -> np.ndarray:
    """Algorithm 3 as written: sweeps over all pairs from zero, each pair a linear program."""
    n = len(rewards)
    distances = np.zeros((n, n))
    while True:
        following = np.abs(rewards[:, None] - rewards)
        for x in range(n):
            for y in range(x):
                following[x, y] += gamma * transport(distances, chain[x], chain[y])
                following[y, x] = following[x, y]
        if np.abs(following - distances).max() < 1e-7:
            return following
        distances = following


@few
@given(seeds)
def test_stochastic_equals_brute_force(seed):
    cmdp, policy = random_cmdp(seed)
    rewards, chain = cmdp.under(policy)
    expected = brute_force(rewards, chain, 0.5)
    np.testing.assert_allclose(state_distance(rewards, chain, 0.5), expected, atol=1e-6)
    contexts = contextual_distance(cmdp, policy, 0.5).M
    assert contexts[0, 2] == pytest.approx(transport(expected, cmdp.initial[0], cmdp.initial[2]), abs=1e-6)


@few
@given(seeds, st.floats(0, 0.99))
def test_lemma_values_differ_by_at_most_the_distance(seed, gamma):
    cmdp, policy = random_cmdp(seed, n=7)
    rewards, chain = cmdp.under(policy)
    values = np.linalg.solve(np.eye(7) - gamma * chain, rewards)
    distances = state_distance(rewards, chain, gamma)
    assert (np.abs(values[:, None] - values) <= distances + 1e-8).all()
    starts = cmdp.initial @ values
    assert (np.abs(starts[:, None] - starts) <= contextual_distance(cmdp, policy, gamma).M + 1e-8).all()


@settings(max_examples=20, deadline=None, derandomize=True)
@given(seeds, st.floats(0, 0.99))
def test_deterministic_equals_sweeps_and_the_stochastic_form(seed, gamma):
    rng = np.random.default_rng(seed)
    n = 8
    rewards, following = rng.normal(size=n), rng.integers(0, n, n)
    gaps = np.abs(rewards[:, None] - rewards)
    sweeps = np.zeros((n, n))
    for _ in range(4000):
        sweeps = gaps + gamma * sweeps[np.ix_(following, following)]
    distances = state_distance(rewards, following, gamma)
    np.testing.assert_allclose(distances, sweeps, atol=1e-10)
    np.testing.assert_allclose(state_distance(rewards, np.eye(n)[following], gamma), distances, atol=1e-8)


@few
@given(seeds)
def test_it_is_a_pseudo_metric(seed):
    cmdp, policy = random_cmdp(seed, n=6, contexts=6)
    d = contextual_distance(cmdp, policy, 0.9).M
    assert (np.diagonal(d) == 0).all()
    assert (d == d.T).all()
    assert (d[:, None, :] <= d[:, :, None] + d[None] + 1e-9).all()
