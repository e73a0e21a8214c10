"""Numbers from outside: what is accepted, and the exact words of every refusal."""

import numpy as np
import pytest

from geodesic.contexts import as_count, as_number, as_points, as_vector
from geodesic.errors import InvalidInput


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: as_points([[0.0]], dim=2), "expected points of dimension 2, got dimension 1"),
        (lambda: as_vector([1.0, 2.0], "scale", 3), "expected scale of shape (3,), got shape (2,)"),
        (lambda: as_vector([], "scale"), "expected scale of shape (d,), got shape (0,)"),
        (lambda: as_vector("one", "scale"), "expected scale to be numbers, got 'one'"),
        (lambda: as_count(0), "expected n to be a positive integer, got 0"),
        (lambda: as_count(True, "window"), "expected window to be a positive integer, got True"),
        (lambda: as_count(2.0, "window"), "expected window to be a positive integer, got 2.0"),
        (lambda: as_number("1", "threshold"), "expected threshold to be a finite number, got '1'"),
        (lambda: as_number(True, "threshold"), "expected threshold to be a finite number, got True"),
        (lambda: as_number(np.inf, "threshold"), "expected threshold to be a finite number, got inf"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InvalidInput) as caught:
        make()
    assert str(caught.value) == message


def test_a_scalar_is_spread_and_numpys_numbers_are_numbers():
    assert as_vector(2.0, "scale", 3).tolist() == [2.0, 2.0, 2.0]
    assert as_count(np.int32(3)) == 3
    assert type(as_count(np.int32(3))) is int
    assert as_number(np.float32(0.5), "threshold") == 0.5


def test_the_array_is_a_copy():
    given = np.zeros((2, 1))
    as_points(given)[0] = 5.0
    assert not given.any()
