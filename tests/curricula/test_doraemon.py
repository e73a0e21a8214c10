"""DORAEMON: where it starts, what it finds where the answer is known, and where it cannot."""

import numpy as np
import pytest
from scipy.stats import beta

import geodesic as gd
from geodesic.curricula import AutoThreshold, Search, build
from geodesic.curricula.doraemon import DORAEMON

SPACE = gd.ContextSpace([0.0, -5.0], [10.0, 5.0])
SOURCE = gd.Particles.gaussian([3.0, 0.0], [0.5, 0.5], 500, np.random.default_rng(0))
CELLS = np.stack(np.meshgrid(np.arange(6.0), np.arange(5.0)), axis=-1).reshape(-1, 2)


def curriculum(**options):
    return DORAEMON(**{"source": SOURCE, "space": SPACE, "threshold": 0.5, **options})


def play(method, solves, rounds, n=50, seed=0):
    """The states of an agent that succeeds where `solves` says."""
    rng = np.random.default_rng(seed)
    states = [method.init(rng)]
    for _ in range(rounds):
        contexts, stage = states[-1].distribution.sample(rng, n), states[-1].stage
        batch = gd.EpisodeBatch(contexts, solves(contexts).astype(float), np.ones(n), np.full(n, stage))
        states.append(method.update(states[-1], batch, rng))
    return states


def everywhere(contexts):
    return np.ones(len(contexts))


def test_it_starts_with_the_moments_of_the_source():
    state = curriculum(particles=20_000).init(np.random.default_rng(0))
    np.testing.assert_allclose(state.distribution.mean(), [3.0, 0.0], atol=0.05)
    np.testing.assert_allclose(np.sqrt(np.diag(state.distribution.cov())), 0.5, atol=0.05)
    assert (state.alpha, state.params.shape) == (0.0, (2, 2))
    point = curriculum(source=gd.Particles([[2.0, 5.0]])).init(np.random.default_rng(0))
    np.testing.assert_allclose(point.params[:, 0], [27.5, 110.0], rtol=1e-6)
    np.testing.assert_allclose(point.params[:, 1], [110.0, 1.0])
    wide = curriculum(source=gd.Particles([[0.0, -5.0], [10.0, 5.0]])).init(np.random.default_rng(0))
    assert wide.params.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert wide.alpha == 1.0


def test_where_all_is_solved_it_becomes_uniform():
    states = play(curriculum(), everywhere, 80)
    assert states[-1].params.max() < 1.1
    assert states[-1].alpha > 0.99
    alphas = [state.alpha for state in states]
    assert alphas == sorted(alphas)
    assert {state.event for state in states} == {"start", "wider"}
    spread = states[-1].distribution.points.std(axis=0)
    np.testing.assert_allclose(spread, 10 / np.sqrt(12), atol=0.3)


def test_it_keeps_the_success_rate():
    """The agent solves x <= 4, with any y: y becomes uniform, and half of the contexts lie below 4."""
    states = play(curriculum(), lambda c: c[:, 0] <= 4, 200)
    (a, b), _ = states[-1].params.T
    rates = [beta(*state.params[:, 0]).cdf(0.4) for state in states[-60:]]
    assert np.mean(rates) == pytest.approx(0.5, abs=0.06)
    assert beta(a, b).std() > 0.15
    assert states[-1].params[:, 1].max() < 1.6


def test_it_moves_back_when_the_agent_forgets():
    method = curriculum()
    rng, state = np.random.default_rng(0), play(method, everywhere, 40)[-1]
    for _ in range(100):
        contexts = state.distribution.sample(rng, 50)
        batch = gd.EpisodeBatch(contexts, contexts[:, 0] <= 3, np.ones(50), np.full(50, state.stage))
        state = method.update(state, batch, rng)
    assert beta(*state.params[:, 0]).cdf(0.3) == pytest.approx(0.5, abs=0.15)


def test_it_waits_for_the_first_success_and_never_finds_another_region():
    """Where it fails: an unsolvable start is kept for ever, and beyond a wide wall nothing is found."""
    states = play(curriculum(), lambda c: c[:, 0] > 8, 20)
    assert states[-1].distribution is states[0].distribution
    assert not states[-1].started
    assert len(states[-1].pending) < 100
    walled = play(curriculum(success=0.9), lambda c: (c[:, 0] < 4) | (c[:, 0] > 9), 100)[-1]
    assert beta(*walled.params[:, 0]).sf(0.9) < 0.05


def test_only_episodes_of_the_current_distribution_count():
    method, rng = curriculum(), np.random.default_rng(0)
    state = method.init(rng)
    old = gd.EpisodeBatch(SOURCE.points[:100], np.ones(100), np.ones(100), np.full(100, 7))
    after = method.update(state, old, rng)
    assert (after.stage, len(after.pending)) == (0, 0)


def test_reported_success_counts_before_the_score():
    method, rng = curriculum(), np.random.default_rng(0)
    points = SOURCE.points[:100]
    reported = gd.EpisodeBatch(points, np.ones(100), np.ones(100), np.zeros(100), successes=np.zeros(100))
    assert not method.update(method.init(rng), reported, rng).started
    unreported = gd.EpisodeBatch(points, np.ones(100), np.ones(100), np.zeros(100))
    assert method.update(method.init(rng), unreported, rng).stage == 1


def test_scaled_scores_and_contexts_change_nothing():
    wide = gd.ContextSpace(4 * SPACE.low + 8, 4 * SPACE.high + 8)
    other = curriculum(source=gd.Particles(4 * SOURCE.points + 8), space=wide, threshold=-65.0)
    one = play(curriculum(), lambda c: c[:, 0] <= 4, 10)[-1]
    two = play(other, lambda c: 70 * (c[:, 0] <= 24) - 100, 10)[-1]
    assert one.stage == two.stage > 2
    np.testing.assert_allclose(one.params, two.params, rtol=1e-3)


def test_integers_are_drawn_evenly_in_the_end():
    space = gd.ContextSpace.of({"gravity": (0.0, 10.0), "obstacles": range(0, 50, 5)})
    method = curriculum(source=gd.Particles([[2.0, 10.0], [3.0, 15.0]]), space=space, particles=5000)
    state = play(method, everywhere, 100)[-1]
    assert space.contains(state.distribution.points).all()
    counts = np.unique(state.distribution.points[:, 1], return_counts=True)[1]
    assert len(counts) == 10
    np.testing.assert_allclose(counts, 500, atol=120)


def test_on_a_discrete_space_contexts_are_on_the_support():
    space = gd.ContextSpace.discrete(CELLS)
    method = curriculum(source=gd.Particles([[1.0, 1.0], [2.0, 2.0]]), space=space)
    states = play(method, lambda c: c[:, 0] <= 3, 60)
    assert space.contains(states[-1].distribution.points).all()
    assert (states[-1].distribution.points[:, 0] <= 3).mean() == pytest.approx(0.6, abs=0.2)
    assert np.ptp(states[-1].distribution.points[:, 1]) == 4


def test_a_side_of_length_zero_stays():
    space = gd.ContextSpace([0.0, 1.0], [10.0, 1.0])
    state = play(curriculum(source=gd.Particles([[2.0, 1.0]]), space=space), everywhere, 80)[-1]
    assert (state.distribution.points[:, 1] == 1.0).all()
    assert state.alpha > 0.9
    dot = gd.ContextSpace([1.0], [1.0])
    state = play(curriculum(source=gd.Particles([[1.0]]), space=dot), everywhere, 4)[-1]
    assert (state.stage, state.alpha) == (0, 1.0)


def test_source_and_threshold_may_be_found():
    problem = gd.Problem("auto", gd.Particles([[9.0, 4.0]]), SPACE, "auto")
    assert isinstance(build("doraemon", problem), AutoThreshold)
    state = play(build("doraemon", problem), lambda c: c[:, 0] <= 7, 40)[-1]
    assert state.inner.inner.started
    assert isinstance(build("doraemon", problem, threshold=0.8), Search)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"success": 1.5}, "expected success in [0, 1], got 1.5"),
        ({"max_kl": 0}, "expected max_kl to be positive, got 0"),
        (
            {"space": gd.ContextSpace([0.0, 0.0], [np.inf, 1.0])},
            "expected a bounded context space, got low [0. 0.] and high [inf  1.]",
        ),
        (
            {"space": gd.ContextSpace.of({"speed": (0.0, 9.0), "wind": ["calm", "gusty"]})},
            "expected contexts without categories for DORAEMON, which draws from Beta distributions, got wind; "
            "try the methods auto, gradient or learning-progress",
        ),
    ],
)
def test_bad_options(option, message):
    with pytest.raises(gd.GeodesicError) as caught:
        curriculum(**option)
    assert str(caught.value) == message
