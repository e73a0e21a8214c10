"""Plans are invariant to the unit, the origin, the order of the points, and to splitting an atom."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geodesic as gd
from geodesic.coupling.pairwise import pairwise_plans
from geodesic.coupling.plans import assignment, exact_plan, shortest_hops, sorted_plan
from geodesic.metrics import Graph, Matrix

few = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
scales = st.integers(-100, 100).map(lambda power: 10.0**power)
ps = st.sampled_from([1.0, 1.5, 2.0, 8.0])


def distances(x, y):
    return np.linalg.norm(x[:, None] - y, axis=2)


def exact(x, y, a, b):
    plan = exact_plan(distances(x, y) ** 2, a, b)
    return np.sqrt(plan.mass @ distances(x, y)[plan.rows, plan.cols] ** 2)


def hops(x, y, a, b):
    """W1, and the mean square of its shortest hops, as a length."""
    plan = shortest_hops(distances(x, y), a, b)
    used = distances(x, y)[plan.rows, plan.cols]
    return np.array([plan.mass @ used, np.sqrt(plan.mass @ used**2)])


def monotone(x, y, a, b):
    plan = sorted_plan(x[:, 0], y[:, 0], a, b)
    return np.sqrt(plan.mass @ (x[plan.rows, 0] - y[plan.cols, 0]) ** 2)


def pairwise(x, y, a, b):
    points = np.concatenate([x, y])
    rows = np.stack([np.concatenate([a, 0 * b]), np.concatenate([0 * a, b])])
    low, high, mass = pairwise_plans(rows, distances(points, points))[0]
    return mass @ distances(points, points)[low, high]


def geodesic(x, y, a, b):
    return gd.Geodesic(gd.Particles(x, a), gd.Particles(y, b)).length


def half_path(x, y, a, b):
    """W2 from the source to the middle of the path."""
    path = gd.Geodesic(gd.Particles(x, a), gd.Particles(y, b))
    return gd.wasserstein(path.source, path(0.5))


def on_a_matrix(x, y, a, b):
    points = np.concatenate([x, y])
    metric = Matrix(distances(points, points), np.arange(float(len(points)))[:, None])
    ends = np.concatenate([a, 0 * b]), np.concatenate([0 * a, b])
    path = gd.Geodesic(*(gd.Particles.categorical(end, metric.support) for end in ends), metric)
    return np.array([path.length, 2 * gd.wasserstein(path(0.25), path(0.75), metric, p=1)])


SOLVERS = [exact, hops, monotone, pairwise, geodesic, half_path, on_a_matrix]


def problem(seed, near=False):
    """Points in the plane (all different) and weights; `near`: the target is the source, moved by a millionth."""
    rng = np.random.default_rng(seed)
    n, m = rng.integers(2, 20, 2)
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) * rng.uniform(0.1, 3) + rng.normal(size=2)
    if near:
        return x, x + 1e-6 * rng.normal(size=x.shape), *(2 * (rng.dirichlet(np.full(n, 5.0)),))
    return x, y, rng.dirichlet(np.full(n, 0.7)) + 1e-6, rng.dirichlet(np.full(m, 0.7)) + 1e-6


def normalised(x, y, a, b):
    return x, y, a / a.sum(), b / b.sum()


@pytest.mark.parametrize("solver", SOLVERS)
@few
@given(seeds, scales, st.booleans())
def test_plans_are_invariant_to_the_unit(solver, seed, scale, near):
    x, y, a, b = normalised(*problem(seed, near))
    assert solver(scale * x, scale * y, a, b) / scale == pytest.approx(solver(x, y, a, b), rel=1e-9, abs=1e-13)


@few
@given(seeds, scales, ps)
def test_plans_are_invariant_to_the_unit_for_any_p(seed, scale, p):
    x, y, a, b = normalised(*problem(seed))
    whole, scaled = (gd.wasserstein(gd.Particles(c * x, a), gd.Particles(c * y, b), p=p) / c for c in (1.0, scale))
    assert scaled == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@few
@given(seeds, st.floats(-1e3, 1e3))
def test_plans_are_invariant_to_the_origin(solver, seed, shift):
    x, y, a, b = normalised(*problem(seed))
    assert solver(x + shift, y + shift, a, b) == pytest.approx(solver(x, y, a, b), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@few
@given(seeds)
def test_plans_are_invariant_to_the_order_of_the_points(solver, seed):
    x, y, a, b = normalised(*problem(seed))
    rng = np.random.default_rng(seed)
    i, j = rng.permutation(len(x)), rng.permutation(len(y))
    assert solver(x[i], y[j], a[i], b[j]) == pytest.approx(solver(x, y, a, b), rel=1e-9, abs=1e-7)


@pytest.mark.parametrize("solver", [solver for solver in SOLVERS if solver is not on_a_matrix])
@few
@given(seeds, st.floats(0.01, 0.99))
def test_a_split_atom_is_the_same_atom(solver, seed, fraction):
    x, y, a, b = normalised(*problem(seed))
    twice, weights = np.concatenate([x, x[:1]]), np.concatenate([[fraction * a[0]], a[1:], [(1 - fraction) * a[0]]])
    assert solver(twice, y, weights, b) == pytest.approx(solver(x, y, a, b), rel=1e-9, abs=1e-7)


@few
@given(seeds, scales, st.floats(-1e7, 1e7))
def test_assignments_are_invariant_to_unit_origin_and_order(seed, scale, shift):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(8, 2)), rng.normal(size=(12, 2))
    chosen = assignment(x, y)
    np.testing.assert_array_equal(assignment(scale * x, scale * y), chosen)
    np.testing.assert_array_equal(assignment(x + shift, y + shift), chosen)
    i, j = rng.permutation(8), rng.permutation(12)
    np.testing.assert_array_equal(j[assignment(x[i], y[j])], chosen[i])


def test_contexts_in_a_small_unit():
    """Contexts of size 1e-7: the simplex by itself cannot distinguish costs of 1e-14."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(size=(200, 2)), rng.uniform(size=(200, 2))
    whole, small = (gd.wasserstein(gd.Particles(c * a), gd.Particles(c * b)) / c for c in (1, 1e-7))
    assert small == pytest.approx(whole, rel=1e-12)


def test_short_distances_in_a_wide_cloud():
    """Clusters of 4 points, 1e-9 wide: the plan's costs are 1e-18 of the largest and need their own unit."""
    rng = np.random.default_rng(1)
    centres = rng.uniform(size=(50, 2)).round(3)
    x, y = (rng.normal(size=(50, 4, 2)) for _ in range(2))
    apart = [gd.wasserstein(gd.Particles(a), gd.Particles(b)) ** 2 for a, b in zip(x, y)]
    ends = (gd.Particles((centres[:, None] + 1e-9 * side).reshape(-1, 2)) for side in (x, y))
    assert gd.Geodesic(*ends).length == pytest.approx(1e-9 * np.sqrt(np.mean(apart)), rel=1e-6, abs=0)


def test_graph_speed_at_short_edges():
    rng = np.random.default_rng(2)
    points = rng.uniform(size=(200, 2))
    edges = Graph.knn(points, 4).edges.tocoo()
    graph = Graph(points, np.stack([edges.row, edges.col], axis=1), 1e-12 * edges.data)
    source, target = (gd.Particles.categorical(rng.dirichlet(np.ones(200)), points) for _ in range(2))
    path = gd.Geodesic(source, target, graph)
    assert gd.wasserstein(path(0.25), path(0.75), graph, p=1) == pytest.approx(path.length / 2, rel=1e-9, abs=0)
