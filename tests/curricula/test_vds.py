"""VDS: its ensemble where the answer is known, what it trains on, and how luck misleads it."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula.vds import VDS

LINE = gd.ContextSpace([0.0], [10.0])


def curriculum(**options):
    return VDS(**{"space": LINE, "episodes_per_update": 20, **options})


def episodes(contexts, scores, stage=0):
    n = len(contexts)
    return gd.EpisodeBatch(np.reshape(contexts, (n, -1)), scores, np.ones(n), np.full(n, stage))


def updated(method, contexts, scores):
    rng = np.random.default_rng(0)
    return method.update(method.init(rng), episodes(contexts, scores), rng)


def play(method, chance, rounds, seed=0):
    """The state after rounds of 20 episodes of an agent with these chances of success in contexts (n,)."""
    rng = np.random.default_rng(seed)
    state = method.init(rng)
    for number in range(rounds):
        contexts = state.distribution.sample(rng, 20)
        scores = (rng.random(20) < chance(contexts[:, 0], number)).astype(float)
        state = method.update(state, episodes(contexts, scores, state.stage), rng)
    return state


def fraction_in(state, low, high):
    points = state.distribution.points[:, 0]
    return state.distribution.weights[(points >= low) & (points <= high)].sum()


def test_far_from_all_episodes_the_members_are_their_priors():
    """The standard deviation of a uniform number is 1 / sqrt 12."""
    method = curriculum(members=20_000, candidates=2)
    state = updated(method, np.full(20, 1.0), np.tile([0.0, 1.0], 10))
    far = method.disagreement(state, np.array([[9.0]]), np.random.default_rng(1))
    np.testing.assert_allclose(far, 12**-0.5, rtol=0.02)


@pytest.mark.parametrize("rate", [0.0, 0.25, 0.5, 1.0])
def test_in_one_context_the_ensemble_is_a_posterior_known_in_closed_form(rate):
    """n episodes and a pseudo-episode of weight 1: of the estimate, E[f | u] and its spread follow from 20,000 draws
    of (u + sum w v) / (1 + sum w); sums of n exponentials are gamma distributed."""
    method = curriculum(members=20_000, candidates=2)
    scores = np.repeat([0.0, 1.0], [round(20 * (1 - rate)), round(20 * rate)])
    state = updated(method, np.full(20, 5.0), scores).replace(low=0.0, high=1.0)
    rng = np.random.default_rng(2)
    wins = rng.gamma(20 * rate, size=20_000) if rate else np.zeros(20_000)
    losses = rng.gamma(20 * (1 - rate), size=20_000) if rate < 1 else np.zeros(20_000)
    expected = ((rng.uniform(size=20_000) + wins) / (1 + wins + losses)).std()
    found = method.disagreement(state, np.array([[5.0]]), rng)
    np.testing.assert_allclose(found, expected, rtol=0.05)


def test_weights_are_in_proportion_to_the_disagreement():
    method = curriculum()
    state = updated(method, np.linspace(0, 10, 20), np.linspace(0, 10, 20) > 5)
    rng = np.random.default_rng(0)  # the draws of `updated`: first candidates of `init`, then those of the update
    method.init(rng)
    points = LINE.uniform(1000, rng).points
    expected = method.disagreement(state, points, rng)
    np.testing.assert_array_equal(state.distribution.points, points)
    np.testing.assert_allclose(state.distribution.weights, expected / expected.sum())


def test_it_follows_the_edge_of_the_agents_abilities():
    """The agent solves contexts below an edge that moves from 2 to 8; a quarter of uniform ones would be near it.

    Doubt about what was not tried for long keeps a part of the weight elsewhere.
    """
    assert fraction_in(play(curriculum(), lambda c, number: c < 2 + number / 10, rounds=60), 6.5, 9.0) > 0.33
    assert fraction_in(play(curriculum(), lambda c, number: c < 2 + number / 10, rounds=20), 2.0, 4.5) > 0.33
    assert fraction_in(play(curriculum(), lambda c, number: c < 5, rounds=60), 4.0, 6.0) > 0.33


def test_luck_looks_like_disagreement():
    """Where it fails: above 8 success is the toss of a coin, for ever; below, everything is solved."""
    state = play(curriculum(), lambda c, number: np.where(c > 8, 0.5, 1.0), rounds=40)
    assert fraction_in(state, 7.5, 10.0) > 0.45


def test_equal_scores_are_weighed_alike():
    state = updated(curriculum(), np.linspace(0, 10, 20), np.ones(20))
    np.testing.assert_allclose(state.distribution.weights, 1e-3)


def test_scaled_scores_and_contexts_change_nothing():
    rng = np.random.default_rng(0)
    contexts = rng.uniform(0, 10, 20)
    scores = (rng.random(20) > contexts / 10) * 0.8
    one = updated(curriculum(), contexts, scores)
    two = updated(curriculum(space=gd.ContextSpace([8.0], [48.0])), 4 * contexts + 8, 70 * scores - 100)
    np.testing.assert_allclose(two.distribution.points, 4 * one.distribution.points + 8)
    np.testing.assert_allclose(two.distribution.weights, one.distribution.weights, rtol=1e-6)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"members": 0}, "expected members to be a positive integer, got 0"),
        ({"bandwidth": 0}, "expected bandwidth to be positive, got 0"),
        (
            {"space": gd.ContextSpace([0.0], [np.inf])},
            "expected a bounded context space, got low [0.] and high [inf]",
        ),
    ],
)
def test_bad_options(option, message):
    with pytest.raises(gd.GeodesicError) as caught:
        curriculum(**option)
    assert str(caught.value) == message
