import numpy as np
import pytest

import geodesic as gd
from geodesic.errors import InvalidInput, UnknownName
from geodesic.metrics import Euclidean, Graph

LINE = Graph(np.arange(5.0)[:, None], [[i, i + 1] for i in range(4)])
A, B = (gd.Particles.categorical(np.eye(5)[i], LINE.support) for i in (0, 4))


@pytest.mark.parametrize("method", ["exact", "sinkhorn"])
def test_one_point_goes_to_the_best_point_between(method):
    for t, node in ((0.25, 1), (0.5, 2), (0.75, 3)):
        np.testing.assert_allclose(gd.barycenter(A, B, t, LINE, method, reg=1e-3).weights, np.eye(5)[node], atol=1e-6)


def test_points_off_the_support_count_as_their_nearest():
    assert gd.barycenter(gd.Particles([[0.1]]), gd.Particles([[3.9]]), 0.5, LINE).weights[2] == 1


def test_one_point_support():
    dot = Graph([[0.0], [1.0]], [[0, 1]])
    point = gd.Particles([[0.0]])
    for method in ("exact", "sinkhorn"):
        np.testing.assert_allclose(gd.barycenter(point, point, 0.5, dot, method, reg=1e-3).weights, [1, 0], atol=1e-6)


def grid(size: int) -> Graph:
    points = np.stack(np.meshgrid(np.arange(float(size)), np.arange(float(size))), axis=-1).reshape(-1, 2)
    apart = np.abs(points[:, None] - points).sum(axis=2)
    return Graph(points, np.argwhere(np.triu(apart == 1)))


@pytest.mark.parametrize("t", [0.3, 0.5])
@pytest.mark.parametrize(
    "weights",
    [np.random.default_rng(0).dirichlet(np.full(49, 0.1)), np.eye(49)[24], np.full(49, 1 / 49)],
    ids=["few points", "the middle", "all points"],
)
def test_between_a_distribution_and_itself_sinkhorn_stays(weights, t):
    """On a grid of diameter 12; a rule that weighs by an unnormalised density ended after one sweep, 4.6 away."""
    metric = grid(7)
    here = gd.Particles.categorical(weights, metric.support)
    assert gd.wasserstein(gd.barycenter(here, here, t, metric, "sinkhorn"), here, metric) <= 0.05


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: gd.barycenter(A, B, 0.5, LINE, p=1),
            InvalidInput,
            "expected p = 2, got 1; with p = 1 the barycenter is a below t = 1/2 and b above: no path",
        ),
        (
            lambda: gd.barycenter(A, B, 0.5, LINE, "linear"),
            UnknownName,
            "expected method to be one of exact, sinkhorn; got 'linear'",
        ),
        (
            lambda: gd.barycenter(A, B, 0.5, Euclidean()),
            InvalidInput,
            "expected a metric with a finite support (Graph or Matrix), got Euclidean",
        ),
        (lambda: gd.barycenter(A, B, 2, LINE), InvalidInput, "expected t in [0, 1], got 2"),
        (lambda: gd.barycenter(A, B, 0.5, LINE, "sinkhorn", reg=0), InvalidInput, "expected reg to be positive, got 0"),
        (
            lambda: gd.barycenter(A, gd.Particles([[0.0, 1.0]]), 0.5, LINE),
            InvalidInput,
            "expected source and target of one dimension, got 1 and 2",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message
