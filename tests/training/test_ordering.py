"""Episodes are given out in the order in which they began, and none before an earlier one has ended."""

import numpy as np

from geodesic.curricula import Episodes
from geodesic.training.ordering import Held


def episodes(*returns):
    n = len(returns)
    return Episodes(np.zeros((n, 1)), returns, [1] * n, [0] * n)


def test_an_episode_waits_for_those_that_began_no_later():
    held = Held.nothing(1)
    out, held = held.release(episodes(1.0, 2.0), np.array([0, 5]), under_way=0)
    assert len(out) == 0
    out, held = held.release(episodes(3.0), np.array([0]), under_way=4)
    assert out.returns.tolist() == [1.0, 3.0]
    out, held = held.release(episodes(4.0), np.array([4]), under_way=9)
    assert out.returns.tolist() == [4.0, 2.0]
    assert len(held.episodes) == 0


def test_with_one_environment_nothing_is_held():
    out, held = Held.nothing(1).release(episodes(1.0, 2.0, 3.0), np.array([0, 4, 9]), under_way=12)
    assert out.returns.tolist() == [1.0, 2.0, 3.0]
    assert len(held.episodes) == 0


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
    out, _ = Held.nothing(1).release(episodes(*returns[ended]), began[ended], int(under_way))
    assert len(out) == 0
    now = 1000
    ended = ends <= now
    under_way = began[(began <= now) & ~ended].min()
    out, _ = Held.nothing(1).release(episodes(*returns[ended]), began[ended], int(under_way))
    assert abs(out.returns.mean()) < 0.15
