import numpy as np
import pytest
from scipy.sparse.csgraph import floyd_warshall

from geodesic.errors import InvalidInput
from geodesic.metrics import Graph, Matrix
from geodesic.metrics.graph import skeleton

SQUARE = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]


def test_lengths_are_euclidean_unless_given():
    np.testing.assert_allclose(Graph(SQUARE, [[0, 1], [1, 2], [2, 3]]).distances[0], [0, 1, 2, 3])
    np.testing.assert_allclose(Graph(SQUARE, [[0, 1], [1, 2], [2, 3]], [1, 10, 100]).distances[0], [0, 1, 11, 111])


def test_parallel_edges_keep_the_shortest_and_loops_are_ignored():
    graph = Graph(SQUARE[:2], [[0, 1], [1, 0], [0, 0]], [3, 2, 0])
    np.testing.assert_allclose(graph.distances, [[0, 2], [2, 0]])


def test_shortest_paths_equal_floyd_warshall():
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(30, 2))
    graph = Graph.knn(points, 4)
    np.testing.assert_allclose(graph.distances, floyd_warshall(graph.edges, directed=False), atol=1e-12)
    np.testing.assert_allclose(graph.distances, graph.distances.T, atol=1e-12)


def test_contexts_count_as_their_nearest_node():
    graph = Graph(SQUARE, [[0, 1], [1, 2], [2, 3]])
    np.testing.assert_allclose(graph.pairwise(np.array([[0.1, -0.2]]), np.array([[0.1, 0.9]])), [[3]])


def test_knn_joins_distant_parts_by_their_shortest_link():
    points = np.array([0.0, 1.0, 2.0, 10.0, 11.0, 12.0, 20.0, 21.0])[:, None]
    graph = Graph.knn(points, 1)
    np.testing.assert_allclose(graph.distances, np.abs(points - points.T))


def test_interpolation_covers_the_path_in_proportion_to_lengths():
    graph = Graph([[0.0], [1.0], [4.0]], [[0, 1], [1, 2]])
    for t, fractions in ((0.125, (0.5, 0.5)), (0.25, (1, 0)), (0.625, (0.5, 0.5))):
        points, split = graph.interpolate(np.array([[0.0]]), np.array([[4.0]]), t)
        np.testing.assert_allclose(np.sort(split[0])[::-1], np.sort(fractions)[::-1])
        assert (points[0] * split[0][:, None]).sum() == pytest.approx(4 * t)


def test_skeleton_of_a_path_is_the_path():
    d = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    assert list(zip(*skeleton(d))) == [(i, i + 1) for i in range(5)]


def test_skeleton_keeps_twins_connected_and_every_distance():
    rng = np.random.default_rng(1)
    for _ in range(20):
        costs = np.triu(np.round(rng.uniform(0, 3, (9, 9))), 1)
        metric = Matrix(costs + costs.T)
        closed = metric.M.copy()
        for k in range(9):
            closed = np.minimum(closed, closed[:, k, None] + closed[None, k])
        np.testing.assert_allclose(metric.distances, closed, atol=1e-12)
        np.testing.assert_allclose(metric._paths[0], closed, atol=1e-12)


def test_a_metric_matrix_is_kept_to_the_last_bit():
    rng = np.random.default_rng(2)
    points = rng.uniform(size=(20, 2))
    M = np.linalg.norm(points[:, None] - points, axis=2)
    np.testing.assert_array_equal(Matrix(M, points).pairwise(points, points), M)


def test_matrix_without_support_lives_on_the_indices():
    np.testing.assert_array_equal(Matrix([[0, 1], [1, 0]]).support, [[0], [1]])


def test_a_support_of_one_point():
    for metric in (Graph([[3.0]], np.zeros((0, 2), dtype=int)), Matrix([[0.0]], [[3.0]])):
        np.testing.assert_array_equal(metric.distances, [[0]])
        points, fractions = metric.interpolate(metric.support, metric.support, 0.5)
        assert (points * fractions[..., None]).sum() == 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Graph(SQUARE, [[0, 1], [2, 3]]), "expected a connected graph, got 2 components"),
        (lambda: Graph(SQUARE, [[0, 4]]), "expected edges between nodes 0 and 3, got 0 to 4"),
        (lambda: Graph(SQUARE, [[0.5, 1]]), "expected edges as integers of shape (m, 2), got float64 (1, 2)"),
        (lambda: Graph(SQUARE, []), "expected edges as integers of shape (m, 2), got float64 (0,)"),
        (lambda: Graph(SQUARE, [[0, 1]], [-1.0]), "expected lengths to be positive, got -1"),
        (lambda: Graph(SQUARE, [[0, 1]], [1.0, 2.0]), "expected lengths of shape (1,), got shape (2,)"),
        (lambda: Graph([[0.0], [0.0]], [[0, 1]]), "expected distinct support points, got repeated ones"),
        (lambda: Graph([[np.nan]], [[0, 0]]), "expected support to be finite, got 1 NaN or infinite values"),
        (lambda: Graph.knn(SQUARE, 4), "expected k below the number of points 4, got 4"),
        (lambda: Graph.knn(SQUARE, 0), "expected k to be a positive integer, got 0"),
        (lambda: Matrix([[0, 1], [2, 0]]), "expected M to be symmetric, got a difference of 1"),
        (lambda: Matrix([[0, -1], [-1, 0]]), "expected M to be non-negative, got a smallest entry of -1"),
        (lambda: Matrix([[0.1, 1], [1, 0]]), "expected M to have a zero diagonal, got 0.1 on it"),
        (lambda: Matrix([[0, 1]]), "expected M of shape (n, n), got shape (1, 2)"),
        (lambda: Matrix([[0, np.inf], [np.inf, 0]]), "expected M to be finite, got 2 NaN or infinite values"),
        (lambda: Matrix([[0, 1], [1, 0]], [[0.0]]), "expected a support of 2 points for M, got 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InvalidInput) as caught:
        call()
    assert str(caught.value) == message
