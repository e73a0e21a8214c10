import numpy as np
import pytest

import geodesic as gd
from geodesic.errors import InvalidInput
from geodesic.metrics import Euclidean, Graph, Matrix
from geodesic.transport import Trajectories
from geodesic.transport import geodesic as module

A = gd.Particles([[0.0, 0.0], [1.0, 0.0]])
B = gd.Particles([[0.0, 2.0], [1.0, 2.0], [5.0, 5.0]], [0.5, 0.5, 0.0])
LINE = Graph(np.arange(5.0)[:, None], [[i, i + 1] for i in range(4)])


def test_mass_moves_straight_and_keeps_its_weights():
    path = gd.Geodesic(A, B)
    assert path.length == 2
    np.testing.assert_allclose(path(0.25).merged().points, [[0, 0.5], [1, 0.5]])
    np.testing.assert_allclose(path(0.25).weights, [0.5, 0.5])


def test_ends_are_the_very_objects_and_need_no_plan():
    path = gd.Geodesic(A, B)
    assert path(0) is A
    assert path(1.0) is B
    assert "plan" not in vars(path)


def test_one_plan_serves_every_alpha(monkeypatch):
    path = gd.Geodesic(A, B)
    calls = []
    solve = module.solve
    monkeypatch.setattr(module, "solve", lambda *args: calls.append(1) or solve(*args))
    for t in np.linspace(0, 1, 20):
        path(t)
    assert path.length
    assert len(calls) == 1


def test_the_size_decides_whether_the_plan_is_exact_or_partitioned(monkeypatch):
    rng = np.random.default_rng(3)
    source, target = gd.Particles(rng.normal(size=(40, 2))), gd.Particles(rng.normal(size=(40, 2)) + 4)
    partitioned, called = module.partitioned_plan, []
    monkeypatch.setattr(module, "partitioned_plan", lambda *given: called.append(given) or partitioned(*given))
    assert module.solve(source, target, Euclidean()).excess == 0
    assert not called
    monkeypatch.setattr(module, "EXACT_SIZE", 39)
    plan = module.solve(source, target, Euclidean())
    assert len(called) == 1
    assert plan.excess >= 0


def test_mass_between_nodes_is_split_linearly_on_the_full_support():
    path = gd.Geodesic(gd.Particles([[0.0]]), gd.Particles([[4.0]]), LINE)
    half = path(0.6)
    np.testing.assert_array_equal(half.points, LINE.support)
    np.testing.assert_allclose(half.weights, [0, 0, 0.6, 0.4, 0])
    assert path.length == 4


def test_paths_follow_the_graph_round_a_wall():
    points = [[0, 0], [0, 1], [1, 1], [2, 1], [2, 0]]
    path = gd.Geodesic(gd.Particles([[0, 0]]), gd.Particles([[2, 0]]), Graph(points, [[i, i + 1] for i in range(4)]))
    assert path.length == 4
    np.testing.assert_allclose(path(0.5).weights, [0, 0, 1, 0, 0], atol=1e-15)


def test_twins_at_distance_zero_do_not_stop_the_path():
    metric = Matrix(np.kron(np.abs(np.subtract.outer(np.arange(3), np.arange(3))), np.ones((2, 2))))
    source, target = (gd.Particles.categorical(np.eye(6)[i]) for i in (0, 5))
    path = gd.Geodesic(source, target, metric)
    assert path.length == 2
    assert path(0.5).weights[2:4].sum() == pytest.approx(1)


def test_equal_ends_stay():
    for metric, ends in ((None, A), (LINE, gd.Particles([[1.0], [3.0]], [0.2, 0.8]))):
        path = gd.Geodesic(ends, ends, metric)
        assert path.length == 0
        assert gd.wasserstein(path(0.5), ends, metric) == 0


def test_wasserstein_in_units_of_the_scale_and_for_every_p():
    a, b = gd.Particles([[0.0, 0.0]]), gd.Particles([[3.0, 40.0]])
    assert gd.wasserstein(a, b, Euclidean([1, 10])) == pytest.approx(5)
    a, b = gd.Particles([[0.0], [1.0]]), gd.Particles([[1.0], [4.0]])
    assert gd.wasserstein(a, b, p=1) == pytest.approx(2)
    assert gd.wasserstein(a, b, p=2) == pytest.approx(np.sqrt(5))
    assert gd.wasserstein(a, b, LINE, p=3) == pytest.approx((1 / 2 + 27 / 2) ** (1 / 3))


@pytest.mark.parametrize("metric", [None, LINE, Matrix(LINE.distances, LINE.support)])
def test_trajectories_agree_with_the_path_where_all_particles_are_equally_far(metric):
    rng = np.random.default_rng(6)
    if metric is None:
        source, target = gd.Particles.uniform([0, 0], [1, 4], 12, rng), gd.Particles.uniform([5, 0], [6, 4], 9, rng)
    else:
        source, target = (
            gd.Particles.categorical(side * rng.random(5), LINE.support) for side in ([1, 1, 0, 0, 0], [0, 0, 1, 1, 1])
        )
    path = gd.Geodesic(source, target, metric)
    trajectories = Trajectories.of(path, 20)
    for knot in range(21):
        there = trajectories.at(np.full(len(trajectories), knot))
        assert gd.wasserstein(there, path(knot / 20)) == pytest.approx(0.0, abs=1e-7)
    assert trajectories.at(np.zeros(len(trajectories), int)) is source


def test_a_particle_is_worth_as_much_as_its_worst_part():
    trajectories = Trajectories.of(gd.Geodesic(gd.Particles([[0.0]]), gd.Particles([[4.0]]), LINE), 8)
    values = trajectories.values(lambda points: 9.0 - points[:, 0], np.arange(9)[None], np.arange(1))
    assert values.tolist() == [[9.0, 8.0, 8.0, 7.0, 7.0, 6.0, 6.0, 5.0, 5.0]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gd.Geodesic(A, B)(1.5), "expected t in [0, 1], got 1.5"),
        (lambda: gd.Geodesic(A, B)(-1e-12), "expected t in [0, 1], got -1e-12"),
        (lambda: gd.Geodesic(A, B)(float("nan")), "expected t in [0, 1], got nan"),
        (lambda: gd.Geodesic(A, B)("half"), "expected t in [0, 1], got 'half'"),
        (
            lambda: gd.Geodesic(A, gd.Particles([[0.0]])),
            "expected source and target of one dimension, got 2 and 1",
        ),
        (
            lambda: gd.wasserstein(A, gd.Particles([[0.0]])),
            "expected source and target of one dimension, got 2 and 1",
        ),
        (lambda: gd.wasserstein(A, B, p=0.5), "expected p >= 1, got 0.5"),
        (lambda: gd.wasserstein(A, B, p=float("nan")), "expected p >= 1, got nan"),
        (lambda: gd.Geodesic(A, B, LINE)(0.5), "expected contexts of dimension 1, got dimension 2"),
        (lambda: gd.Geodesic(A, B, Euclidean([1, 2, 3]))(0.5), "expected contexts of dimension 3, got dimension 2"),
        (lambda: gd.Geodesic([[0.0]], B), "expected source to be Particles, got list"),
        (lambda: gd.wasserstein(A, None), "expected target to be Particles, got NoneType"),
        (lambda: gd.Geodesic(A, B, "l2"), "expected metric to be Metric, got str"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InvalidInput) as caught:
        call()
    assert str(caught.value) == message
