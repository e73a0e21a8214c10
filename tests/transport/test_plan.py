import numpy as np
import ot
import pytest

import geodesic as gd
from geodesic.errors import SolverFailed
from geodesic.metrics import Euclidean
from geodesic.transport import plan as plans
from geodesic.transport.plan import exact_plan, partitioned_plan, shortest_hops, solve, sorted_plan

RNG = np.random.default_rng(0)


def marginals(plan: plans.Plan, n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    return np.bincount(plan.rows, plan.mass, n), np.bincount(plan.cols, plan.mass, m)


def weights(n: int) -> np.ndarray:
    values = RNG.uniform(size=n) * (RNG.uniform(size=n) < 0.7) + np.eye(n)[0]
    return values / values.sum()


def test_exact_plan_keeps_marginals_and_ignores_weightless_points():
    a, b = weights(30), weights(20)
    cost = RNG.uniform(size=(30, 20))
    cost[a == 0] = cost[:, b == 0] = np.nan  # never looked at
    plan = exact_plan(cost, a, b)
    left, right = marginals(plan, 30, 20)
    np.testing.assert_allclose(left, a, atol=1e-15)
    np.testing.assert_allclose(right, b, atol=1e-15)
    assert plan.excess == 0
    assert len(plan.mass) <= np.count_nonzero(a) + np.count_nonzero(b) - 1


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_sorting_equals_the_linear_program_for_every_convex_cost(p):
    x, y, a, b = RNG.normal(size=17), RNG.normal(size=29), weights(17), weights(29)
    cost = np.abs(x[:, None] - y) ** p
    plan = sorted_plan(x, y, a, b)
    assert plan.mass @ cost[plan.rows, plan.cols] == pytest.approx(ot.emd2(a, b, cost), abs=1e-12)
    left, right = marginals(plan, 17, 29)
    np.testing.assert_allclose(left, a, atol=1e-15)
    np.testing.assert_allclose(right, b, atol=1e-15)


def test_shortest_hops_stays_optimal_and_has_the_least_square():
    """On a line every monotone plan is W1-optimal; the one of least square is the sorted one."""
    x = np.arange(12.0)
    a, b = np.where(x < 8, 1 / 8, 0), np.where(x >= 4, 1 / 8, 0)
    cost = np.abs(x[:, None] - x)
    plan = shortest_hops(cost, a, b)
    assert plan.mass @ cost[plan.rows, plan.cols] == pytest.approx(4)
    assert cost[plan.rows, plan.cols].max() == 4
    both = exact_plan(cost + 1e-4 * cost**2, a, b)
    assert plan.mass @ cost[plan.rows, plan.cols] ** 2 == pytest.approx(both.mass @ cost[both.rows, both.cols] ** 2)


def test_shortest_hops_does_not_trade_distance_for_even_hops_as_the_perturbed_cost_does():
    cost = np.array([[0.0, 10.00005], [10.00005, 20.0]])
    even = np.array([0.5, 0.5])
    perturbed = exact_plan(cost + 1e-4 * cost**2, even, even)
    assert perturbed.mass @ cost[perturbed.rows, perturbed.cols] == pytest.approx(10.00005, abs=1e-12)
    plan = shortest_hops(cost, even, even)
    assert plan.mass @ cost[plan.rows, plan.cols] == pytest.approx(10, abs=1e-12)


def test_staying_put_costs_nothing():
    plan = shortest_hops(1.0 - np.eye(4), np.full(4, 0.25), np.full(4, 0.25))
    np.testing.assert_array_equal(plan.rows, plan.cols)


@pytest.mark.parametrize(("n", "m", "even"), [(2200, 2200, True), (2100, 2900, False), (1500, 3000, True)])
def test_partitioned_plan_is_nearly_optimal_and_its_excess_bounds_the_truth(n, m, even):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) * 0.3 + [3, 0]
    a = np.full(n, 1 / n) if even else rng.dirichlet(np.full(n, 2.0))
    b = np.full(m, 1 / m)
    plan = partitioned_plan(x, y, a, b)
    left, right = marginals(plan, n, m)
    np.testing.assert_allclose(left, a, atol=1e-12)
    np.testing.assert_allclose(right, b, atol=1e-12)
    cost = ot.dist(x, y)
    best = np.sqrt(ot.emd2(a, b, cost, numItermax=10**7))
    true = np.sqrt(plan.mass @ cost[plan.rows, plan.cols]) / best - 1
    assert 0 <= true <= 0.005
    assert true <= plan.excess <= 0.01
    if n == m:
        assert len(plan.mass) == n


def test_partitioned_plan_survives_repeated_points_and_finds_a_translation():
    x, y = np.zeros((2500, 2)), np.repeat([[1.0, 0.0]], 2500, axis=0)
    uniform = np.full(2500, 1 / 2500)
    assert partitioned_plan(x, y, uniform, uniform).mass.sum() == pytest.approx(1)
    x, y = (np.random.default_rng(2).normal(size=(2500, 2)) + shift for shift in (0, 3))
    plan = partitioned_plan(x, y, uniform, uniform)
    np.testing.assert_array_equal(plan.cols[np.argsort(plan.rows)], np.arange(2500))


def test_the_size_decides(monkeypatch):
    rng = np.random.default_rng(3)
    source, target = gd.Particles(rng.normal(size=(40, 2))), gd.Particles(rng.normal(size=(40, 2)) + 4)
    called = []
    monkeypatch.setattr(plans, "partitioned_plan", lambda *given: called.append(given) or partitioned_plan(*given))
    solve(source, target, Euclidean())
    assert not called
    monkeypatch.setattr(plans, "EXACT_SIZE", 39)
    plan = solve(source, target, Euclidean())
    assert len(called) == 1
    assert plan.excess >= 0


def test_a_solver_that_gives_up_is_an_error(monkeypatch):
    monkeypatch.setattr(plans, "ITERATIONS", 1)
    rng = np.random.default_rng(4)
    even = np.full(50, 0.02)
    with pytest.raises(
        SolverFailed, match="expected an optimal plan between 50 and 50 points, got: numItermax reached"
    ):
        exact_plan(rng.uniform(size=(50, 50)), even, even)
