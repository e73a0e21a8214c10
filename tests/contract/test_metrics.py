"""The contracts of every metric and of every learned metric."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.contexts.levels import LevelSpace
from geodesic.metrics import (
    EditDistance,
    Euclidean,
    Graph,
    LearnedMetric,
    Matrix,
    Metric,
    TabularCMDP,
    contextual_distance,
)
from geodesic.metrics.base import Fitted
from geodesic.metrics.graph import Finite

POINTS = np.random.default_rng(0).uniform(size=(12, 2))
STATES = np.arange(12)
CHAIN = TabularCMDP(
    np.where(STATES > 0, -1.0, 0.0)[:, None], np.maximum(STATES - 1, 0)[:, None], STATES, contexts=POINTS
)
LEVELS = LevelSpace(5, most_walls=8)
METRICS: dict[str, Metric] = {
    "euclidean": Euclidean(),
    "scaled": Euclidean([0.5, 2.0]),
    "knn": Graph.knn(POINTS, 3),
    "matrix": Matrix(np.linalg.norm(POINTS[:, None] - POINTS, axis=2), POINTS),
    "own": type("Own", (Metric,), {"pairwise": lambda self, x, y: 2 * Euclidean().pairwise(x, y)})(),
    "contextual": contextual_distance(CHAIN, np.zeros(12, dtype=int), 0.95),
    "edit": EditDistance(LEVELS),
}


@pytest.fixture(params=METRICS)
def metric(request):
    return METRICS[request.param]


@pytest.fixture
def points(metric):
    """12 contexts that the metric is for."""
    return LEVELS.draw(12, np.random.default_rng(0)) if isinstance(metric, EditDistance) else POINTS


def test_it_is_a_metric(metric, points):
    assert isinstance(metric, Metric)
    d = metric.pairwise(points, points)
    assert d.shape == (12, 12)
    np.testing.assert_allclose(np.diagonal(d), 0, atol=1e-12)
    np.testing.assert_allclose(d, d.T, atol=1e-12)
    assert (d[:, None, :] <= d[:, :, None] + d[None] + 1e-9).all()
    assert metric.plan_cost(points, points[:5]).shape == (12, 5)


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0])
def test_interpolation_keeps_all_the_mass(metric, points, t):
    parts, fractions = metric.interpolate(points, points[::-1], t)
    assert parts.shape == (*fractions.shape, points.shape[1])
    assert (fractions >= 0).all()
    np.testing.assert_allclose(fractions.sum(axis=1), 1)
    if t in (0, 1):
        mean = (parts * fractions[..., None]).sum(axis=1)
        np.testing.assert_allclose(mean, points[::-1] if t else points, atol=1e-12)


def test_length_of_one_atom_is_its_distance(metric):
    assert metric.length(np.array([2.0]), np.array([1.0])) == pytest.approx(2.0)


def test_a_path_has_exact_ends_and_the_length_of_the_transport(metric, points):
    rng = np.random.default_rng(1)
    source, target = (gd.Particles(points, rng.dirichlet(np.ones(12))) for _ in range(2))
    path = gd.Geodesic(source, target, metric)
    assert path(0) is source
    assert path(1) is target
    p = 1 if isinstance(metric, (Finite, EditDistance)) else 2
    assert path.length == pytest.approx(gd.wasserstein(source, target, metric, p), abs=1e-9)
    for a, b in ((0.0, 0.25), (0.25, 0.75), (0.5, 1.0)):
        assert gd.wasserstein(path(a), path(b), metric, p) == pytest.approx((b - a) * path.length, abs=1e-9)


SPACE = gd.ContextSpace([-1.0, 0.0], [3.0, 1.0])
LEARNED: dict[str, LearnedMetric] = {
    "return-lift": gd.metrics.ReturnLift(SPACE, worst_return=-1.0, threshold=0.5),
    "embedding": gd.metrics.Embedding(SPACE, worst_return=-1.0, contexts=60, epochs=20),
    "practice": gd.metrics.Practice(SPACE, threshold=0.5),
}
UNTRAINED = {"practice": 1.0}  # what a metric expects without episodes, if not the worst return


@pytest.fixture(params=LEARNED)
def learned(request):
    return LEARNED[request.param]


def episodes(n):
    contexts = SPACE.draw(200, np.random.default_rng(2))
    return gd.EpisodeBatch(contexts, np.cos(contexts[:, 0]), np.ones(200), np.zeros(200))[:n]


def test_a_learned_metric_is_not_yet_a_metric(learned):
    assert isinstance(learned, LearnedMetric)
    assert not isinstance(learned, Metric)
    assert learned.space is SPACE
    assert learned.memory >= 0


def test_no_metric_is_a_learned_metric(metric):
    assert not isinstance(metric, LearnedMetric)


@pytest.mark.parametrize("n", [0, 1, 5, 150])
def test_any_number_of_episodes_gives_a_metric_with_returns(learned, n, request):
    anchors = SPACE.draw(12, np.random.default_rng(3))
    made = learned.fit(episodes(n), np.random.default_rng(4), anchors)
    assert isinstance(made, Metric)
    assert isinstance(made, Fitted)
    assert made.returns(anchors).shape == (12,)
    if not n:
        expected = UNTRAINED.get(request.node.callspec.params["learned"], -1.0)
        np.testing.assert_array_equal(made.returns(anchors), expected)
    d = made.pairwise(anchors, anchors)
    assert np.isfinite(d).all()
    np.testing.assert_allclose(d, d.T, atol=1e-6)
    assert (d[:, None, :] <= d[:, :, None] + d[None] + 1e-6).all()
    source, target = gd.Particles(anchors[:6]), gd.Particles(anchors[6:])
    halfway = gd.Geodesic(source, target, made)(0.5)
    assert SPACE.contains(halfway.positive().points).all()


def test_the_same_episodes_and_generator_give_the_same_metric(learned):
    x = SPACE.draw(12, np.random.default_rng(3))
    first, second = (learned.fit(episodes(40), np.random.default_rng(4), x).pairwise(x, x) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_anchors_may_be_left_out(learned):
    x = SPACE.draw(5, np.random.default_rng(3))
    assert np.isfinite(learned.fit(episodes(40), np.random.default_rng(4)).pairwise(x, x)).all()


def test_a_known_way_through_a_room_is_found_in_small_hops():
    """Where contexts succeed on a detour and nowhere else, no hop of the path covers most of it."""
    rng = np.random.default_rng(0)
    contexts = SPACE.draw(20_000, rng)
    x, y = contexts.T
    won = ((np.abs(x - 1.0) > 0.4) | (y > 0.7)).astype(float)  # a door above
    batch = gd.EpisodeBatch(contexts, won, np.ones(len(won)), np.zeros(len(won)))
    near, far = gd.Particles([[0.0, 0.1]]), gd.Particles([[2.0, 0.1]])
    path = gd.Geodesic(near, far, LEARNED["practice"].fit(batch, rng))
    places = np.stack([path(t).mean() for t in np.linspace(0, 1, 41)])
    assert np.linalg.norm(np.diff(places, axis=0) / [4.0, 1.0], axis=1).max() < 0.1
    assert places[np.abs(places[:, 0] - 1.0) < 0.3, 1].min() > 0.7
