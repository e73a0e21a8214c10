"""ACL: the bandit by hand, what it trains on where the answer is known, and how luck misleads it."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula.acl import ACL

TASKS = gd.ContextSpace.discrete(np.arange(4.0)[:, None])


def curriculum(**options):
    return ACL(**{"space": TASKS, **options})


def episodes(contexts, scores, stage=0):
    n = len(contexts)
    return gd.EpisodeBatch(np.reshape(contexts, (n, -1)), scores, np.ones(n), np.full(n, stage))


def play(method, score, rounds=400, n=5, seed=0):
    """The mean probability of each cell over the last half of the rounds.

    `score` is what the agent earns in cells (n,) after so many episodes of each (k,); it also gets a generator.
    """
    rng = np.random.default_rng(seed)
    state, played, weights = method.init(rng), np.zeros(len(method.partition)), []
    for _ in range(rounds):
        contexts = state.distribution.sample(rng, n)
        cells = method.partition.index(contexts)
        state = method.update(state, episodes(contexts, score(cells, played, rng), state.stage), rng)
        played += np.bincount(cells, minlength=len(played))
        weights.append(np.bincount(method.partition.index(state.distribution.points), state.distribution.weights))
    return np.mean(weights[rounds // 2 :], axis=0)


def test_the_bandit_is_the_formula_by_hand():
    """Task 0 is played three times, of which the last two bring progress, and task 1 twice without any."""
    method, rng = curriculum(rate=0.1, uniform=0.2), np.random.default_rng(0)
    contexts, scores = [0, 1, 0, 0, 1], [0.0, 5.0, 1.0, 3.0, 5.0]
    rewards = [0.0, 0.0, 1.0, 1.0, -1.0]  # progress of 0 and 0 before there is any, then of 1, 2 and 0
    weights = np.ones(4)
    for t, (task, reward) in enumerate(zip(contexts, rewards), start=1):
        chance = 0.8 * weights[task] / weights.sum() + 0.05
        weights[task] *= np.exp(0.1 * reward / chance)
        weights = (1 - 1 / (t + 1)) * weights + weights.mean() / (t + 1)
    state = method.update(method.init(rng), episodes(contexts, scores), rng)
    np.testing.assert_allclose(method.chances(state.logits), 0.8 * weights / weights.sum() + 0.05)
    assert (state.last.tolist()[:2], state.most) == ([3.0, 5.0], 2.0)
    assert (state.stage, state.played, state.fresh) == (0, 5, 5)
    after = method.update(state, episodes([3] * 15, np.zeros(15)), rng)
    assert (after.stage, after.played, after.fresh) == (1, 20, 0)
    np.testing.assert_allclose(after.distribution.weights, method.chances(after.logits))


@pytest.mark.parametrize("seed", range(3))
def test_it_trains_on_what_is_being_learned(seed):
    """Task 1 is learned by practice; the others never change."""
    weights = play(curriculum(), lambda cells, played, rng: np.where(cells == 1, played[1] / 100, 1.0), seed=seed)
    assert weights[1] > 0.6


def test_it_moves_on_when_a_task_is_learned():
    def score(cells, played, rng):
        return np.where(cells == 1, np.minimum(played[1], 300) / 100, np.where(cells == 2, played[2] / 300, 0.0))

    weights = play(curriculum(), score, rounds=800)
    assert weights[2] > 0.5
    assert weights[1] < 0.3


def test_luck_looks_like_progress():
    """Where it fails: task 3 is a matter of luck, while task 1 is learned slowly."""

    def score(cells, played, rng):
        return np.where(cells == 3, rng.random(len(cells)), np.where(cells == 1, played[1] / 1000, 0.0))

    weights = play(curriculum(), score)
    assert weights[3] > 0.6
    assert weights[1] < 0.2


def test_without_progress_it_is_uniform():
    np.testing.assert_allclose(play(curriculum(), lambda cells, played, rng: np.ones(len(cells)), rounds=4), 0.25)


def test_extreme_rewards_keep_weights_finite():
    method = curriculum(rate=50.0, uniform=0.0)
    weights = play(method, lambda cells, played, rng: rng.random(len(cells)), rounds=30)
    assert np.isfinite(weights).all()


def test_scaled_and_shifted_scores_change_nothing():
    rng = np.random.default_rng(0)
    contexts, scores = rng.integers(0, 4, 60), rng.random(60)
    weights = []
    for given in (scores, 70 * scores - 100):
        state = curriculum().init(rng)
        for part in np.array_split(np.arange(60), 3):
            state = curriculum().update(state, episodes(contexts[part], given[part]), rng)
        weights.append(state.distribution.weights)
    assert np.ptp(weights[0]) > 0.05
    np.testing.assert_allclose(*weights, rtol=1e-9)


def test_continuous_contexts_are_arms_cell_by_cell():
    method = curriculum(space=gd.ContextSpace([0.0], [10.0]), cells=10)
    weights = play(method, lambda cells, played, rng: np.where(cells == 6, played[6] / 100, 0.0))
    assert weights.argmax() == 6
    state = method.init(np.random.default_rng(0))
    assert len(np.unique(state.distribution.points)) == 1000


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"rate": 0}, "expected rate to be positive, got 0"),
        ({"uniform": 1.5}, "expected uniform in [0, 1], got 1.5"),
        (
            {"cells": 1, "space": gd.ContextSpace.of({"wind": ["calm", "gusty"]})},
            "expected at least 2 cells, one for each combination of categories, got 1",
        ),
    ],
)
def test_bad_options(option, message):
    with pytest.raises(gd.GeodesicError) as caught:
        curriculum(**option)
    assert str(caught.value) == message
