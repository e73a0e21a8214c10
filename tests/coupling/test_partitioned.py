import numpy as np
import ot
import pytest

from geodesic.coupling import partitioned_plan


@pytest.mark.parametrize(("n", "m", "even"), [(2200, 2200, True), (2100, 2900, False), (1500, 3000, True)])
def test_it_is_nearly_optimal_and_its_excess_bounds_the_truth(n, m, even):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) * 0.3 + [3, 0]
    a = np.full(n, 1 / n) if even else rng.dirichlet(np.full(n, 2.0))
    b = np.full(m, 1 / m)
    plan = partitioned_plan(x, y, a, b)
    np.testing.assert_allclose(np.bincount(plan.rows, plan.mass, n), a, atol=1e-12)
    np.testing.assert_allclose(np.bincount(plan.cols, plan.mass, m), b, atol=1e-12)
    cost = ot.dist(x, y)
    best = np.sqrt(ot.emd2(a, b, cost, numItermax=10**7))
    true = np.sqrt(plan.mass @ cost[plan.rows, plan.cols]) / best - 1
    assert 0 <= true <= 0.005
    assert true <= plan.excess <= 0.01
    if n == m:
        assert len(plan.mass) == n


def test_it_survives_repeated_points_and_finds_a_translation():
    x, y = np.zeros((2500, 2)), np.repeat([[1.0, 0.0]], 2500, axis=0)
    uniform = np.full(2500, 1 / 2500)
    assert partitioned_plan(x, y, uniform, uniform).mass.sum() == pytest.approx(1)
    x, y = (np.random.default_rng(2).normal(size=(2500, 2)) + shift for shift in (0, 3))
    plan = partitioned_plan(x, y, uniform, uniform)
    np.testing.assert_array_equal(plan.cols[np.argsort(plan.rows)], np.arange(2500))
