import numpy as np
import ot
import pytest

from geodesic.coupling import plans
from geodesic.coupling.pairwise import pairwise_plans
from geodesic.coupling.plans import Plan, assignment, exact_plan, shortest_hops, sorted_plan
from geodesic.errors import SolverFailed

RNG = np.random.default_rng(0)


def marginals(plan: Plan, n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    return np.bincount(plan.rows, plan.mass, n), np.bincount(plan.cols, plan.mass, m)


def weights(n: int) -> np.ndarray:
    values = RNG.uniform(size=n) * (RNG.uniform(size=n) < 0.7) + np.eye(n)[0]
    return values / values.sum()


def test_exact_plan_keeps_marginals_and_ignores_weightless_points():
    a, b = weights(30), weights(20)
    cost = RNG.uniform(size=(30, 20))
    cost[a == 0] = cost[:, b == 0] = np.nan  # never used
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


def test_shortest_hops_stays_optimal_where_the_perturbed_cost_does_not():
    cost = np.array([[0.0, 10.00005], [10.00005, 20.0]])
    even = np.array([0.5, 0.5])
    perturbed = exact_plan(cost + 1e-4 * cost**2, even, even)
    assert perturbed.mass @ cost[perturbed.rows, perturbed.cols] == pytest.approx(10.00005, abs=1e-12)
    plan = shortest_hops(cost, even, even)
    assert plan.mass @ cost[plan.rows, plan.cols] == pytest.approx(10, abs=1e-12)


def test_staying_put_costs_nothing():
    plan = shortest_hops(1.0 - np.eye(4), np.full(4, 0.25), np.full(4, 0.25))
    np.testing.assert_array_equal(plan.rows, plan.cols)


def test_pairwise_plans_are_the_optimal_plans_of_every_two_rows_in_order():
    rows = np.stack([weights(9) for _ in range(5)] + [np.eye(9)[4]])
    points = RNG.normal(size=(9, 2))
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    found = pairwise_plans(rows, distances)
    assert len(found) == 15
    for (x, y), (low, high, mass) in zip(zip(*np.triu_indices(6, 1)), found):
        assert mass @ distances[low, high] == pytest.approx(ot.emd2(rows[x], rows[y], distances), abs=1e-12)
        np.testing.assert_allclose(np.bincount(low, mass, 9), rows[x], atol=1e-12)
        np.testing.assert_allclose(np.bincount(high, mass, 9), rows[y], atol=1e-12)


def test_assignment_is_optimal():
    rows, columns = np.array([[0.0], [1.0], [2.0]]), np.array([[2.1], [9.0], [0.1], [1.1]])
    np.testing.assert_array_equal(assignment(rows, columns), [2, 3, 0])


def test_assignment_equals_the_plan_between_equal_weights():
    rows, columns = RNG.normal(size=(30, 3)), RNG.normal(size=(30, 3))
    chosen = assignment(rows, columns)
    assert sorted(chosen) == list(range(30))
    even = np.full(30, 1 / 30)
    best = ot.emd2(even, even, ot.dist(rows, columns))
    assert ((rows - columns[chosen]) ** 2).sum(axis=1).mean() == pytest.approx(best)


def test_a_solver_that_does_not_converge_is_an_error(monkeypatch):
    monkeypatch.setattr(plans, "ITERATIONS", 1)
    rng = np.random.default_rng(4)
    even = np.full(50, 0.02)
    message = "expected an optimal plan between 50 and 50 points, got: no end within the limit of iterations"
    with pytest.raises(SolverFailed, match=message):
        exact_plan(rng.uniform(size=(50, 50)), even, even)
    with pytest.raises(SolverFailed, match=message):
        pairwise_plans(rng.dirichlet(np.ones(50), 2), rng.uniform(size=(50, 50)))
