"""GRADIENT on contexts with integers and categories: its default metric, which metrics it refuses, and estimates."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula import build
from geodesic.errors import InvalidInput
from geodesic.metrics import Euclidean, Matrix, Metric, Product
from mixed_walk import CONTEXTS

SPACE = gd.ContextSpace.of(CONTEXTS)
ORDERS = (["straight", "mirrored", "slow"], ["slow", "straight", "mirrored"])


def problem(order=ORDERS[0], **more):
    """The same problem, with its categories listed in this order."""
    space = gd.ContextSpace.of({**CONTEXTS, "steering": order})
    easy = {"place": (-2, 2), "steering": "straight", "cost": 0}
    hard = {"place": (6, 8), "steering": ["mirrored", "slow"], "cost": (2, 3)}
    rng = np.random.default_rng(0)
    source, target = (space.uniform(40, rng, ends) for ends in (easy, hard))
    if order != ORDERS[0]:  # the same contexts, by their names
        source, target = (translated(each, space) for each in (problem().source, problem().target))
    return gd.Problem(source, target, space, threshold=5.0, **more)


def translated(particles, space, back=SPACE):
    """The same contexts in a space whose categories have another order."""
    return gd.Particles([space.encode(back.decode(point)) for point in particles.points], particles.weights)


def episodes(state, space, seed, n=25):
    """Scores that depend on the names of categories; the same for every order."""
    rng = np.random.default_rng(seed)
    contexts = state.distribution.sample(rng, n)
    easier = np.array([space.decode(context)["steering"] != "slow" for context in contexts])
    scores = np.where(easier, 9.0, 3.0) - contexts[:, 2] + rng.normal(size=n)
    return gd.EpisodeBatch(contexts, scores, np.full(n, 10), np.full(n, state.stage))


def test_the_default_metric_is_the_product():
    given = problem()
    plain = build("gradient", given)
    for alpha in (0.3, 0.5):
        assert plain.path(alpha) == gd.Geodesic(given.source, given.target, Product(SPACE))(alpha)
        assert SPACE.contains(plain.path(alpha).points).all()


class Own(Product):
    """Twice the distance."""

    def pairwise(self, x, y):
        return 2 * super().pairwise(x, y)


class Manhattan(Metric):
    """Sum of absolute differences; its paths are straight lines."""

    def pairwise(self, x, y):
        return np.abs(x[:, None] - y).sum(axis=2)


@pytest.mark.parametrize("metric", [Euclidean(), Euclidean(SPACE.sides), Manhattan()])
@pytest.mark.parametrize("method", ["gradient", "auto"])
@pytest.mark.parametrize("source", ["known", "auto"])
def test_metrics_whose_paths_lead_between_categories_are_refused(metric, method, source):
    given = problem(metric=metric)
    with pytest.raises(InvalidInput) as caught:
        build(method, given, **({} if source == "known" else {"source": "auto"}))
    assert str(caught.value) == (
        f"expected a metric whose paths keep to integers and categories, got {type(metric).__name__}; try "
        "geodesic.metrics.Product(space, distances), or a subclass of it with its own pairwise"
    )


def test_other_metrics_that_keep_to_them_are_taken():
    support = np.array([[0.0, steering, cost] for steering in range(3) for cost in range(4)])
    steps = Matrix(np.abs(support[:, None] - support).sum(axis=2), support)
    for metric in (Own(SPACE), steps):
        assert build("gradient", problem(metric=metric)).metric is metric


class Straight:
    """A learned metric whose paths are straight lines."""

    space, memory = SPACE, 10

    def fit(self, episodes, rng, anchors=None):
        return Euclidean()


def test_a_learned_metric_whose_paths_leave_the_space_is_refused_when_it_is_fitted():
    method = build("gradient", problem(metric=Straight()), explore_steps=1, window=1)
    state, rng = method.init(np.random.default_rng(0)), np.random.default_rng(0)
    state = method.update(state, episodes(state, SPACE, 0), rng)
    assert state.kind == "explore"
    with pytest.raises(InvalidInput, match="expected a metric whose paths keep to .*, got Euclidean"):
        method.update(state, episodes(state, SPACE, 1), rng)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("gradient", {"pace": "adaptive"}),
        ("gradient", {"pace": "particles"}),
        ("gradient", {"step": 0.3}),
        ("wb-spdl", {"episodes_per_update": 20, "n_particles": 30}),
    ],
)
def test_the_order_of_categories_changes_nothing(method, options):
    """Their numbers are names: what is near to what, and what is estimated where, does not depend on them."""
    found = []
    for order in ORDERS:
        given = problem(order)
        made = build(method, given, **options)
        rng = np.random.default_rng(1)
        states = [made.init(rng)]
        for seed in range(12):
            states.append(made.update(states[-1], episodes(states[-1], given.space, seed), rng))
        found.append([(state.alpha, translated(state.distribution, SPACE, given.space)) for state in states])
    for (alpha, one), (other_alpha, other) in zip(*found, strict=True):
        assert alpha == pytest.approx(other_alpha)
        np.testing.assert_allclose(one.points, other.points, atol=1e-9)
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-9)
    assert found[0][-1][0] > 0


def test_estimates_of_one_category_do_not_leak_into_another():
    pace = gd.AdaptivePace().bind(5.0, SPACE, "return")
    points = np.array([[0.0, category, 1.0] for category in (0, 2) for _ in range(20)])
    scores = np.where(points[:, 1] == 0, 9.0, 1.0)
    estimate = pace.estimate(gd.EpisodeBatch(points, scores, np.ones(40), np.zeros(40)))
    np.testing.assert_allclose(estimate(np.array([[0.1, 0, 1], [0.1, 2, 1]]))[:, 0], [4, -4], atol=1e-6)
