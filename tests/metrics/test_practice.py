"""The metric from practice: free until practised in vain, and found again where an agent has learned since."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.errors import InvalidInput
from geodesic.metrics import Practice

SPACE = gd.ContextSpace([0.0, 0.0], [10.0, 20.0])
METRIC = Practice(SPACE, 0.5, score="success")
RNG = np.random.default_rng(0)
LEFT, RIGHT = np.array([[2.0, 10.0]]), np.array([[8.0, 10.0]])
WALL = np.stack([np.full(30, 5.0), np.linspace(0.0, 16.0, 30)], axis=1)  # a door above


def batch(contexts, successes):
    n = len(contexts)
    won = np.broadcast_to(np.asarray(successes, dtype=float), n)
    return gd.EpisodeBatch(contexts, won, np.ones(n), np.zeros(n), successes=won)


def practised(contexts, successes, times=20):
    """The metric after episodes in all contexts, several times, with a success in each as often as stated."""
    order = [batch(contexts, np.full(len(contexts), float(k % 10 < 10 * successes))) for k in range(times)]
    found = order[0]
    for each in order[1:]:
        found = found.concatenate(each)
    return found


def length(episodes):
    return float(METRIC.fit(episodes, RNG).pairwise(LEFT, RIGHT)[0, 0])


def detour(episodes, line):
    """The way that a particle on a line of contexts changes to, if it does."""
    points = np.asarray(line, dtype=float)[:, None]
    ways, blocked = METRIC.fit(episodes, RNG).detours(points)
    return ways.get(0), blocked


STRAIGHT = np.linspace(LEFT[0], RIGHT[0], 9)


def test_everything_is_free_before_practice_and_where_it_succeeds():
    assert length(gd.EpisodeBatch.empty(2)) == pytest.approx(1.3 * 0.6, abs=0.04)  # in sides of the space
    assert length(practised(np.concatenate([WALL, STRAIGHT]), 1.0)) == pytest.approx(0.6, abs=0.04)
    assert detour(practised(WALL, 1.0), STRAIGHT) == (None, 0.0)


def test_what_was_practised_in_vain_is_gone_around():
    way, blocked = detour(practised(WALL, 0.0), STRAIGHT)
    assert blocked == 0.0
    np.testing.assert_array_equal(way[[0, -1]], [LEFT[0], RIGHT[0]])
    assert way[:, 1].max() > 16.5
    assert np.linalg.norm(np.diff(way, axis=0), axis=1)[1:-1].max() < 1.0
    assert detour(practised(WALL, 0.0), way) == (None, 0.0)  # the new way stays


def test_learning_is_not_mistaken_for_a_wall():
    """One success in ten makes a way longer, but not longer than any detour; none in ten and it is given up."""
    costs = [METRIC.fit(practised(WALL, share, 50), RNG).lengths(STRAIGHT[:, None])[0] for share in (0.1, 0.0)]
    assert 0.7 < 10 * costs[0] < costs[1]
    assert detour(practised(WALL, 0.5), STRAIGHT) == (None, 0.0)


def test_later_successes_count_more_than_old_failures():
    old, new = practised(WALL, 0.0, 100), practised(WALL, 1.0, 100)
    assert length(old.concatenate(new)) < 0.9 < length(new.concatenate(old))


def test_a_closed_wall_is_said_to_be_closed():
    closed = np.stack([np.full(60, 5.0), np.linspace(0.0, 20.0, 60)], axis=1)
    assert detour(practised(closed, 0.0, 40), STRAIGHT)[1] == 1.0
    assert detour(practised(WALL, 0.0, 40), STRAIGHT)[1] == 0.0


def test_counting_in_parts_is_counting_at_once():
    first, second = practised(WALL, 0.5), practised(STRAIGHT, 0.2)
    parts = METRIC.count(METRIC.count(METRIC.counts(), first), second)
    np.testing.assert_allclose(parts, METRIC.count(METRIC.counts(), first.concatenate(second)), rtol=1e-9)
    assert METRIC.count(parts, gd.EpisodeBatch.empty(2)) is parts


def test_the_frontier_is_the_first_place_that_is_not_mastered():
    line = np.linspace([0.0, 10.0], [10.0, 10.0], 11)
    fitted = METRIC.fit(practised(line[:5], 1.0).concatenate(practised(line[7:], 1.0)), RNG)
    points = np.stack([line, line + np.array([0.0, 5.0])], axis=1)
    assert fitted.frontier(points).tolist() == [5, 0]
    assert METRIC.fit(practised(line, 1.0), RNG).frontier(points[:, :1]).tolist() == [10]
    assert METRIC.fit(practised(line, 0.4), RNG).frontier(points[:, :1]).tolist() == [0]


def test_returns_are_mastered_where_most_exceed_the_threshold():
    line = np.repeat(np.linspace([0.0, 10.0], [10.0, 10.0], 11), 9, axis=0)
    returns = np.where(line[:, 0] < 5.0, 60.0, 40.0)
    fitted = Practice(SPACE, 50.0).fit(gd.EpisodeBatch(line, returns, np.ones(99), np.zeros(99)), RNG)
    assert fitted.frontier(line[::9, None]).tolist() == [5]


def test_rehearsing_alone_is_refused():
    with pytest.raises(InvalidInput, match="expected rehearse below 1, got 1"):
        Practice(SPACE, 0.5, rehearse=1.0)


def test_counts_of_another_lattice_are_refused():
    with pytest.raises(InvalidInput, match=r"expected counts of shape \(4, 1024\), got shape \(4, 3\)"):
        METRIC.count(np.zeros((4, 3)), practised(WALL, 0.5))


@pytest.mark.parametrize("dim", [1, 2])
def test_the_lattice_covers_the_space(dim):
    space = gd.ContextSpace(-np.ones(dim), np.ones(dim))
    fitted = Practice(space, 0.0).fit(gd.EpisodeBatch.empty(dim), RNG)
    assert fitted.support.shape == (32**dim, dim)
    assert (fitted.support.min(axis=0) == -1).all()
    assert (fitted.support.max(axis=0) == 1).all()
    way = np.linspace(-np.ones(dim), np.ones(dim), 9)[:, None]
    assert fitted.lengths(way)[0] == pytest.approx(1.3 * np.sqrt(dim))
    assert fitted.detours(way) == ({}, 0.0)


@pytest.mark.parametrize(
    "space", [gd.ContextSpace(np.zeros(3), np.ones(3)), gd.ContextSpace.discrete([[0.0]]),
              gd.ContextSpace.of({"kind": ["a", "b"]})],
)  # fmt: skip
def test_other_spaces_are_refused(space):
    with pytest.raises(InvalidInput, match="expected at most 2 numbers as contexts for metric practice"):
        Practice(space, 0.5)


def test_episodes_of_another_dimension_are_refused():
    with pytest.raises(InvalidInput, match="expected episodes in contexts of dimension 2, got dimension 1"):
        METRIC.fit(batch(np.zeros((3, 1)), 1.0), RNG)
