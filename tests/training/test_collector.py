"""Episodes collected on the host: one batch in the order in which they ended."""

import threading

import numpy as np
import pytest

from geodesic.training.collector import EpisodeCollector, ErrorSums


def add(collector, ended, total=1.0, **values):
    given = {"length": 3, "stage": 2, "discounted": np.nan, "success": np.nan, "started": 0, **values}
    collector.add(np.array([ended, -ended], np.float32), total, ended=ended, **given)


def test_a_batch_has_every_column_in_the_order_of_the_ends():
    collector = EpisodeCollector(2)
    add(collector, 9, total=4.0, discounted=2.0, success=1.0, started=5)
    add(collector, 7, total=3.0, length=6, stage=1, discounted=1.5, success=0.0, started=1)
    batch = collector.batch()
    assert batch.contexts.tolist() == [[7.0, -7.0], [9.0, -9.0]]
    assert batch.contexts.dtype == np.float64
    assert (batch.returns.tolist(), batch.discounted.tolist()) == ([3.0, 4.0], [1.5, 2.0])
    assert (batch.lengths.tolist(), batch.stages.tolist()) == ([6, 3], [1, 2])
    assert (batch.successes.tolist(), batch.started.tolist(), batch.ended.tolist()) == ([0.0, 1.0], [1, 5], [7, 9])


def test_each_episode_is_in_one_batch_only():
    collector = EpisodeCollector(2)
    add(collector, 1)
    assert len(collector.batch()) == 1
    empty = collector.batch()
    assert len(empty) == 0
    assert empty.contexts.shape == (0, 2)


def test_episodes_that_ended_at_the_same_step_keep_their_order():
    collector = EpisodeCollector(2)
    for total in (1.0, 2.0, 3.0):
        add(collector, 5, total=total)
    assert collector.batch().returns.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("total", [np.nan, np.inf])
def test_a_return_that_is_not_finite_gives_no_batch(total):
    collector = EpisodeCollector(2)
    add(collector, 1)
    add(collector, 2, total=total)
    assert collector.batch() is None
    assert len(collector.batch()) == 0  # the collector is usable again


def test_episodes_may_be_added_by_several_threads():
    collector = EpisodeCollector(2)
    threads = [
        threading.Thread(target=lambda k=k: [add(collector, 1 + 8 * i + k) for i in range(200)]) for k in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert collector.batch().ended.tolist() == list(range(1, 1601))


def test_value_errors_are_summed_along_each_episode():
    """Two environments, three steps at a time; episodes end at different steps, one of them after the first call."""
    sums = ErrorSums(2)
    first = sums.add(
        np.array([[1.0, -1.0], [-2.0, 3.0], [5.0, 0.5]]), np.array([[False, False], [True, False], [False, False]])
    )
    assert first.tolist() == [[3.0, 1.0]]
    assert sums.running.tolist() == [[5.0, 5.0], [4.5, 3.5]]
    again = ErrorSums(2, sums.running)
    for each in (sums, again):
        second = each.add(np.array([[-1.0, 0.5], [2.0, -1.0]]), np.array([[True, True], [False, True]]))
        assert second.tolist() == [[6.0, 5.0], [5.0, 4.0], [1.0, 0.0]]
        assert each.running.tolist() == [[2.0, 2.0], [0.0, 0.0]]
    assert sums.add(np.zeros((1, 2)), np.zeros((1, 2), bool)).shape == (0, 2)
