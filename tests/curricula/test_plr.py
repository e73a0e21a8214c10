"""PLR: its priorities and its buffer by hand, what it replays where the answer is known, and how luck misleads it."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula.plr import PLR

LINE = gd.ContextSpace([0.0], [10.0])


def curriculum(**options):
    return PLR(**{"space": LINE, "buffer": 50, "episodes_per_update": 10, **options})


def episodes(contexts, losses, stage=0, **more):
    n = len(contexts)
    points = np.reshape(contexts, (n, -1))
    return gd.EpisodeBatch(points, np.ones(n), np.ones(n), np.full(n, stage), positive_value_loss=losses, **more)


def play(method, loss, rounds, n=10, seed=0):
    """The state after rounds of episodes; `loss` is that of contexts (n,), which also gets a generator."""
    rng = np.random.default_rng(seed)
    state = method.init(rng)
    for _ in range(rounds):
        contexts = state.distribution.sample(rng, n)
        state = method.update(state, episodes(contexts, loss(contexts[:, 0], rng), state.stage), rng)
    return state


def test_priorities_are_the_formula_by_hand():
    """Four contexts, played in turn: ranks 3, 1, 4 and 2; their episodes are 3, 2, 1 and 0 ago."""
    method = curriculum(temperature=0.5, staleness=0.25)
    state = method.absorb(method.init(np.random.default_rng(0)), episodes([1, 2, 3, 4], [2.0, 9.0, 1.0, 5.0]))
    by_loss = np.array([1 / 9, 1.0, 1 / 16, 1 / 4])
    expected = 0.75 * by_loss / by_loss.sum() + 0.25 * np.array([3, 2, 1, 0]) / 6
    np.testing.assert_allclose(method.priorities(state), expected)
    again = method.absorb(state, episodes([1], [0.5]))  # played again: the last rank, and no longer stale
    by_loss = np.array([1 / 16, 1.0, 1 / 9, 1 / 4])
    expected = 0.75 * by_loss / by_loss.sum() + 0.25 * np.array([0, 3, 2, 1]) / 6
    np.testing.assert_allclose(method.priorities(again), expected)
    assert (again.episodes, again.fresh) == (5, 5)


def test_a_new_context_replaces_the_one_of_lowest_priority_if_its_loss_is_larger():
    method = curriculum(buffer=3, staleness=0.0)
    full = method.absorb(method.init(np.random.default_rng(0)), episodes([1, 2, 3], [3.0, 1.0, 2.0]))
    same = method.absorb(full, episodes([4], [1.0]))
    assert (same.points.tolist(), same.episodes) == (full.points.tolist(), 4)
    other = method.absorb(full, episodes([4, 2], [1.5, 1.0]))  # 4 replaces 2, which then is not better than 4
    assert other.points.ravel().tolist() == [1.0, 4.0, 3.0]
    assert other.losses.tolist() == [3.0, 1.5, 2.0]
    assert other.played.tolist() == [1, 4, 3]


def test_replay_begins_once_the_buffer_is_filled_and_keeps_its_fraction():
    method, rng = curriculum(buffer=20, fill=0.5, replay=0.8), np.random.default_rng(0)
    state = method.init(rng)
    state = method.update(state, episodes(LINE.draw(9, rng)[:, 0], np.ones(9)), rng)
    assert state.stage == 0
    early = method.update(state, episodes([5.0] * 3, np.ones(3)), rng)  # 10 contexts: one was played three times
    assert early.event == "10 contexts replayed"
    np.testing.assert_allclose(early.distribution.weights[:10], 0.8 * method.priorities(early))
    assert early.distribution.weights[10:].sum() == pytest.approx(0.2)
    sparse = curriculum(buffer=50, fill=0.5)
    state = sparse.update(sparse.init(rng), episodes(LINE.draw(12, rng)[:, 0], np.ones(12)), rng)
    assert (state.event, len(state.distribution)) == ("new contexts", 500)


def test_it_replays_where_the_value_function_is_off():
    state = play(curriculum(), lambda c, rng: np.exp(-((c - 7) ** 2)), rounds=60)
    points, weights = state.distribution.points[:, 0], state.distribution.weights
    assert weights[np.abs(points - 7) < 1].sum() > 0.6


def test_it_moves_on_when_the_value_function_has_learned():
    """Cells are learned in turn, by 100 episodes each; 60 of 600 uniform episodes would be in each of the ten."""
    counts = np.zeros(10)

    def loss(contexts, rng):
        cells = contexts.astype(int).clip(0, 9)
        frontier = (counts < 100).argmax()
        np.add.at(counts, cells, 1)
        return np.where(cells == frontier, 1.0, 0.0) + 1e-3 * rng.random(len(cells))

    play(curriculum(), loss, rounds=60)
    assert (counts >= 100).sum() >= 3


def test_luck_looks_like_a_value_function_that_can_learn():
    """Where it fails: above 8 returns are a matter of luck, for ever; below, the loss is small."""
    state = play(curriculum(), lambda c, rng: np.where(c > 8, rng.random(len(c)), 0.05), rounds=60)
    points, weights = state.distribution.points[:, 0], state.distribution.weights
    assert weights[points > 8].sum() > 0.6


def test_the_loss_is_the_one_that_is_chosen():
    rng = np.random.default_rng(0)
    both = episodes([1.0, 2.0], [0.5, 0.0], value_l1=[1.0, 3.0])
    assert curriculum().absorb(curriculum().init(rng), both).losses.tolist() == [0.5, 0.0]
    method = curriculum(loss="l1")
    assert method.absorb(method.init(rng), both).losses.tolist() == [1.0, 3.0]


def test_a_learner_without_value_losses_is_refused_in_one_line():
    method, rng = curriculum(), np.random.default_rng(0)
    plain = gd.EpisodeBatch([[1.0]], [1.0], [1], [0])
    with pytest.raises(
        gd.GeodesicError, match="expected the learner's positive_value_loss .* got none; try PPO"
    ) as got:
        method.update(method.init(rng), plain, rng)
    assert "\n" not in str(got.value)


def test_contexts_match_in_the_precision_in_which_environments_get_them():
    method, rng = curriculum(), np.random.default_rng(0)
    state = method.absorb(method.init(rng), episodes([0.1], [1.0]))
    assert len(method.absorb(state, episodes([float(np.float32(0.1))], [2.0])).points) == 1


def test_scaled_losses_change_nothing():
    runs = [play(curriculum(), lambda c, rng, k=k: k * c, rounds=20) for k in (1.0, 70.0)]
    np.testing.assert_array_equal(runs[0].distribution.points, runs[1].distribution.points)
    np.testing.assert_array_equal(runs[0].distribution.weights, runs[1].distribution.weights)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"loss": "max"}, "expected loss to be one of l1, positive; got 'max'"),
        ({"temperature": 0}, "expected temperature to be positive, got 0"),
        ({"staleness": 1.5}, "expected staleness in [0, 1], got 1.5"),
        ({"replay": -0.5}, "expected replay in [0, 1], got -0.5"),
        ({"buffer": 0}, "expected buffer to be a positive integer, got 0"),
    ],
)
def test_bad_options(option, message):
    with pytest.raises(gd.GeodesicError) as caught:
        curriculum(**option)
    assert str(caught.value) == message
