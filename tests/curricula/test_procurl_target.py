"""ProCuRL-Target: its weights by hand, what it does where nothing or everything is known, and on whose samples."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula.procurl_target import ProCuRLTarget

LINE = gd.ContextSpace([0.0], [10.0])
AT_8 = gd.Particles([[8.0]])
CELLS = gd.ContextSpace.discrete([[0.0], [1.0], [2.0], [3.0]])


def curriculum(**options):
    return ProCuRLTarget(**{"target": AT_8, "space": LINE, "episodes_per_update": 4, **options})


def episodes(contexts, scores, stage=0):
    n = len(contexts)
    return gd.EpisodeBatch(np.reshape(contexts, (n, -1)), scores, np.ones(n), np.full(n, stage))


def updated(method, contexts, scores, seed=0):
    rng = np.random.default_rng(seed)
    return method.update(method.init(rng), episodes(contexts, scores), rng)


def test_weights_are_the_formulas_by_hand():
    """Four cells whose success rates are 1, 1/2, 1/4 and 0; the narrow kernel sees each cell alone."""
    method = ProCuRLTarget(gd.Particles([[2.0], [3.0]]), CELLS, episodes_per_update=16, bandwidth=0.01)
    contexts = np.repeat([0.0, 1.0, 2.0, 3.0], 4)
    state = updated(method, contexts, [1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0])
    v = np.array([1.0, 0.5, 0.25, 0.0])
    np.testing.assert_allclose(method.chance(state, CELLS.support), v, atol=1e-12)
    nearness = v[2] * (1 - v[2]) * np.exp(-np.abs(np.arange(4.0) - 2.0))  # cell 3 has nothing to learn from
    expected = np.exp(110 * v * (1 - v) * nearness)
    np.testing.assert_allclose(state.distribution.weights, expected / expected.sum(), rtol=1e-9)
    np.testing.assert_array_equal(state.distribution.points, CELLS.support)


def test_before_anything_is_known_and_while_all_fail_it_is_uniform():
    method = curriculum()
    state = method.init(np.random.default_rng(0))
    assert len(state.distribution) == 1000
    for scores in ([0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]):
        after = updated(method, [1.0, 3.0, 5.0, 8.0], scores)
        assert after.stage == 1
        np.testing.assert_allclose(after.distribution.weights, 1e-3)


def test_a_target_that_always_fails_gives_uniform_weights():
    state = updated(curriculum(), [0.0, 0.1, 8.0, 8.0], [1.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(state.distribution.weights, 1e-3)


def test_it_trains_at_the_edge_of_the_agents_abilities_on_the_side_of_the_target():
    """An agent whose chance falls from 1 to 0 between 6 and 9."""
    rng = np.random.default_rng(0)
    contexts = rng.uniform(0, 10, 300)
    scores = (rng.random(300) < np.clip((9 - contexts) / 3, 0, 1)).astype(float)
    state = updated(curriculum(), contexts, scores)
    assert 7.0 < state.distribution.mean()[0] < 8.5
    weights, points = state.distribution.weights, state.distribution.points[:, 0]
    assert weights[points < 5].max() < 0.1 * weights.max()


def test_scores_are_scaled_to_the_range_of_all_so_far():
    rng = np.random.default_rng(0)
    contexts, scores = rng.uniform(0, 10, 40), rng.random(40)
    one = updated(curriculum(), contexts, scores)
    other = updated(curriculum(), contexts, 70 * scores - 100)
    np.testing.assert_allclose(one.distribution.weights, other.distribution.weights, rtol=1e-9)
    later = curriculum().update(one, episodes([1.0] * 4, [5.0, 0.5, 0.5, 0.5], 1), rng)
    assert (later.low, later.high) == (scores.min(), 5.0)


def test_old_episodes_are_forgotten_and_the_pool_stays():
    method, rng = curriculum(memory=4), np.random.default_rng(0)
    first = updated(method, [7.0, 8.0, 8.5, 9.0], [1.0, 0.0, 1.0, 0.0])
    second = method.update(first, episodes([1.0, 2.0, 8.0, 8.0], [1.0, 0.0, 1.0, 1.0], 1), rng)
    assert second.recent.contexts.ravel().tolist() == [1.0, 2.0, 8.0, 8.0]
    assert second.stage == 2
    np.testing.assert_array_equal(first.distribution.points, second.distribution.points)
    assert not np.array_equal(first.distribution.weights, second.distribution.weights)


def test_beta_0_is_uniform_and_a_larger_beta_is_narrower():
    contexts, scores = [6.0, 7.0, 8.0, 9.0], [1.0, 1.0, 0.0, 0.0]
    spread = [
        updated(curriculum(beta=b, bandwidth=0.1), contexts, scores).distribution.cov()[0, 0] for b in (0, 30, 110)
    ]
    assert spread[0] > spread[1] > spread[2]
    np.testing.assert_allclose(updated(curriculum(beta=0), contexts, scores).distribution.weights, 1e-3)


def test_a_large_target_is_sampled():
    rng = np.random.default_rng(0)
    many = gd.Particles.uniform([0.0], [10.0], 2000, rng)
    assert len(curriculum(target=many).goals) == 400
    assert len(curriculum(target=many, target_samples=50).goals) == 50
    assert curriculum().goals.tolist() == [[8.0]]
    weightless = gd.Particles([[1.0], [8.0]], [0.0, 1.0])
    assert curriculum(target=weightless).goals.tolist() == [[8.0]]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"beta": -1}, "expected beta to be non-negative, got -1"),
        ({"bandwidth": 0}, "expected bandwidth to be positive, got 0"),
        ({"pool": 0}, "expected pool to be a positive integer, got 0"),
        ({"episodes_per_update": 2.5}, "expected episodes_per_update to be a positive integer, got 2.5"),
    ],
)
def test_bad_options(option, message):
    with pytest.raises(gd.GeodesicError) as caught:
        curriculum(**option)
    assert str(caught.value) == message
