"""Distances in diagonals of the space, whatever the metric of a path, and what counts as a jump."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.transport.displacement import displacement, hop_lengths, is_jump

SPACE = gd.ContextSpace([0.0, 0.0], [3.0, 400.0])


def test_the_diagonal_is_one_and_each_side_counts_alike():
    corner = gd.Particles([[0.0, 0.0]])
    assert displacement(corner, gd.Particles([[3.0, 400.0]]), SPACE) == pytest.approx(1.0)
    for end in ([3.0, 0.0], [0.0, 400.0]):
        assert displacement(corner, gd.Particles([end]), SPACE) == pytest.approx(np.sqrt(0.5))


def test_a_category_is_as_far_as_an_end():
    space = gd.ContextSpace.of({"mass": (0.0, 2.0), "kind": ["a", "b", "c"]})
    one, other = (gd.Particles([space.encode({"mass": 1.0, "kind": kind})]) for kind in "ac")
    assert displacement(one, other, space) == pytest.approx(np.sqrt(0.5))


def test_a_large_cloud_moves_as_far_as_it_is_translated():
    points = np.random.default_rng(0).uniform([0, 0], [1, 100], (5000, 2))
    cloud, moved = gd.Particles(points), gd.Particles(points + np.array([1.5, 200.0]))
    assert displacement(cloud, moved, SPACE) == pytest.approx(0.5)
    assert displacement(cloud, cloud, SPACE) == 0.0


def test_points_without_mass_do_not_count():
    split = gd.Particles([[0.0, 0.0], [3.0, 400.0]], [1.0, 0.0])
    assert displacement(split, gd.Particles([[0.0, 0.0]]), SPACE) == 0.0


def test_the_hops_of_a_path_add_up_to_its_length():
    points = np.array([[[0.0, 0.0], [0.0, 0.0]], [[3.0, 0.0], [0.0, 0.0]], [[3.0, 400.0], [0.0, 400.0]]])
    hops = hop_lengths(points, np.array([3.0, 1.0]), SPACE)
    np.testing.assert_allclose(hops, np.sqrt(0.5) * np.array([[0.75, 0.0], [0.75, 0.25]]))


@pytest.mark.parametrize(
    ("hop", "fraction", "jumps"),
    [(1.0, 0.1, False), (3.1, 0.1, True), (2.0, 0.01, False), (2.6, 0.01, True), (5.0, 0.5, False), (10.0, 1.0, False)],
)
def test_a_jump_is_far_more_than_its_share_of_a_path(hop, fraction, jumps):
    assert is_jump(hop, fraction, length=10.0) is jumps
