"""Episodes: columns of one length, and what is taken from them."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.contexts.episodes import COLUMNS
from geodesic.errors import InvalidInput

FIVE = gd.Episodes(
    np.arange(10.0).reshape(5, 2), [0.0, 1.0, 2.0, 3.0, 4.0], [5, 6, 7, 8, 9], [0, 0, 1, 1, 2], [0, 1, np.nan, 0, 1]
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: gd.Episodes([[0.0], [1.0]], [1.0], [1, 1], [0, 0]),
            "expected returns of shape (2,), got shape (1,)",
        ),
        (lambda: gd.Episodes([[0.0]], [float("nan")], [1], [0]), "expected returns to be finite, got [nan]"),
        (lambda: gd.Episodes([0.0], [1.0], [1], [0]), "expected contexts of shape (n, d), got shape (1,)"),
        (
            lambda: gd.Episodes([[0.0]], [1.0], [1], [0], [1.0, 0.0]),
            "expected successes of shape (1,), got shape (2,)",
        ),
        (lambda: gd.Episodes([[0.0], [1.0]], [1.0, 1.0], [9, -3], [0, 0]), "expected lengths >= 0, got -3"),
        (lambda: gd.Episodes([[0.0]], [1.0], [2.5], [0]), "expected lengths to be whole numbers, got 2.5"),
        (
            lambda: gd.Episodes([[0.0], [1.0]], [1.0, 1.0], [1, 1], [0, 0.5]),
            "expected stages to be whole numbers, got 0.5",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InvalidInput) as caught:
        make()
    assert str(caught.value) == message


def test_whole_numbers_may_come_as_floats():
    episodes = gd.Episodes([[0.0], [1.0]], [1.0, 1.0], np.float32([3.0, 0.0]), [-1.0, 2.0])
    assert (episodes.lengths.tolist(), episodes.stages.tolist()) == ([3, 0], [-1, 2])


def test_a_success_that_nobody_reported_is_unknown():
    assert np.isnan(gd.Episodes([[0.0]], [1.0], [1], [0]).successes).all()


def test_a_stage_is_the_episodes_that_began_in_it():
    own = FIVE.of_stage(1)
    assert own.returns.tolist() == [2.0, 3.0]
    assert own.contexts.tolist() == [[4.0, 5.0], [6.0, 7.0]]
    assert len(FIVE.of_stage(9)) == 0


def test_slices_and_joins_keep_every_column():
    joined = FIVE[:2].followed_by(FIVE[2:])
    for name, left, right in zip(COLUMNS, joined.columns(), FIVE.columns()):
        np.testing.assert_array_equal(left, right, err_msg=name)
        assert left.dtype == right.dtype
    assert FIVE.followed_by(gd.Episodes.empty(2)) is FIVE
    assert gd.Episodes.empty(2).followed_by(FIVE) is FIVE


def test_none_are_episodes_too():
    none = gd.Episodes.empty(3)
    assert len(none) == 0
    assert none.contexts.shape == (0, 3)
    assert [column.dtype for column in none.columns()] == [column.dtype for column in FIVE.columns()]


def test_its_repr_is_short():
    assert repr(FIVE) == "Episodes(5, mean return 2)"
    assert repr(gd.Episodes.empty(1)) == "Episodes(0)"


def test_one_episode_is_episodes_too():
    assert FIVE[1].returns.tolist() == [1.0]
    assert FIVE[-1].contexts.tolist() == [[8.0, 9.0]]
    assert [len(each) for each in FIVE] == [1] * 5
