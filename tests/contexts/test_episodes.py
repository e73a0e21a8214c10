"""Batches of episodes: columns of one length, scores, and parts of a batch."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.contexts.episodes import COLUMNS, LOSS_COLUMNS, SCORES
from geodesic.errors import InvalidInput

FIVE = gd.EpisodeBatch(
    np.arange(10.0).reshape(5, 2), [0.0, 1.0, 2.0, 3.0, 4.0], [5, 6, 7, 8, 9], [0, 0, 1, 1, 2],
    discounted=[0.0, 0.5, 1.0, 1.5, 2.0], successes=[0, 1, np.nan, 0, 1],
    started=[0, 1, 2, 4, 3], ended=[5, 11, 18, 26, 35],
    value_l1=[0.5, 1.5, np.nan, 0.0, 2.0], positive_value_loss=[0.5, 0.0, 1.0, 0.0, 0.25],
)  # fmt: skip


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: gd.EpisodeBatch([[0.0], [1.0]], [1.0], [1, 1], [0, 0]),
            "expected returns of shape (2,), got shape (1,)",
        ),
        (lambda: gd.EpisodeBatch([[0.0]], [float("nan")], [1], [0]), "expected returns to be finite, got [nan]"),
        (lambda: gd.EpisodeBatch([0.0], [1.0], [1], [0]), "expected contexts of shape (n, d), got shape (1,)"),
        (
            lambda: gd.EpisodeBatch([[0.0]], [1.0], [1], [0], successes=[1.0, 0.0]),
            "expected successes of shape (1,), got shape (2,)",
        ),
        (
            lambda: gd.EpisodeBatch([[0.0]], [1.0], [1], [0], successes=[1.5]),
            "expected successes in [0, 1], got 1.5",
        ),
        (
            lambda: gd.EpisodeBatch([[0.0]], [1.0], [1], [0], discounted=[1.0, 0.0]),
            "expected discounted of shape (1,), got shape (2,)",
        ),
        (
            lambda: gd.EpisodeBatch([[0.0]], [1.0], [1], [0], discounted=[np.inf]),
            "expected discounted to be finite or NaN, got an infinite value",
        ),
        (lambda: gd.EpisodeBatch([[0.0]], [1.0], [1], [0], started=[0.5]), "expected started to be integers, got 0.5"),
        (
            lambda: gd.EpisodeBatch([[0.0]], [1.0], [1], [0], ended=[1, 2]),
            "expected ended of shape (1,), got shape (2,)",
        ),
        (
            lambda: FIVE.scores("success"),
            "expected successes (info['is_success'] or info['success'] at the end of an episode), since the task's "
            "score is 'success'; got none",
        ),
        (
            lambda: gd.EpisodeBatch([[0.0]], [1.0], [1], [0]).scores("discounted_return"),
            "expected discounted returns, since the task's score is 'discounted_return'; got none",
        ),
        (
            lambda: FIVE.scores("regret"),
            "expected score to be one of return, discounted_return, success; got 'regret'",
        ),
        (
            lambda: FIVE.concatenate(gd.EpisodeBatch([[0.0]], [1.0], [1], [0])),
            "expected episodes in contexts of one dimension, got 2 and 1",
        ),
        (lambda: gd.EpisodeBatch([[0.0], [1.0]], [1.0, 1.0], [9, -3], [0, 0]), "expected lengths >= 0, got -3"),
        (
            lambda: gd.EpisodeBatch([[0.0]], [1.0], [1], [0], value_l1=[-0.5]),
            "expected value_l1 >= 0, got -0.5",
        ),
        (lambda: gd.EpisodeBatch([[0.0]], [1.0], [2.5], [0]), "expected lengths to be integers, got 2.5"),
        (
            lambda: gd.EpisodeBatch([[0.0], [1.0]], [1.0, 1.0], [1, 1], [0, 0.5]),
            "expected stages to be integers, got 0.5",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InvalidInput) as caught:
        make()
    assert str(caught.value) == message


def test_integers_may_be_given_as_floats():
    episodes = gd.EpisodeBatch([[0.0], [1.0]], [1.0, 1.0], np.float32([3.0, 0.0]), [-1.0, 2.0])
    assert (episodes.lengths.tolist(), episodes.stages.tolist()) == ([3, 0], [-1, 2])


def test_values_that_are_not_given_are_unknown_or_zero():
    episode = gd.EpisodeBatch([[0.0]], [1.0], [1], [0])
    assert np.isnan(episode.successes).all()
    assert np.isnan(episode.discounted).all()
    assert (episode.started.tolist(), episode.ended.tolist()) == ([0], [0])


def test_scores_are_the_column_of_their_kind():
    assert FIVE.scores("return").tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert FIVE.scores("discounted_return").tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert FIVE[[0, 1, 3]].scores("success").tolist() == [0.0, 1.0, 0.0]
    assert set(SCORES) == {"return", "discounted_return", "success"}
    for kind in SCORES:
        assert len(gd.EpisodeBatch.empty(2).scores(kind)) == 0


def test_of_stage_gives_the_episodes_that_began_in_that_stage():
    own = FIVE.of_stage(1)
    assert own.returns.tolist() == [2.0, 3.0]
    assert own.contexts.tolist() == [[4.0, 5.0], [6.0, 7.0]]
    assert len(FIVE.of_stage(9)) == 0
    with pytest.raises(InvalidInput, match="expected stage to be an integer"):
        FIVE.of_stage((1, 2))


def test_a_score_above_the_threshold_is_a_success_where_none_is_reported():
    assert FIVE.succeeded("return", 1.5).tolist() == [0.0, 1.0, 1.0, 0.0, 1.0]
    assert FIVE.succeeded("return", 2.0).tolist() == [0.0, 1.0, 0.0, 0.0, 1.0]
    with pytest.raises(InvalidInput, match="expected discounted returns"):
        gd.EpisodeBatch([[0.0]], [1.0], [1], [0]).succeeded("discounted_return", 2.0)


def test_with_stages_replaces_one_column():
    moved = FIVE.with_stages([4, 4, 3, 3, 3])
    assert moved.stages.tolist() == [4, 4, 3, 3, 3]
    assert moved.contexts is FIVE.contexts
    for wrong in ([1, 2], [0.5] * 5, None):
        with pytest.raises(InvalidInput, match="stages"):
            FIVE.with_stages(wrong)


def test_slicing_and_concatenating_keep_every_column():
    joined = FIVE[:2].concatenate(FIVE[2:])
    for name, left, right in zip(COLUMNS, joined.columns(), FIVE.columns()):
        np.testing.assert_array_equal(left, right, err_msg=name)
        assert left.dtype == right.dtype
    assert FIVE.concatenate(gd.EpisodeBatch.empty(2)) is FIVE
    assert gd.EpisodeBatch.empty(2).concatenate(FIVE) is FIVE


def test_an_empty_batch_has_the_columns_of_a_full_one():
    none = gd.EpisodeBatch.empty(3)
    assert len(none) == 0
    assert none.contexts.shape == (0, 3)
    required = [(column, full) for column, full in zip(none.columns(), FIVE.columns()) if column is not None]
    assert len(required) == len(COLUMNS) - len(LOSS_COLUMNS)
    assert all(column.dtype == full.dtype for column, full in required)


def test_value_losses_are_the_column_of_their_kind():
    known = FIVE[[0, 1, 3]]
    assert known.value_losses("l1").tolist() == [0.5, 1.5, 0.0]
    assert FIVE.value_losses("positive").tolist() == [0.5, 0.0, 1.0, 0.0, 0.25]
    for batch in (FIVE, gd.EpisodeBatch([[0.0]], [1.0], [1], [0])):
        with pytest.raises(InvalidInput, match="expected the learner's value_l1 for each episode, got none; try PPO"):
            batch.value_losses("l1")
    with pytest.raises(InvalidInput, match="expected loss to be one of l1, positive; got 'l2'"):
        FIVE.value_losses("l2")


def test_sums_of_value_errors_become_means_over_the_steps():
    made = FIVE.with_value_errors(np.array([[5.0, 2.5], [6.0, 0.0], [7.0, 7.0], [0.0, 0.0], [18.0, 9.0]]))
    assert made.value_losses("l1").tolist() == [1.0, 1.0, 1.0, 0.0, 2.0]
    assert made.value_losses("positive").tolist() == [0.5, 0.0, 1.0, 0.0, 1.0]
    assert made.contexts is FIVE.contexts
    with pytest.raises(InvalidInput, match=r"expected sums of shape \(5, 2\), got shape \(5,\)"):
        FIVE.with_value_errors(np.ones(5))


def test_losses_are_unknown_where_one_part_does_not_have_them():
    plain = gd.EpisodeBatch(*FIVE.columns()[:8])
    assert (plain.value_l1, plain[:2].value_l1, plain.concatenate(plain).value_l1) == (None, None, None)
    joined = plain[:1].concatenate(FIVE[:2])
    np.testing.assert_array_equal(joined.value_l1, [np.nan, 0.5, 1.5])
    np.testing.assert_array_equal(FIVE[:1].concatenate(plain[:1]).positive_value_loss, [0.5, np.nan])


def test_repr_is_short():
    assert repr(FIVE) == "EpisodeBatch(5 episodes, mean return 2)"
    assert repr(gd.EpisodeBatch.empty(1)) == "EpisodeBatch(0 episodes)"


def test_one_episode_is_a_batch_of_one():
    assert FIVE[1].returns.tolist() == [1.0]
    assert FIVE[-1].contexts.tolist() == [[8.0, 9.0]]
    assert [len(each) for each in FIVE] == [1] * 5
