"""Episodes are released in the order in which they began, and none before an earlier one has ended."""

import numpy as np

from geodesic.contexts import EpisodeBatch
from geodesic.training.reorder import release


def episodes(returns, started):
    n = len(returns)
    return EpisodeBatch(np.zeros((n, 1)), returns, [1] * n, [0] * n, started=started)


def test_an_episode_waits_for_those_that_began_no_later():
    out, buffer = release(EpisodeBatch.empty(1), episodes([1.0, 2.0], [0, 5]), earliest_running=0)
    assert len(out) == 0
    out, buffer = release(buffer, episodes([3.0], [0]), earliest_running=4)
    assert out.returns.tolist() == [1.0, 3.0]
    out, buffer = release(buffer, episodes([4.0], [4]), earliest_running=9)
    assert out.returns.tolist() == [4.0, 2.0]
    assert len(buffer) == 0


def test_with_one_environment_no_episode_waits():
    out, buffer = release(EpisodeBatch.empty(1), episodes([1.0, 2.0, 3.0], [0, 4, 9]), earliest_running=12)
    assert out.returns.tolist() == [1.0, 2.0, 3.0]
    assert len(buffer) == 0


def test_an_empty_batch_and_an_empty_buffer_release_nothing():
    out, buffer = release(EpisodeBatch.empty(1), EpisodeBatch.empty(1), earliest_running=3)
    assert (len(out), len(buffer)) == (0, 0)
    assert buffer.contexts.shape == (0, 1)


def test_released_episodes_are_not_biased_towards_short_ones():
    """Half of the episodes succeed at once, half fail after 100 steps, in 16 environments."""
    rng = np.random.default_rng(0)
    started, ends, returns = [], [], []
    for _ in range(16):
        now = 0
        while now < 2000:
            good = rng.random() < 0.5
            started.append(now)
            now += 2 if good else 100
            ends.append(now)
            returns.append(1.0 if good else -1.0)
    started, ends, returns = map(np.array, (started, ends, returns))
    now = 60
    ended = ends <= now
    assert returns[ended].mean() == 1.0  # only lucky episodes have ended so far
    running = started[(started <= now) & ~ended].min()
    out, _ = release(EpisodeBatch.empty(1), episodes(returns[ended], started[ended]), int(running))
    assert len(out) == 0
    now = 1000
    ended = ends <= now
    running = started[(started <= now) & ~ended].min()
    out, _ = release(EpisodeBatch.empty(1), episodes(returns[ended], started[ended]), int(running))
    assert abs(out.returns.mean()) < 0.15
