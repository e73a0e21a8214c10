"""Learning progress: its formula by hand, what it trains on where the answer is known, and how noise misleads it."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula.learning_progress import LearningProgress

TASKS = gd.ContextSpace.discrete(np.arange(4.0)[:, None])


def curriculum(**options):
    return LearningProgress(**{"space": TASKS, "probe": 8, "episodes_per_update": 4, **options})


def episodes(contexts, scores, stage=0):
    n = len(contexts)
    return gd.EpisodeBatch(np.reshape(contexts, (n, -1)), scores, np.ones(n), np.full(n, stage))


def play(method, chance, rounds=60, n=20, seed=0):
    """The mean probability of each task over the last third of the rounds.

    `chance` is the agent's success rate in tasks (n,) after so many episodes of each, (k,).
    """
    rng = np.random.default_rng(seed)
    state, played, weights = method.init(rng), np.zeros(len(method.partition)), []
    for _ in range(rounds):
        contexts = state.distribution.sample(rng, n)
        cells = method.partition.index(contexts)
        scores = (rng.random(n) < chance(cells, played)).astype(float)
        played += np.bincount(cells, minlength=len(played))
        state = method.update(state, episodes(contexts, scores, state.stage), rng)
        weights.append(np.bincount(method.partition.index(state.distribution.points), state.distribution.weights))
    return np.mean(weights[-rounds // 3 :], axis=0)


def test_progress_and_chances_are_the_formulas_by_hand():
    """Of two episodes in each task of the probe, task 0 wins none, 1 the second, 2 the first, 3 all."""
    rng, method = np.random.default_rng(0), curriculum(rate=0.5)
    contexts, scores = [0, 1, 2, 3, 0, 1, 2, 3], [0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0]
    state = method.update(method.init(rng), episodes(contexts, scores), rng)
    np.testing.assert_allclose(state.fast, [0, 0.5, 0.5, 1])
    np.testing.assert_allclose(state.slow, [0, 0.25, 0.75, 1])
    np.testing.assert_allclose(state.untrained, [0.5 / 3, 0.5, 0.5, 2.5 / 3])
    n = [[0, 0, 0, 1], [0, 0, 0.5, 1]]  # what lies above the untrained agent, which is capped at 0.75
    f = [[x * 0.9 / (x + 0.1 * (1 - 2 * x)) for x in row] for row in n]
    progress = np.abs(np.subtract(*f))
    np.testing.assert_allclose(method.progress(state), progress)
    np.testing.assert_allclose(state.distribution.weights, [0.0625, 0.0625, 0.8125, 0.0625])
    scores = np.array([0.0, 0.1, 0.2, 0.6])
    z = (scores[1:] - 0.3) / scores[1:].std()
    expected = np.array([0, *(1 / (1 + np.exp(-z)))])
    np.testing.assert_allclose(method.chances(scores), 0.75 * expected / expected.sum() + 0.0625)


def test_it_trains_on_what_is_being_learned():
    """Task 0 is solved, 1 is learned by practice, 2 cannot be learned, 3 is solved, too."""
    learning = play(
        curriculum(), lambda cells, played: np.choose(cells, [1.0, min(played[1] / 600, 1), 0.0, 1.0]), rounds=30
    )
    assert learning[1] > 0.6
    assert learning[[0, 2, 3]].max() < 0.2


def test_it_returns_to_what_is_forgotten():
    """Everything is solved, until task 3 is lost."""
    method, rng = curriculum(), np.random.default_rng(0)
    state = method.update(method.init(rng), episodes([0, 1, 2, 3] * 2, [0, 0, 0, 0, 1, 1, 1, 1]), rng)
    for _ in range(200):
        state = method.update(state, episodes([0, 1, 2, 3], np.ones(4), state.stage), rng)
    assert state.distribution.weights.max() < 0.35
    for _ in range(5):
        state = method.update(state, episodes([0, 1, 2, 3], [1, 1, 1, 0], state.stage), rng)
    assert state.distribution.weights.argmax() == 3
    assert state.distribution.weights[3] > 0.35


def test_luck_looks_like_progress():
    """Where it fails: after some practice, task 3 is won by the toss of a coin, and the others have been learned."""
    weights = play(curriculum(probe=40), lambda cells, played: np.where(cells == 3, 0.5 * (played[3] > 20), 1.0))
    assert weights[3] > 0.7


def test_without_any_progress_it_is_uniform():
    state = curriculum().init(np.random.default_rng(0))
    np.testing.assert_allclose(state.distribution.weights, 0.25)
    np.testing.assert_allclose(play(curriculum(), lambda cells, played: np.zeros(len(cells))), 0.25)
    np.testing.assert_allclose(play(curriculum(uniform=1.0), lambda cells, played: 0.5 + 0 * cells), 0.25)


def test_an_episode_in_a_new_cell_is_where_its_averages_start():
    rng, method = np.random.default_rng(0), curriculum()
    state = method.update(method.init(rng), episodes([0] * 8, [0.0, 1.0] * 4), rng)
    assert state.seen.tolist() == [True, False, False, False]
    assert method.progress(state)[1:].tolist() == [0, 0, 0]
    state = method.update(state, episodes([2] * 4, [1.0] * 4, 1), rng)
    assert (state.fast[2], state.slow[2]) == (1.0, 1.0)


def test_scaled_and_shifted_scores_change_nothing():
    rng = np.random.default_rng(0)
    contexts, scores = rng.integers(0, 4, 60), rng.random(60)
    weights = []
    for given in (scores, 70 * scores - 100):
        state = curriculum().init(rng)
        for part in np.array_split(np.arange(60), 6):
            state = curriculum().update(state, episodes(contexts[part], given[part]), rng)
        weights.append(state.distribution.weights)
    assert np.ptp(weights[0]) > 0.1
    np.testing.assert_allclose(*weights, rtol=1e-9)


def test_continuous_contexts_are_learned_cell_by_cell():
    """The agent's success rises with practice between 4 and 6 only; below it is solved, above it never is."""
    space = gd.ContextSpace([0.0], [10.0])
    method = curriculum(space=space, cells=10, probe=40, episodes_per_update=20)

    def chance(cells, played):
        return np.where(cells < 4, 1.0, np.where(cells < 6, np.minimum(played[4:6].sum() / 600, 1), 0.0))

    weights = play(method, chance, rounds=25)
    assert weights[4:6].sum() > 0.6
    state = method.init(np.random.default_rng(0))
    assert len(state.distribution) == 1000
    assert len(np.unique(state.distribution.points)) == 1000


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"rate": 1.5}, "expected rate in [0, 1], got 1.5"),
        ({"uniform": -0.5}, "expected uniform in [0, 1], got -0.5"),
        ({"cells": 0}, "expected cells to be a positive integer, got 0"),
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
