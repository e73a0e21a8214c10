import warnings

import numpy as np
import pytest

from geodesic.errors import InvalidInput, SolverFailed
from geodesic.metrics import Graph, TabularCMDP, contextual_distance

N = 6  # a corridor: action 0 steps towards state 0, where episodes end; action 1 stays


def corridor(rewards: np.ndarray | None = None, initial: np.ndarray | None = None) -> TabularCMDP:
    states = np.arange(N)
    costs = np.tile(np.where(states > 0, -1.0, 0.0)[:, None], (1, 2)) if rewards is None else rewards
    following = np.stack([np.maximum(states - 1, 0), states], axis=1)
    return TabularCMDP(costs, following, np.arange(1, N) if initial is None else initial)


WALK = np.zeros(N, dtype=int)


def test_step_costs_give_discounted_hitting_times():
    """d = gamma^h (1 - gamma^k) / (1 - gamma), h the nearer start's steps and k the difference."""
    h = np.arange(1, N)
    nearer, gap = np.minimum.outer(h, h), np.abs(np.subtract.outer(h, h))
    expected = 0.9**nearer * (1 - 0.9**gap) / 0.1
    np.testing.assert_allclose(contextual_distance(corridor(), WALK, 0.9).M, expected, atol=1e-12)


def test_without_discount_it_is_the_difference_of_hitting_times():
    h = np.arange(1, N)
    np.testing.assert_array_equal(contextual_distance(corridor(), WALK, 1.0).M, np.abs(np.subtract.outer(h, h)))


def test_starts_are_compared_by_transport_not_by_independent_draws():
    spread = np.zeros((2, N))
    spread[:, [1, 3]] = 0.5
    assert contextual_distance(corridor(initial=spread), WALK, 1.0).M[0, 1] == 0
    spread[1] = np.eye(N)[5]
    assert contextual_distance(corridor(initial=spread), WALK, 1.0).M[0, 1] == pytest.approx(0.5 * 4 + 0.5 * 2)


def test_strict_tells_twins_apart():
    twins = TabularCMDP([[-1.0], [-1.0], [0.0]], [[2], [2], [2]], [0, 1, 2])
    assert contextual_distance(twins, [0, 0, 0], 1.0).M[0, 1] == 0
    line = Graph([[0.0], [1.0], [2.0]], [[0, 1], [1, 2]])
    for graph in (line, line.distances):
        d = contextual_distance(twins, [0, 0, 0], 1.0, strict=0.1, graph=graph).M
        np.testing.assert_allclose(d, [[0, 0.1, 1.2], [0.1, 0, 1.1], [1.2, 1.1, 0]])


def test_sparse_goal_reward_warns_and_step_costs_do_not():
    goal = np.zeros((N, 2))
    goal[1, 0] = 1.0
    with pytest.warns(UserWarning, match="the reward is zero off the goal"):
        contextual_distance(corridor(goal), WALK, 0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        contextual_distance(corridor(), WALK, 0.9)


def test_a_policy_that_never_ends_has_no_undiscounted_distance():
    with pytest.raises(SolverFailed, match="expected every episode to end under the policy for gamma = 1"):
        contextual_distance(TabularCMDP([[0.0], [1.0]], [[0], [1]], [0, 1]), [0, 0], 1.0)


def test_a_random_policy_equals_its_mixed_chain():
    mixed = np.full((N, 2), 0.5)
    states = np.arange(N)
    chain = 0.5 * np.eye(N)[np.maximum(states - 1, 0)] + 0.5 * np.eye(N)
    rewards, steps = corridor().under(mixed)
    np.testing.assert_allclose(steps, chain)
    assert rewards.tolist() == [0, -1, -1, -1, -1, -1]
    d = contextual_distance(corridor(), mixed, 0.9).M
    values = np.linalg.solve(np.eye(N) - 0.9 * chain, rewards)[1:]
    np.testing.assert_allclose(d, np.abs(np.subtract.outer(values, values)), atol=1e-8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: contextual_distance(corridor(), WALK, 1.5), r"expected gamma in \[0, 1\], got 1.5"),
        (lambda: contextual_distance(corridor(), np.full((N, 2), 0.5), 1), "expected gamma < 1 for stochastic"),
        (lambda: contextual_distance(corridor(), WALK + 2, 0.9), "expected policy between 0 and 1, got 2 to 2"),
        (
            lambda: contextual_distance(corridor(), WALK[:3], 0.9),
            r"expected policy as integers \(6,\) or probabilities \(6, 2\), got \(3,\)",
        ),
        (lambda: contextual_distance(corridor(), np.ones((N, 2)), 0.9), "expected policy to be probabilities"),
        (lambda: contextual_distance(corridor(), WALK, 0.9, strict=0.1), "expected strict > 0 and a graph together"),
        (
            lambda: contextual_distance(corridor(), WALK, 0.9, strict=0.1, graph=np.zeros((5, 5))),
            "expected a graph with positive distances between different contexts, got a zero",
        ),
        (lambda: TabularCMDP([[np.nan]], [[0]], [0]), "expected rewards to be finite"),
        (lambda: TabularCMDP([[0.0]], [[1]], [0]), "expected transitions between 0 and 0, got 1 to 1"),
        (lambda: TabularCMDP([[0.0]], [[0]], [0], [[0.0], [1.0]]), "expected one context for each of 1 starts, got 2"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
