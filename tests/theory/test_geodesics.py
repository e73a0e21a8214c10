"""What makes a path a geodesic: exact ends, constant speed, composition, closed forms."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geodesic as gd
from geodesic.metrics import Euclidean, Graph, Matrix

seeds = st.integers(0, 2**32 - 1)
times = st.floats(0, 1)
few = settings(max_examples=25, deadline=None, derandomize=True)


def cloud(rng: np.random.Generator, dim: int) -> gd.Particles:
    """A random number of points with unequal weights, some of them zero."""
    n = int(rng.integers(1, 15))
    weights = rng.uniform(size=n) * (rng.uniform(size=n) < 0.8)
    weights[0] += 0.1
    return gd.Particles(rng.normal(size=(n, dim)) * rng.uniform(0.1, 3) + rng.normal(size=dim), weights)


def random_graph(rng: np.random.Generator) -> Graph:
    n = int(rng.integers(3, 25))
    return Graph.knn(rng.uniform(size=(n, 2)), min(3, n - 1))


def on(metric: Graph | Matrix, rng: np.random.Generator) -> gd.Particles:
    return gd.Particles.categorical(rng.dirichlet(np.full(len(metric.support), 0.3)) + 1e-12, metric.support)


@few
@given(seeds, st.integers(1, 3))
def test_ends_are_the_given_distributions(seed, dim):
    rng = np.random.default_rng(seed)
    source, target = cloud(rng, dim), cloud(rng, dim)
    path = gd.Geodesic(source, target)
    assert path(0) == source
    assert path(1) == target
    assert gd.wasserstein(path(1e-9), source) <= 1e-6  # a rounding error of 1e-16 in a weight moves W2 by 1e-8
    assert gd.wasserstein(path(1 - 1e-9), target) <= 1e-6


@few
@given(seeds, st.integers(1, 3), times, times)
def test_euclidean_speed_is_constant_in_w2(seed, dim, a, b):
    rng = np.random.default_rng(seed)
    metric = Euclidean(rng.uniform(0.5, 2, dim))
    path = gd.Geodesic(cloud(rng, dim), cloud(rng, dim), metric)
    assert path.length == pytest.approx(gd.wasserstein(path.source, path.target, metric), abs=1e-9)
    assert gd.wasserstein(path(a), path(b), metric) ** 2 == pytest.approx((abs(a - b) * path.length) ** 2, abs=1e-9)


@few
@given(seeds, st.floats(0, 0.45), st.floats(0.55, 1))
def test_euclidean_speed_to_nine_digits(seed, a, b):
    rng = np.random.default_rng(seed)
    path = gd.Geodesic(cloud(rng, 2), cloud(rng, 2))
    assert gd.wasserstein(path(a), path(b)) == pytest.approx((b - a) * path.length, abs=1e-9)


@few
@given(seeds, times, times)
def test_graph_speed_is_constant_in_w1(seed, a, b):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng)
    path = gd.Geodesic(on(graph, rng), on(graph, rng), graph)
    assert path.length == pytest.approx(gd.wasserstein(path.source, path.target, graph, p=1), abs=1e-9)
    assert gd.wasserstein(path(a), path(b), graph, p=1) == pytest.approx(abs(a - b) * path.length, abs=1e-9)


@few
@given(seeds, times, times)
def test_matrix_speed_is_constant_in_w1_also_where_the_triangle_inequality_fails(seed, a, b):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    costs = np.round(rng.uniform(0, 4, (n, n)))  # ties and zeros
    metric = Matrix(np.triu(costs, 1) + np.triu(costs, 1).T)
    path = gd.Geodesic(on(metric, rng), on(metric, rng), metric)
    assert gd.wasserstein(path(a), path(b), metric, p=1) == pytest.approx(abs(a - b) * path.length, abs=1e-9)


@few
@given(seeds, st.floats(0.05, 0.95), st.floats(0.05, 0.95))
def test_composed_steps_equal_one_step(seed, t, s):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 20))
    source, target = (gd.Particles(rng.normal(size=(n, 2))) for _ in range(2))
    path = gd.Geodesic(source, target)
    composed = gd.Geodesic(path(t), target)(s)
    assert gd.wasserstein(composed, path(t + s * (1 - t))) <= 1e-9


def test_the_way_is_not_the_mixture():
    """W1 cannot tell them apart; W2 and the largest hop can."""
    n = 21
    points = np.arange(float(n))[:, None]
    graph = Graph(points, [[i, i + 1] for i in range(n - 1)])
    source, target = (gd.Particles.categorical(np.eye(n)[i], points) for i in (0, n - 1))
    path = gd.Geodesic(source, target, graph)
    alphas = np.linspace(0, 1, 11)
    mixtures = [gd.Particles(points, (1 - a) * source.weights + a * target.weights) for a in alphas]
    for stages, w2, largest in (([path(a) for a in alphas], 2.0, 2), (mixtures, np.sqrt(0.1) * 20, 20)):
        for before, after in itertools.pairwise(stages):
            assert gd.wasserstein(before, after, graph, p=1) == pytest.approx(2.0)
            assert gd.wasserstein(before, after, graph, p=2) == pytest.approx(w2)
            plan = gd.Geodesic(before, after, graph).plan
            assert graph.distances[plan.rows, plan.cols][plan.mass > 1e-12].max() == largest


def test_gaussians_on_the_line_and_in_the_plane_follow_the_closed_form():
    """An affine monotone map of one sample is its own optimal map: mean and deviation interpolate linearly."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((400, 2))
    mean, spread = np.array([[0.0, 4.25], [2.5, 0.5]]), np.array([[2.0, 1.875], [0.4, 0.375]])
    source, target = (gd.Particles(m + s * z) for m, s in zip(mean, spread))
    path = gd.Geodesic(source, target)
    centred = z - z.mean(axis=0)
    moments = (mean[1] - mean[0] + (spread[1] - spread[0]) * z.mean(axis=0)) ** 2
    bures = ((spread[1] - spread[0]) ** 2 * centred.var(axis=0)).sum()
    assert path.length == pytest.approx(np.sqrt(moments.sum() + bures), rel=1e-12)
    for t in (0.2, 0.7):
        expected = (1 - t) * mean + t * mean[::-1]
        scale = (1 - t) * spread[0] + t * spread[1]
        assert gd.wasserstein(path(t), gd.Particles(expected[0] + scale * z)) <= 1e-9


def test_gaussian_samples_approach_the_closed_form():
    """W2^2(N(m, s^2), N(m', s'^2)) = (m - m')^2 + (s - s')^2, to the samples' error."""
    rng = np.random.default_rng(1)
    source = gd.Particles.gaussian([0.0], 2.0, 20000, rng)
    target = gd.Particles.gaussian([3.0], 0.5, 20000, rng)
    path = gd.Geodesic(source, target)
    assert path.length == pytest.approx(np.sqrt(9 + 2.25), rel=0.02)
    assert path(0.4).mean()[0] == pytest.approx(1.2, abs=0.05)
    assert np.sqrt(path(0.4).cov()[0, 0]) == pytest.approx(0.6 * 2 + 0.4 * 0.5, rel=0.03)
