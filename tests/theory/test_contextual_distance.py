"""The exact contextual distance against brute force, and the paper's Lemma."""

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from geodesic.errors import SolverFailed
from geodesic.metrics import bisimulation
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


def lazy_chain(seed: int, n: int = 6, successors: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Rewards and a chain that mixes in about 500 steps, so that distances are hundreds of reward gaps."""
    rng = np.random.default_rng(seed)
    chain = 0.998 * np.eye(n)
    for x in range(n):
        chain[x, rng.choice(n, successors, replace=False)] += 0.002 * rng.dirichlet(np.ones(successors))
    return rng.normal(size=n), chain / chain.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("gamma", [0.9995, 0.9999, 0.99999])
@pytest.mark.parametrize("seed", range(20))
def test_near_gamma_1_the_bellman_equation_holds_to_rounding(gamma, seed):
    rewards, chain = lazy_chain(seed)
    distances = state_distance(rewards, chain, gamma)
    for x in range(6):
        for y in range(x):
            step = abs(rewards[x] - rewards[y]) + gamma * ot.emd2(chain[x], chain[y], distances)
            assert distances[x, y] == pytest.approx(step, rel=0, abs=1e-13 * distances.max())
    values = np.linalg.solve(np.eye(6) - gamma * chain, rewards)
    assert (np.abs(values[:, None] - values) <= distances + 1e-10 * distances.max()).all()


@pytest.mark.parametrize(("gamma", "sweeps"), [(0.9995, 60_000), (0.9999, 200_000)])
def test_near_gamma_1_it_equals_a_long_value_iteration(gamma, sweeps):
    """On two successors each a plan is one number, and its best value one end of its range."""
    n, rng = 5, np.random.default_rng(8)
    rewards = rng.normal(size=n)
    to = np.stack([rng.choice(n, 2, replace=False) for _ in range(n)])
    fraction = rng.uniform(0.1, 0.9, n)
    low = np.maximum(0, fraction[:, None] + fraction - 1)
    high = np.minimum.outer(fraction, fraction)
    gaps = np.abs(rewards[:, None] - rewards)
    distances = np.zeros((n, n))
    for _ in range(sweeps):
        costs = distances[to[:, None, :, None], to[None, :, None, :]]
        both = costs[..., 0, 0] - costs[..., 0, 1] - costs[..., 1, 0] + costs[..., 1, 1]
        rest = (
            costs[..., 0, 1] * fraction[:, None]
            + costs[..., 1, 0] * fraction
            + costs[..., 1, 1] * (1 - np.add.outer(fraction, fraction))
        )
        distances = gaps + gamma * (rest + np.where(both > 0, low, high) * both)
        np.fill_diagonal(distances, 0)
    chain = np.zeros((n, n))
    chain[np.arange(n), to[:, 0]], chain[np.arange(n), to[:, 1]] = fraction, 1 - fraction
    np.testing.assert_allclose(state_distance(rewards, chain, gamma), distances, rtol=1e-8)


@pytest.mark.parametrize("successors", [1, 2, 4, 7, 14])
def test_extrapolated_sweeps_and_supports_of_every_size(successors, monkeypatch):
    """Many pairs are evaluated by sweeps, few by a factorisation; large supports are solved one by one."""
    rng = np.random.default_rng(successors)
    n = 20
    chain = np.zeros((n, n))
    for x in range(n):
        to = rng.choice(n, rng.integers(1, successors + 1), replace=False)
        chain[x, to] = rng.dirichlet(np.ones(len(to)))
    rewards = rng.normal(size=n)
    exact = state_distance(rewards, chain, 0.99)
    monkeypatch.setattr(bisimulation, "DIRECT", 0)
    np.testing.assert_allclose(state_distance(rewards, chain, 0.99), exact, atol=1e-8)
    for x, y in rng.integers(0, n, (30, 2)):
        step = abs(rewards[x] - rewards[y]) + 0.99 * ot.emd2(chain[x], chain[y], exact)
        assert exact[x, y] == pytest.approx(step, abs=1e-9)


def test_a_distance_that_does_not_settle_is_an_error(monkeypatch):
    monkeypatch.setattr(bisimulation, "ROUNDS", 1)
    with pytest.raises(SolverFailed, match=r"expected a residual of .* in 1 rounds, got "):
        state_distance(*lazy_chain(0), 0.9)


def test_the_smallest_chains():
    assert state_distance(np.ones(1), np.ones((1, 1)), 0.9).tolist() == [[0.0]]
    assert (state_distance(np.ones(3), np.full((3, 3), 1 / 3), 0.99) == 0).all()
    np.testing.assert_allclose(state_distance(np.array([0.0, 2.0]), np.full((2, 2), 0.5), 0.0), [[0, 2], [2, 0]])
