"""Learnability: its weights by hand, what it trains on where the answer is known, and how luck misleads it."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula import AutoThreshold, build
from geodesic.curricula.learnability import Learnability

LINE = gd.ContextSpace([0.0], [10.0])
CELLS = gd.ContextSpace.discrete(np.arange(5.0)[:, None])


def curriculum(**options):
    return Learnability(**{"space": LINE, "threshold": 0.5, "episodes_per_update": 20, **options})


def episodes(contexts, scores, stage=0, successes=None):
    n = len(contexts)
    return gd.EpisodeBatch(np.reshape(contexts, (n, -1)), scores, np.ones(n), np.full(n, stage), successes=successes)


def updated(method, contexts, scores, successes=None):
    rng = np.random.default_rng(0)
    return method.update(method.init(rng), episodes(contexts, scores, successes=successes), rng)


def play(method, chance, rounds, seed=0):
    """The state after rounds of 20 episodes of an agent with these chances of success in contexts (n, d)."""
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


def test_weights_are_the_formula_by_hand():
    """Five contexts with success rates of 0, 1/4, 1/2, 3/4 and 1; the narrow kernel sees each of them alone."""
    method = curriculum(space=CELLS, top=1, bandwidth=0.01)
    contexts = np.repeat(np.arange(5.0), 4)
    scores = np.ravel([[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]).astype(float)
    state = updated(method, contexts, scores)
    np.testing.assert_allclose(method.chance(state, CELLS.support), [0, 0.25, 0.5, 0.75, 1], atol=1e-12)
    np.testing.assert_allclose(state.distribution.weights, [0.1, 0.1, 0.6, 0.1, 0.1])
    two = updated(curriculum(space=CELLS, top=2, bandwidth=0.01, uniform=0.0), contexts, scores)  # 1 and 3 are equal
    np.testing.assert_allclose(two.distribution.weights, [0, 1 / 3, 1 / 3, 1 / 3, 0])
    many = updated(curriculum(space=CELLS, top=100, bandwidth=0.01, uniform=0.0), contexts, scores)
    np.testing.assert_allclose(many.distribution.weights, [0, 1 / 3, 1 / 3, 1 / 3, 0])


def test_reported_success_counts_before_the_score():
    contexts, scores = np.repeat(np.arange(5.0), 4), np.zeros(20)
    successes = np.where(contexts == 3, [1, 0] * 10, np.nan)  # an environment may not report some
    state = updated(curriculum(space=CELLS, top=1, bandwidth=0.01), contexts, scores, successes)
    assert state.distribution.weights.argmax() == 3


def test_where_nothing_can_be_learned_it_is_uniform():
    contexts = np.random.default_rng(0).uniform(0, 10, 20)
    for scores in (np.zeros(20), np.ones(20)):
        state = updated(curriculum(), contexts, scores)
        assert state.stage == 1
        np.testing.assert_allclose(state.distribution.weights, 1e-3)


def test_it_follows_the_edge_of_the_agents_abilities():
    """The agent solves contexts below an edge that moves from 2 to 8."""
    state = play(curriculum(), lambda c, number: c < 2 + number / 10, rounds=60)
    assert fraction_in(state, 6.5, 9.0) > 0.5
    assert fraction_in(state, 0.0, 5.0) < 0.3
    assert fraction_in(play(curriculum(), lambda c, number: c < 2 + number / 10, rounds=10), 1.5, 5.0) > 0.5


def test_luck_looks_learnable():
    """Where it fails: above 8 success is the toss of a coin, for ever; below, everything is solved."""
    state = play(curriculum(), lambda c, number: np.where(c > 8, 0.5, 1.0), rounds=40)
    assert fraction_in(state, 7.5, 10.0) > 0.6


def test_candidates_are_measured_and_trained_on_in_turn():
    """Five contexts with rollouts of success rates 0, 1/4, 1/2, 3/4 and 1; then 20 episodes on the best one."""
    method, rng = curriculum(space=CELLS, top=1, rollouts=4), np.random.default_rng(0)
    state = method.init(rng)
    assert state.kind == "explore"
    contexts = np.repeat(np.arange(5.0), 4)
    scores = np.ravel([[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]).astype(float)
    state = method.update(state, episodes(contexts[:19], scores[:19]), rng)
    assert (state.kind, state.stage) == ("explore", 0)
    state = method.update(state, episodes(contexts[19:], scores[19:]), rng)
    assert (state.kind, state.stage, state.event) == ("train", 1, "selected")
    np.testing.assert_allclose(state.distribution.weights, [0.1, 0.1, 0.6, 0.1, 0.1])
    late = method.update(state, episodes(contexts, scores, stage=0), rng)  # of the measurement, which is over
    assert (late.stage, len(late.recent)) == (1, 0)
    state = method.update(late, episodes(contexts, scores, stage=1), rng)
    assert (state.kind, state.stage, state.event) == ("explore", 2, "new candidates")
    np.testing.assert_allclose(state.distribution.weights, 0.2)


def test_candidates_that_were_not_drawn_count_as_failures():
    method = curriculum(space=CELLS, rollouts=1)
    rate = method.rate(episodes([1, 1, 3, 99], [1.0, 0.0, 1.0, 1.0]), CELLS.support, 0.5)
    assert rate.tolist() == [0.0, 0.5, 0.0, 1.0, 0.0]


def test_with_rollouts_it_follows_the_edge_as_well():
    method = curriculum(rollouts=4, candidates=50, top=5)
    state = play(method, lambda c, number: 1 / (1 + np.exp(3 * (c - 6))), rounds=32)  # in turn, 10 to measure and 1
    assert (state.kind, state.stage) == ("train", 5)
    assert fraction_in(state, 5.0, 7.0) > 0.5


def test_candidates_are_drawn_anew():
    first, second = (play(curriculum(), lambda c, number: c < 5, rounds=k).distribution.points for k in (1, 2))
    assert len(first) == len(second) == 1000
    assert not np.isin(first, second).any()


def test_scaled_scores_and_contexts_change_nothing():
    rng = np.random.default_rng(0)
    contexts = rng.uniform(0, 10, 20)
    scores = (rng.random(20) > contexts / 10) * 0.8
    one = updated(curriculum(), contexts, scores)
    wide = gd.ContextSpace([8.0], [48.0])
    two = updated(curriculum(space=wide, threshold=-65.0), 4 * contexts + 8, 70 * scores - 100)
    np.testing.assert_allclose(two.distribution.points, 4 * one.distribution.points + 8)
    np.testing.assert_allclose(two.distribution.weights, one.distribution.weights)


def test_the_threshold_may_be_found():
    problem = gd.Problem(gd.Particles([[1.0]]), gd.Particles([[9.0]]), LINE, "auto")
    made = build("learnability", problem, episodes_per_update=20)
    assert isinstance(made, AutoThreshold)
    assert fraction_in(play(made, lambda c, number: c < 5, rounds=40), 3.5, 6.5) > 0.5


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"top": 0}, "expected top to be a positive integer, got 0"),
        ({"candidates": 0}, "expected candidates to be a positive integer, got 0"),
        ({"uniform": 2}, "expected uniform in [0, 1], got 2"),
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
