"""Episodes are given out in the order in which they began, and none before an earlier one has ended."""

import numpy as np

from geodesic.contexts import Episodes
from geodesic.training.ordering import Waiting


def episodes(*returns):
    n = len(returns)
    return Episodes(np.zeros((n, 1)), returns, [1] * n, [0] * n)


def test_an_episode_waits_for_those_that_began_no_later():
    waiting = Waiting.nothing(1)
    out, waiting = waiting.release(episodes(1.0, 2.0), np.array([0, 5]), under_way=0)
    assert len(out) == 0
    out, waiting = waiting.release(episodes(3.0), np.array([0]), under_way=4)
    assert out.returns.tolist() == [1.0, 3.0]
    out, waiting = waiting.release(episodes(4.0), np.array([4]), under_way=9)
    assert out.returns.tolist() == [4.0, 2.0]
    assert len(waiting.episodes) == 0


def test_with_one_environment_nothing_waits():
    out, waiting = Waiting.nothing(1).release(episodes(1.0, 2.0, 3.0), np.array([0, 4, 9]), under_way=12)
    assert out.returns.tolist() == [1.0, 2.0, 3.0]
    assert len(waiting.episodes) == 0


def test_luck_no_longer_decides():
    """Half of the episodes succeed at once, half fail after 100 steps, in 16 environments."""
    rng = np.random.default_rng(0)
    began, ends, returns = [], [], []
    for _ in range(16):
        now = 0
        while now < 2000:
            good = rng.random() < 0.5
            began.append(now)
            now += 2 if good else 100
            ends.append(now)
            returns.append(1.0 if good else -1.0)
    began, ends, returns = map(np.array, (began, ends, returns))
    now = 60
    ended = ends <= now
    assert returns[ended].mean() == 1.0  # what came in by then
    under_way = began[(began <= now) & ~ended].min()
    out, _ = Waiting.nothing(1).release(episodes(*returns[ended]), began[ended], int(under_way))
    assert len(out) == 0
    now = 1000
    ended = ends <= now
    under_way = began[(began <= now) & ~ended].min()
    out, _ = Waiting.nothing(1).release(episodes(*returns[ended]), began[ended], int(under_way))
    assert abs(out.returns.mean()) < 0.15


def test_what_waits_survives_being_stored():
    seen = Episodes([[1.0, 2.0], [3.0, 4.0]], [5.0, 6.0], [7, 8], [0, 1], [1.0, np.nan])
    _, waiting = Waiting.nothing(2).release(seen, np.array([4, 3]), under_way=0)
    arrays = waiting.save()
    again = Waiting.load({**arrays, "others/x": np.zeros(1)})
    assert again.began.tolist() == [3, 4]
    for ours, theirs in zip(again.episodes.columns(), waiting.episodes.columns()):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype
    out, _ = again.release(Episodes.empty(2), np.zeros(0, np.int64), under_way=9)
    assert out.returns.tolist() == [6.0, 5.0]
