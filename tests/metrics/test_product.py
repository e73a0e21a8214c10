"""Distances and transport between contexts of numbers, integers and categories."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import geodesic as gd
from geodesic.errors import InvalidInput
from geodesic.metrics import Euclidean, Matrix, Metric, Product
from geodesic.transport import Trajectories

SPACE = gd.ContextSpace.of(
    {
        "gravity": (0.0, 20.0),
        "opponent": ["passive", "random", "chaser"],
        "ice": [False, True],
        "obstacles": range(10),
    }
)
CHAIN = [[0.0, 1.0, 3.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]]  # the way from the first to the third is by the second
METRICS = {"default": Product(SPACE), "chain": Product(SPACE, {"opponent": CHAIN, "gravity": 2.0, "ice": 0.5})}
LONGEST = {"default": (1, 1, 1 / 9), "chain": (1, 0.5, 1 / 9)}  # steps of categories and integers


@pytest.fixture(params=METRICS)
def name(request):
    return request.param


@pytest.fixture
def metric(name):
    return METRICS[name]


def contexts(*rows):
    return np.array([SPACE.encode(dict(zip(SPACE.names, row))) for row in rows])


def pair(seed, n=12, m=9):
    """Two distributions on random contexts with random weights."""
    rng = np.random.default_rng(seed)
    return tuple(gd.Particles(SPACE.draw(k, rng), rng.dirichlet(np.ones(k))) for k in (n, m))


def cost_by_linear_program(a, b, cost):
    """The least cost of a plan, found without any of our solvers."""
    n, m = cost.shape
    rows, columns = np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))
    found = linprog(cost.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([a, b]), method="highs")
    assert found.success
    return found.fun


def test_distances_of_the_values_are_summed_in_squares():
    x, y = contexts((0, "passive", False, 0), (5, "passive", True, 3)), contexts((10, "chaser", False, 9))
    default, chain = METRICS["default"].pairwise(x, y), METRICS["chain"].pairwise(x, y)
    np.testing.assert_allclose(default[:, 0] ** 2, [0.25 + 1 + 0 + 1, 0.0625 + 1 + 1 + (6 / 9) ** 2])
    np.testing.assert_allclose(chain[:, 0] ** 2, [1 + 4 + 0 + 1, 0.25 + 4 + 0.25 + (6 / 9) ** 2])


def test_it_is_a_metric(metric):
    assert isinstance(metric, Metric)
    points = SPACE.draw(30, np.random.default_rng(0))
    d = metric.pairwise(points, points)
    np.testing.assert_allclose(np.diagonal(d), 0, atol=1e-12)
    np.testing.assert_allclose(d, d.T)
    assert (d[:, None, :] <= d[:, :, None] + d[None] + 1e-9).all()
    np.testing.assert_allclose(metric.plan_cost(points, points[:4]), d[:, :4] ** 2)


def test_without_integers_and_categories_it_is_euclidean():
    box = gd.ContextSpace([0.0, -1.0], [4.0, 3.0])
    rng = np.random.default_rng(0)
    x, y = box.draw(5, rng), box.draw(5, rng)
    ours, theirs = Product(box), Euclidean(box.sides)
    np.testing.assert_allclose(ours.pairwise(x, y), theirs.pairwise(x, y))
    for one, other in zip(ours.interpolate(x, y, 0.3), theirs.interpolate(x, y, 0.3)):
        np.testing.assert_allclose(one, other)


def test_with_one_category_it_moves_mass_as_a_matrix_does():
    space = gd.ContextSpace.of({"opponent": ["a", "b", "c"]})
    ends = gd.Particles([[0.0], [1.0], [2.0]], [0.7, 0.3, 0]), gd.Particles([[0.0], [1.0], [2.0]], [0.1, 0.1, 0.8])
    for distances in (np.array(CHAIN), 1 - np.eye(3)):
        ours = gd.Geodesic(*ends, Product(space, {"opponent": distances}))
        theirs = gd.Geodesic(*ends, Matrix(distances))
        for t in (0.2, 0.5, 0.9):
            expected = theirs(t).merged()
            np.testing.assert_array_equal(ours(t).merged().points, expected.points)
            np.testing.assert_allclose(ours(t).merged().weights, expected.weights)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(sorted(METRICS)))
def test_transport_costs_what_a_linear_program_finds(seed, name):
    source, target = pair(seed)
    metric = METRICS[name]
    least = cost_by_linear_program(source.weights, target.weights, metric.pairwise(source.points, target.points) ** 2)
    path = gd.Geodesic(source, target, metric)
    assert path.length**2 == pytest.approx(least, abs=1e-9)
    assert gd.wasserstein(source, target, metric) ** 2 == pytest.approx(least, abs=1e-9)
    np.testing.assert_allclose(np.bincount(path.plan.rows, path.plan.mass, len(source)), source.weights, atol=1e-12)
    np.testing.assert_allclose(np.bincount(path.plan.cols, path.plan.mass, len(target)), target.weights, atol=1e-12)


@settings(max_examples=40, deadline=None)
@example(244, "chain", 0.08933782149518256)  # 9 and 9 have 9.000000000000002 between them
@example(64, "chain", 0.08933782149518256)
@given(st.integers(0, 10**6), st.sampled_from(sorted(METRICS)), st.floats(0, 1))
def test_every_atom_on_the_way_is_a_context_and_no_mass_is_lost(seed, name, t):
    source, target = pair(seed)
    metric = METRICS[name]
    there = gd.Geodesic(source, target, metric)(t)
    assert SPACE.contains(there.points).all()
    assert (there.weights > 0).all()
    assert there.weights.sum() == pytest.approx(1)
    points, fractions = metric.interpolate(source.points[:9], target.points, t)
    assert points.shape == (9, 4, 4)  # two categories and an integer: at most four parts
    np.testing.assert_allclose(fractions.sum(axis=1), 1)
    assert (fractions >= 0).all()
    assert SPACE.contains(points.reshape(-1, 4)).all()
    for k in (0, 3):  # the means of numbers and integers move evenly
        mean = (points[..., k] * fractions).sum(axis=1)
        np.testing.assert_allclose(mean, (1 - t) * source.points[:9, k] + t * target.points[:, k], atol=1e-9)


def test_a_fraction_t_of_an_atom_has_the_new_categories_and_the_integer_ahead():
    x, y = contexts((4, "passive", False, 1)), contexts((8, "chaser", True, 2))
    points, fractions = METRICS["default"].interpolate(x, y, 0.25)
    some = fractions[0] > 0
    np.testing.assert_array_equal(points[0][some], contexts((5, "passive", False, 1), (5, "chaser", True, 2)))
    np.testing.assert_allclose(fractions[0][some], [0.75, 0.25])


def test_categories_lead_through_those_in_between():
    x, y = contexts((4, "passive", False, 1)), contexts((4, "chaser", False, 1))
    opponents = []
    for t in (0.25, 0.5, 0.75):
        points, fractions = METRICS["chain"].interpolate(x, y, t)
        shares = np.bincount(points[0, :, 1].astype(int), fractions[0], 3)
        opponents.append(shares.round(9).tolist())
    assert opponents == [[0.5, 0.5, 0], [0, 1, 0], [0, 0.5, 0.5]]


@pytest.mark.parametrize("seed", range(4))
def test_the_speed_is_constant_up_to_a_step(name, metric, seed):
    source, target = pair(seed, 8, 8)
    path, bound = gd.Geodesic(source, target, metric), np.linalg.norm(LONGEST[name])
    for s, t in ((0.0, 0.3), (0.3, 0.5), (0.2, 0.9)):
        assert abs(gd.wasserstein(path(s), path(t), metric) - (t - s) * path.length) <= bound


def test_the_parts_of_atoms_are_in_an_order_of_which_every_other_one_is_fair():
    """Estimates of a mean look at every k-th point."""
    source = gd.Particles(contexts(*[(k, "passive", False, 0) for k in range(10)]))
    target = gd.Particles(contexts(*[(10 + k, "chaser", False, 0) for k in range(10)]))
    half = gd.Geodesic(source, target, METRICS["default"])(0.5)
    assert half.points[::2, 1].tolist() == [0] * 5 + [2] * 5


def test_trajectories_are_split_in_the_same_way(metric):
    source, target = pair(3, 6, 6)
    path = gd.Geodesic(source, target, metric)
    trajectories = Trajectories.of(path, 4)
    for knot in range(5):
        there = trajectories.at(np.full(len(trajectories), knot)).merged()
        expected = path(knot / 4).merged()
        np.testing.assert_allclose(there.points, expected.points)
        np.testing.assert_allclose(there.weights, expected.weights)
    value = trajectories.values(
        lambda points: points[:, 1], np.full((len(trajectories), 1), 2), np.arange(len(trajectories))
    )
    assert set(value.ravel()) <= {0.0, 1.0, 2.0}


def test_a_range_without_end_is_measured_in_its_own_unit():
    space = gd.ContextSpace.of({"gravity": (0.0, np.inf), "opponent": ["a", "b"]})
    assert Product(space).pairwise(np.array([[0.0, 0]]), np.array([[3.0, 0]])) == 3.0
    assert Product(space, {"gravity": 2}).pairwise(np.array([[0.0, 0]]), np.array([[3.0, 0]])) == 6.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Product("space"), "expected space to be ContextSpace, got str"),
        (
            lambda: Product(gd.ContextSpace.discrete([[0.0], [1.0]])),
            "expected a space of numbers, integers and categories",
        ),
        (lambda: Product(SPACE, [1.0]), "expected distances as {name: distance}, got [1.0]"),
        (
            lambda: Product(SPACE, {"oponent": 1.0}),
            "a name in distances to be one of gravity, opponent, ice, obstacles; got",
        ),
        (lambda: Product(SPACE, {"gravity": 0}), "expected the distance of gravity to be positive, got 0"),
        (lambda: Product(SPACE, {"gravity": CHAIN}), "expected the distance of gravity to be a finite number"),
        (lambda: Product(SPACE, {"opponent": -1}), "expected the distance of opponent to be positive, got -1"),
        (lambda: Product(SPACE, {"ice": CHAIN}), "expected the distances of ice of dimension 2, got dimension 3"),
        (
            lambda: Product(SPACE, {"opponent": CHAIN[:2]}),
            "the distances of opponent of shape (3, 3), got shape (2, 3)",
        ),
        (lambda: Product(SPACE, {"opponent": [[0, 1, 1], [2, 0, 1], [1, 1, 0]]}), "to be symmetric"),
        (
            lambda: METRICS["default"].pairwise(np.zeros((1, 2)), np.zeros((1, 2))),
            "contexts of dimension 4, got dimension 2",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InvalidInput) as caught:
        make()
    assert message in str(caught.value)
