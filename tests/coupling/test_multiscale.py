import time

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from geodesic.coupling import multiscale
from geodesic.coupling.multiscale import conjugate, partitioned_plan
from geodesic.coupling.plans import Plan, simplex


def even(n):
    return np.full(n, 1 / n)


def jittered(rng, n):
    """A weighted cloud, and the same points moved a little, with other weights."""
    x = rng.normal(size=(n, 2))
    return x, x + 0.01 * rng.normal(size=(n, 2)), rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n))


def moved_together(rng, n):
    """A weighted cloud, and the same points and weights moved a little, in another order."""
    x, a, order = rng.normal(size=(n, 2)), rng.dirichlet(np.ones(n)), rng.permutation(n)
    return x, (x + 0.01 * rng.normal(size=(n, 2)))[order], a, a[order]


def reweighted(rng, n):
    """The same points with other weights."""
    x = rng.normal(size=(n, 2))
    return x, x, rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n))


def clustered(rng, n):
    """700 clusters to 700 others."""
    x, y = (rng.uniform(0, 10, (700, 2))[rng.integers(700, size=n)] + 0.01 * rng.normal(size=(n, 2)) for _ in range(2))
    return x, y, even(n), even(n)


def apart(rng, n):
    """A wide cloud and a narrow one far off, in three dimensions, of other size and weights."""
    x, y = rng.normal(size=(n, 3)), rng.normal(size=(n + n // 3, 3)) * [0.3, 0.1, 0.2] + 3
    return x, y, even(len(x)), rng.dirichlet(np.full(len(y), 2.0))


CASES = [jittered, moved_together, reweighted, clustered, apart]


def length(plan: Plan, x, y) -> float:
    return float(np.sqrt(plan.mass @ ((x[plan.rows] - y[plan.cols]) ** 2).sum(axis=1)))


def check_marginals(plan: Plan, a, b) -> None:
    np.testing.assert_allclose(np.bincount(plan.rows, plan.mass, len(a)), a, atol=1e-14)
    np.testing.assert_allclose(np.bincount(plan.cols, plan.mass, len(b)), b, atol=1e-14)
    assert (plan.mass > 0).all()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("refined", [True, False])
def test_it_is_nearly_optimal_and_its_excess_bounds_the_truth(case, refined, monkeypatch):
    if not refined:  # as for more points: groups of neighbours, potentials from cells
        monkeypatch.setattr(multiscale, "REFINED", 1000)
        monkeypatch.setattr(multiscale, "COARSE", 400)
    x, y, a, b = case(np.random.default_rng(1), 1200)
    plan = partitioned_plan(x, y, a, b)
    check_marginals(plan, a, b)
    best = np.sqrt(ot.emd2(a, b, cdist(x, y, "sqeuclidean"), numItermax=10**7))
    true = length(plan, x, y) / best - 1
    assert -1e-9 <= true <= plan.excess + 1e-12
    assert not refined or plan.excess <= 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_ten_thousand_points_are_within_a_hundredth(case):
    x, y, a, b = case(np.random.default_rng(2), 10_000)
    plan = partitioned_plan(x, y, a, b)
    check_marginals(plan, a, b)
    assert plan.excess <= 0.01


@pytest.mark.slow
@pytest.mark.parametrize("case", [jittered, reweighted, clustered])
def test_a_hundred_thousand_points_take_seconds(case):
    x, y, a, b = case(np.random.default_rng(3), 100_000)
    start = time.process_time()
    plan = partitioned_plan(x, y, a, b)
    assert time.process_time() - start <= 10
    check_marginals(plan, a, b)


@pytest.mark.slow
def test_few_points_against_over_a_million():
    rng = np.random.default_rng(4)
    x, y = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), rng.uniform(size=(1_500_000, 2))
    a, b = np.array([0.2, 0.3, 0.5]), even(1_500_000)
    plan = partitioned_plan(x, y, a, b)
    np.testing.assert_allclose(np.bincount(plan.rows, plan.mass), a, atol=1e-12)
    np.testing.assert_allclose(np.bincount(plan.cols, plan.mass), b, atol=1e-14)
    assert plan.excess <= 0.01


def test_few_points_against_many():
    rng = np.random.default_rng(5)
    x, y = rng.uniform(size=(3, 2)), rng.uniform(size=(30_000, 2))
    plan = partitioned_plan(x, y, even(3), even(30_000))
    check_marginals(plan, even(3), even(30_000))
    assert plan.excess <= 0.01


def test_the_same_input_gives_the_same_plan():
    given = jittered(np.random.default_rng(6), 900)
    first, second = partitioned_plan(*given), partitioned_plan(*given)
    for name in ("rows", "cols", "mass"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert first.excess == second.excess


def test_repeated_and_weightless_points_and_translations():
    x, y = np.zeros((2500, 2)), np.repeat([[1.0, 0.0]], 2500, axis=0)
    plan = partitioned_plan(x, y, even(2500), even(2500))
    assert plan.mass.sum() == pytest.approx(1)
    assert plan.excess <= 1e-9
    x, y = (np.random.default_rng(2).normal(size=(2500, 2)) + shift for shift in (0, 3))
    plan = partitioned_plan(x, y, even(2500), even(2500))
    np.testing.assert_array_equal(plan.cols[np.argsort(plan.rows)], np.arange(2500))
    weights = np.where(np.arange(2500) % 2, even(2500) * 2, 0.0)
    plan = partitioned_plan(x, y, weights, weights)
    assert set(plan.rows) == set(plan.cols) == set(range(1, 2500, 2))
    assert partitioned_plan(x, x, even(2500), even(2500)).excess == 0


few = settings(max_examples=25, deadline=None, derandomize=True)


def in_steps(x, y, a, b) -> Plan:
    """The plan by cells of cells, with few points."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multiscale, "TABLE", 16)
        patch.setattr(multiscale, "KEPT", 2)
        return partitioned_plan(x, y, a, b)


@few
@given(st.integers(0, 2**32 - 1), st.integers(-100, 100).map(lambda power: 10.0**power), st.floats(-1e3, 1e3))
def test_plans_are_invariant_to_unit_origin_order_and_split_atoms(seed, scale, shift):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(5, 60, 2)
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) * rng.uniform(0.1, 3) + rng.normal(size=2)
    a, b = rng.dirichlet(np.full(n, 0.7)), rng.dirichlet(np.full(m, 0.7))
    solution = simplex(cdist(x, y, "sqeuclidean"), a + 1e-300, b + 1e-300)
    best = np.sqrt((solution.coupling * cdist(x, y, "sqeuclidean")).sum())
    i = rng.permutation(n)
    cut = np.concatenate([x, x[:1]]), np.concatenate([[0.3 * a[0]], a[1:], [0.7 * a[0]]])
    for ends, unit in (
        ((x, y, a, b), 1.0),
        ((scale * x, scale * y, a, b), scale),
        ((x + shift, y + shift, a, b), 1.0),
        ((x[i], y, a[i], b), 1.0),
        ((cut[0], y, cut[1], b), 1.0),
    ):
        plan = in_steps(*ends)
        true = length(plan, ends[0] / unit, ends[1] / unit) / best - 1
        assert true <= min(plan.excess, 1e-3) + 1e-9


@few
@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_conjugates_are_those_of_the_whole_table(seed, dim):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2000, dim)) * rng.uniform(0.1, 2), rng.normal(size=(rng.integers(1, 500), dim))
    g = rng.normal(size=len(y)) * rng.choice([0.0, 0.1, 10.0])
    values, partners = conjugate(x, y, g, 3)
    table = cdist(x, y, "sqeuclidean") - g
    np.testing.assert_allclose(values, table.min(axis=1), atol=1e-12)
    assert partners.shape == (2000, min(3, len(y)))
    np.testing.assert_allclose(np.take_along_axis(table, partners, axis=1).min(axis=1), values, atol=1e-12)
