"""The model of the agent's scores and the distances built on it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from geodesic.contexts import ContextSpace, EpisodeBatch, Particles, Score
from geodesic.envs.u_maze import UMaze, nearest_free, path_length
from geodesic.errors import InvalidInput
from geodesic.metrics.embedding import Embedding
from geodesic.metrics.returns import (
    MEMORY,
    LiftedGraph,
    ReturnGap,
    ReturnLift,
    ReturnModel,
    cover,
    lattice,
    return_differences,
)
from geodesic.transport.geodesic import Geodesic, wasserstein

SPACE = ContextSpace([0.0, 0.0], [10.0, 1.0])
ENV = UMaze()


def oracle(goals: np.ndarray) -> np.ndarray:
    """1 - 0.01 steps along the shortest way around the wall, -1 inside it."""
    feasible = ENV.is_feasible(goals)
    lengths = path_length(np.zeros_like(goals), nearest_free(goals))
    return np.where(feasible, 1 - 0.01 * np.ceil(np.where(feasible, lengths, 0.0)), -1.0)


def test_the_model_recovers_a_smooth_return() -> None:
    rng = np.random.default_rng(0)

    def truth(c: np.ndarray) -> np.ndarray:
        return -3 + 2 * np.sin(c[:, 0] / 3) + c[:, 1]

    seen, asked = rng.uniform([0, 0], [10, 1], (150, 2)), rng.uniform([0.5, 0.05], [9.5, 0.95], (300, 2))
    model = ReturnModel(seen, truth(seen) + 0.02 * rng.standard_normal(150), SPACE, worst_return=-6.0)
    assert np.abs(model(asked) - truth(asked)).max() < 0.2


def test_far_from_all_data_the_model_predicts_the_worst_return() -> None:
    seen = np.random.default_rng(0).uniform([0, 0], [0.5, 0.05], (40, 2))
    model = ReturnModel(seen, np.linspace(-0.5, 1, 40), SPACE, worst_return=-1.0)
    assert model(np.array([[10.0, 1.0]]))[0] == pytest.approx(-1.0, abs=0.1)  # the correlation over a diagonal is 5 %


@pytest.mark.parametrize("n", [0, 1, 2, 9, 10, 50])
def test_constant_returns_at_the_worst(n: int) -> None:
    model = ReturnModel(np.tile([5.0, 0.5], (n, 1)), np.full(n, -1.0), SPACE, worst_return=-1.0)
    np.testing.assert_array_equal(model(lattice(SPACE)), -1.0)


@pytest.mark.parametrize("n", [1, 2, 9, 10, 50])
def test_constant_returns_on_one_repeated_context(n: int) -> None:
    model = ReturnModel(np.tile([5.0, 0.5], (n, 1)), np.full(n, 0.5), SPACE, worst_return=-1.0)
    values = model(lattice(SPACE))
    assert np.isfinite(values).all()
    assert model(np.array([[5.0, 0.5]]))[0] == pytest.approx(0.5, abs=0.15)


def test_contradicting_returns_of_one_context_are_averaged() -> None:
    model = ReturnModel(np.tile([5.0, 0.5], (100, 1)), np.tile([0.0, 1.0], 50), SPACE, worst_return=-1.0)
    assert model(np.array([[5.0, 0.5]]))[0] == pytest.approx(0.5, abs=0.05)


def test_only_the_latest_episodes_count() -> None:
    rng = np.random.default_rng(0)
    seen = rng.uniform([0, 0], [10, 1], (50, 2))
    contexts, returns = np.tile(seen, (3, 1)), np.r_[rng.uniform(-1, 1, 100), seen[:, 0] / 10]
    long = EpisodeBatch(contexts, returns, np.ones(150), np.zeros(150))
    metric = ReturnLift(SPACE, -1.0, 0.5, memory=50)
    assert ReturnLift(SPACE, -1.0, 0.5).memory == MEMORY
    fitted = metric.fit(long, rng).returns(seen)
    np.testing.assert_array_equal(fitted, metric.fit(long[-50:], rng).returns(seen))
    assert not np.array_equal(fitted, ReturnLift(SPACE, -1.0, 0.5, memory=150).fit(long, rng).returns(seen))


def test_a_fit_is_repeatable() -> None:
    rng = np.random.default_rng(0)
    seen, returns = rng.uniform([0, 0], [10, 1], (120, 2)), rng.uniform(-1, 1, 120)
    first, second = (ReturnModel(seen, returns, SPACE, -1.0)(seen) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_unequal_numbers_of_contexts_and_returns_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"expected returns of shape \(2,\), got shape \(3,\)"):
        ReturnModel(np.zeros((2, 2)), np.ones(3), SPACE, -1.0)


def test_return_difference_is_the_difference_of_returns() -> None:
    contexts = np.array([[1.0, 0.0], [2.0, 0.0], [4.0, 1.0]])
    distances = return_differences(lambda c: 3 * c[:, 0], contexts)
    np.testing.assert_allclose(distances, [[0.0, 3.0, 9.0], [3.0, 0.0, 6.0], [9.0, 6.0, 0.0]])


def test_without_a_return_the_lift_is_the_straight_distance_in_units_of_the_space() -> None:
    """Edges have at least 16 directions, so shortest paths are at most 3 % longer than straight lines."""
    ends = np.random.default_rng(0).uniform([0, 0], [10, 1], (40, 2))
    metric = LiftedGraph(lambda c: np.zeros(len(c)), SPACE, ends, beta=1.0)
    straight = np.linalg.norm((ends[:, None] - ends[None]) / [10.0, 1.0], axis=2)
    got = metric.pairwise(ends, ends)
    assert (got >= straight - 1e-12).all()
    assert (got <= 1.05 * straight + 0.02).all()


def test_a_monotone_return_adds_its_height() -> None:
    """Along one axis J rises by 2 over the side: d = sqrt(1 + (beta 2)^2) from end to end."""
    line = ContextSpace([0.0], [10.0])
    metric = LiftedGraph(lambda c: 0.2 * c[:, 0], line, np.array([[0.0], [10.0]]), beta=1.5)
    assert metric.pairwise(np.array([[0.0]]), np.array([[10.0]]))[0, 0] == pytest.approx(np.sqrt(10))


def test_distances_are_strictly_positive_and_symmetric() -> None:
    anchors = np.random.default_rng(0).uniform([0, 0], [10, 1], (50, 2))
    d = LiftedGraph(lambda c: np.round(c[:, 0]), SPACE, anchors, beta=2.0).pairwise(anchors, anchors)
    np.testing.assert_allclose(d, d.T)
    assert (d[~np.eye(50, dtype=bool)] > 0).all()
    assert (np.diag(d) == 0).all()


def test_a_tight_cloud_of_anchors_stays_connected() -> None:
    anchors = [5.0, 0.5] + 1e-6 * np.random.default_rng(0).standard_normal((100, 2))
    metric = LiftedGraph(lambda c: np.zeros(len(c)), SPACE, anchors, beta=1.0)
    assert np.isfinite(metric.distances).all()


OPTIONS = {"space": SPACE, "worst_return": -1.0, "threshold": 1.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": -1.0}, "expected a threshold above the worst return -1.0, got -1.0"),
        ({"threshold": float("nan")}, "expected threshold to be a finite number, got nan"),
        ({"lift": -1.0}, "expected lift to be non-negative, got -1.0"),
        ({"lift": float("inf")}, "expected lift to be a finite number, got inf"),
        ({"neighbours": 0}, "expected neighbours to be a positive integer, got 0"),
        ({"memory": 0}, "expected memory to be a positive integer, got 0"),
        ({"score": "reward"}, "expected score to be one of return, discounted_return, success; got 'reward'"),
        (
            {"space": ContextSpace([0.0, 0.0], [1.0, np.inf])},
            "expected a bounded context space, got low [0. 0.] and high [ 1. inf]",
        ),
    ],
)
def test_invalid_options_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ReturnLift(**{**OPTIONS, **options})
    assert str(caught.value) == message


@pytest.mark.parametrize("score", ["return", "discounted_return", "success"])
@pytest.mark.parametrize("kind", [ReturnLift, ReturnGap, Embedding])
def test_a_learned_metric_is_fitted_to_its_score(kind: type, score: Score) -> None:
    """The returns, discounted returns and successes of these episodes have nothing in common."""
    rng, space = np.random.default_rng(0), ContextSpace.discrete(lattice(SPACE)) if kind is ReturnGap else SPACE
    contexts = lattice(SPACE)[::8]
    columns = {"return": contexts[:, 1], "discounted_return": -contexts[:, 0], "success": contexts[:, 0] > 5}
    episodes = EpisodeBatch(
        contexts,
        columns["return"],
        np.ones(len(contexts)),
        np.zeros(len(contexts)),
        discounted=columns["discounted_return"],
        successes=columns["success"],
    )
    options = {"threshold": 1.0} if kind is ReturnLift else {"contexts": 60, "epochs": 20} if kind is Embedding else {}
    fitted = kind(space, -10.0, score=score, **options).fit(episodes, rng)
    model = ReturnModel(contexts, columns[score], space, -10.0)
    np.testing.assert_array_equal(fitted.returns(contexts), model(contexts))
    assert kind(space, -10.0, **options).score == "return"


def test_a_score_that_episodes_do_not_have_is_refused() -> None:
    episodes = EpisodeBatch([[5.0, 0.5]], [1.0], [1], [0])
    with pytest.raises(InvalidInput, match="expected successes .*, since the task's score is 'success'; got none"):
        ReturnLift(**OPTIONS, score="success").fit(episodes, np.random.default_rng(0))


def test_a_climb_from_the_worst_return_to_the_threshold_is_worth_the_lift() -> None:
    """On a line of side 10, between a context at the worst return and one at the threshold: sqrt(1 + lift^2) sides."""
    line, rng = ContextSpace([0.0], [10.0]), np.random.default_rng(0)
    contexts = np.linspace(0.0, 10.0, 150)[:, None]
    episodes = EpisodeBatch(contexts, -3.0 + 0.4 * contexts[:, 0], np.ones(150), np.zeros(150))
    for lift in (0.0, 2.0, 5.0):
        metric = ReturnLift(line, worst_return=-3.0, threshold=1.0, lift=lift).fit(episodes, rng, [[0.0], [10.0]])
        length = metric.pairwise(np.array([[0.0]]), np.array([[10.0]]))[0, 0]
        assert length == pytest.approx(np.hypot(1.0, lift), rel=0.01)


def test_a_fit_keeps_its_model_and_has_its_anchors_as_nodes() -> None:
    rng = np.random.default_rng(0)
    contexts, anchors = rng.uniform([0, 0], [10, 1], (80, 2)), rng.uniform([0, 0], [10, 1], (7, 2))
    episodes = EpisodeBatch(contexts, np.sin(contexts[:, 0]), np.ones(80), np.zeros(80))
    metric = ReturnLift(**OPTIONS).fit(episodes, rng, anchors)
    assert isinstance(metric, LiftedGraph)
    np.testing.assert_array_equal(metric.support[metric.index(anchors)], anchors)
    model = ReturnModel(contexts, episodes.returns, SPACE, -1.0)
    np.testing.assert_array_equal(metric.returns(anchors), model(anchors))
    with pytest.raises(InvalidInput, match="expected anchors of dimension 2, got dimension 1"):
        ReturnLift(**OPTIONS).fit(episodes, rng, [[0.0]])


@pytest.mark.parametrize("seed", range(3))
def test_with_the_true_return_the_path_goes_around_the_wall_at_constant_speed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    source, target = ENV.source(rng), ENV.target(rng)
    metric = LiftedGraph(oracle, ENV.context_space, np.concatenate([source.points, target.points]), beta=2.0)
    path = Geodesic(source, target, metric)
    stages = [path(t).merged() for t in (0.0, 0.25, 0.5, 0.75, 1.0)]
    for stage in stages[1:4]:
        assert stage.weights @ ENV.is_feasible(stage.points) >= 0.98
    hops = [wasserstein(a, b, metric, p=1) for a, b in pairwise(stages)]
    np.testing.assert_allclose(hops, path.length / 4, rtol=0.05)
    straight = Geodesic(source, target)(0.5)
    assert ENV.is_feasible(straight.points).mean() < 0.1


@pytest.mark.parametrize("d", [4, 7, 10])
@pytest.mark.parametrize("lift", [0.0, 5.0])
def test_in_many_dimensions_the_path_approaches_the_target_steadily(d: int, lift: float) -> None:
    """A lattice would have only corners there, and mass that moves to them moves away from the target."""
    rng = np.random.default_rng(d)
    space = ContextSpace(np.zeros(d), np.ones(d))
    source = Particles.gaussian(np.full(d, 0.2), 0.05, 100, rng, space.low, space.high)
    target = Particles.gaussian(np.full(d, 0.75), 0.02, 100, rng, space.low, space.high)
    contexts = space.uniform(200, rng).points
    episodes = EpisodeBatch(contexts, -np.linalg.norm(contexts - 0.2, axis=1), np.ones(200), np.zeros(200))
    anchors = np.concatenate([source.points, target.points])
    path = Geodesic(source, target, ReturnLift(space, -3.0, -0.2, lift=lift).fit(episodes, rng, anchors))
    stages = [path(t).positive() for t in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)]
    left = np.array([wasserstein(stage, target) for stage in stages]) / wasserstein(source, target)
    assert (np.diff(left) < -0.05).all()
    if not lift:
        np.testing.assert_allclose(left, [1.0, 0.8, 0.6, 0.4, 0.2, 0.0], atol=0.05)


def test_a_cover_is_a_lattice_in_few_dimensions_and_the_same_at_every_call() -> None:
    for d in (1, 2, 3):
        space = ContextSpace(np.zeros(d), np.ones(d))
        np.testing.assert_array_equal(cover(space, np.full((4, d), 0.3)), lattice(space))
    space, anchors = ContextSpace(np.full(8, -2.0), np.full(8, 6.0)), np.array([np.zeros(8), np.ones(8)])
    nodes = cover(space, anchors)
    np.testing.assert_array_equal(nodes, cover(space, anchors))
    assert space.contains(nodes).all()
    assert len(cover(space, anchors[:0])) < len(nodes)
