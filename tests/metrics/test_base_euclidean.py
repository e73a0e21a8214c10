import numpy as np
import pytest

from geodesic.errors import InvalidInput
from geodesic.metrics import Euclidean


def test_distances_are_in_units_of_the_scale():
    x, y = np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 8.0]])
    np.testing.assert_allclose(Euclidean().pairwise(x, y), [[5, 8]])
    np.testing.assert_allclose(Euclidean([3, 4]).pairwise(x, y), [[np.sqrt(2), 2]])
    np.testing.assert_allclose(Euclidean(2).plan_cost(x, y), [[6.25, 16]])


def test_points_between_are_in_the_contexts_own_units():
    points, fractions = Euclidean([10, 1]).interpolate(np.zeros((1, 2)), np.array([[4.0, 8.0]]), 0.25)
    np.testing.assert_allclose(points, [[[1, 2]]])
    np.testing.assert_allclose(fractions, [[1]])


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ([1.0, 0.0], "expected scale to be positive, got [1. 0.]"),
        ([np.nan], "expected scale to be finite, got [nan]"),
        ([[1.0]], "expected scale of shape (d,), got shape (1, 1)"),
        ("metres", "expected scale to be numbers, got 'metres'"),
    ],
)
def test_bad_scale(scale, message):
    with pytest.raises(InvalidInput) as caught:
        Euclidean(scale)
    assert str(caught.value) == message
