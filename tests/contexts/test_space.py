"""Context spaces: bounds, names, units, and the messages of invalid input."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.contexts import as_bounded
from geodesic.errors import InvalidInput

SIDES = {"length": (0.05, 1.05, "m"), "pole_mass": (2.0, 6.0)}
CELLS = [[0, 0], [2, 0], [0, 2]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: gd.ContextSpace([0.0], [1.0]).check([[2.0]]),
            "expected context inside low [0.0], high [1.0], got [2.0]",
        ),
        (lambda: gd.ContextSpace([0.0], [1.0]).check([[0.0, 1.0]]), "expected context of dimension 1, got dimension 2"),
        (lambda: gd.ContextSpace([1.0], [0.0]), "expected low <= high, got low [1.] and high [0.]"),
        (
            lambda: gd.ContextSpace([0.0], [1.0, 2.0]),
            "expected low and high of one shape (d,), got shapes (1,) and (2,)",
        ),
        (lambda: gd.ContextSpace(["a"], [1.0]), "expected low to be numbers, got ['a']"),
        (
            lambda: gd.ContextSpace([0.0], [1.0], names=("x", "y")),
            "expected names of 1 context values, got ('x', 'y')",
        ),
        (lambda: gd.ContextSpace([0.0], [1.0], units=(5,)), "expected units to be a list of names, got (5,)"),
        (
            lambda: gd.ContextSpace([0.0, 0.0], [1.0, 1.0], names=("x", "x")),
            "expected names that differ, got ('x', 'x')",
        ),
        (lambda: gd.ContextSpace.of({}), "expected contexts as {name: (low, high)}, got {}"),
        (lambda: gd.ContextSpace.of([(0, 1)]), "expected contexts as {name: (low, high)}, got [(0, 1)]"),
        (
            lambda: gd.ContextSpace.of({"x": 1.0}),
            "expected context 'x' as (low, high), (low, high, unit), a range or a list of categories, got 1.0",
        ),
        (
            lambda: gd.ContextSpace.of({"x": "ab"}),
            "expected context 'x' as (low, high), (low, high, unit), a range or a list of categories, got 'ab'",
        ),
        (
            lambda: gd.ContextSpace.of({"x": (1.0, 0.0)}),
            "expected low <= high, got low [1.] and high [0.]",
        ),
        (
            lambda: gd.ContextSpace([0.0], [np.inf]).sides,
            "expected a bounded context space, got low [0.] and high [inf]",
        ),
        (
            lambda: gd.ContextSpace([0.0], [1.0]).index(np.zeros((1, 1))),
            "expected a discrete context space, got a box",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InvalidInput) as caught:
        make()
    assert str(caught.value) == message


def test_a_discrete_space_is_its_support():
    space = gd.ContextSpace.discrete(CELLS)
    assert space.clip(np.array([[1.6, 0.3]])).tolist() == [[2.0, 0.0]]
    assert space.contains(np.array([[2.0, 0.0], [1.0, 0.0]])).tolist() == [True, False]
    assert space.uniform(1, np.random.default_rng(0)).weights.tolist() == pytest.approx([1 / 3] * 3)
    with pytest.raises(InvalidInput, match=r"expected context inside its support, got \[1.0, 0.0\]"):
        space.check([[1.0, 0.0]])


def test_named_sides_give_bounds_names_and_units():
    space = gd.ContextSpace.of(SIDES)
    assert space.low.tolist() == [0.05, 2.0]
    assert space.high.tolist() == [1.05, 6.0]
    assert space.names == ("length", "pole_mass")
    assert space.units == ("m", "")
    assert space.labels == ("length (m)", "pole mass")
    assert space.support is None


def test_values_without_names_are_numbered():
    space = gd.ContextSpace([0.0, 0.0], [1.0, 1.0])
    assert space.names == ("0", "1")
    assert space.labels == ("context 0", "context 1")
    assert gd.ContextSpace.discrete(CELLS, ("row", "column")).labels == ("row", "column")


def test_the_space_is_scaled_to_the_unit_cube_and_its_diagonal_to_length_one():
    space = gd.ContextSpace.of(SIDES)
    corners = np.array([[0.05, 2.0], [1.05, 6.0], [0.55, 3.0]])
    np.testing.assert_allclose(space.to_unit(corners), [[0, 0], [1, 1], [0.5, 0.25]])
    np.testing.assert_allclose(space.sides, [1.0, 4.0])
    assert np.linalg.norm((space.high - space.low) / space.unit_length) == pytest.approx(1)
    np.testing.assert_allclose(space.unit_length, space.sides * np.sqrt(2))


def test_an_axis_of_size_zero_has_side_one():
    flat = gd.ContextSpace([0.0, 5.0], [4.0, 5.0])
    np.testing.assert_array_equal(flat.sides, [4.0, 1.0])
    np.testing.assert_array_equal(flat.to_unit(np.array([[4.0, 5.0]])), [[1.0, 0.0]])


def test_missing_bounds_are_those_of_a_box_around_points():
    space = gd.ContextSpace([0.0, -np.inf], [np.inf, 3.0], names=("x", "y"), units=("m", ""))
    box = space.bounded_around(np.array([[1.0, 2.0], [4.0, -1.0]]))
    assert (box.low.tolist(), box.high.tolist()) == ([0.0, -1.0], [4.0, 3.0])
    assert box.labels == space.labels
    assert box.bounded_around([[9.0, 9.0]]) is box
    beyond = gd.ContextSpace([-np.inf], [3.0]).bounded_around([[5.0]])  # low <= high even then
    assert beyond.low.tolist() == beyond.high.tolist() == [3.0]
    with pytest.raises(InvalidInput, match="expected points of dimension 2, got dimension 1"):
        space.bounded_around([[1.0]])


def test_bounded_means_finite_on_every_axis():
    assert gd.ContextSpace([0.0], [1.0]).bounded
    assert not gd.ContextSpace([0.0, 0.0], [1.0, np.inf]).bounded
    assert not gd.ContextSpace([-np.inf], [0.0]).bounded


def test_inside_moves_points_into_the_space():
    box = gd.ContextSpace([0.0, 0.0], [1.0, 2.0])
    moved = box.inside(np.array([[-1.0, 1.0], [0.5, 9.0]]))
    assert moved == gd.Particles([[0.0, 1.0], [0.5, 2.0]])
    cells = gd.ContextSpace.discrete(CELLS)
    assert cells.inside(np.array([[1.9, 0.1], [9.0, 9.0], [-1.0, 0.0]])).points.tolist() == [[2, 0], [2, 0], [0, 0]]


def test_draws_cover_the_space_and_repeat_for_the_same_generator():
    box, cells = gd.ContextSpace([-1.0, 0.0], [1.0, 9.0]), gd.ContextSpace.discrete(CELLS)
    for space in (box, cells):
        drawn = space.draw(900, np.random.default_rng(0))
        assert drawn.shape == (900, 2)
        assert space.contains(drawn).all()
        np.testing.assert_array_equal(drawn, space.draw(900, np.random.default_rng(0)))
    counts = np.histogram2d(*box.draw(900, np.random.default_rng(0)).T, bins=3, range=[[-1, 1], [0, 9]])[0]
    assert np.abs(counts - 100).max() < 5 * np.sqrt(100)
    fractions = np.bincount(cells.index(cells.draw(900, np.random.default_rng(0)))) / 900
    np.testing.assert_allclose(fractions, 1 / 3, atol=0.08)


def test_uniform_is_the_whole_support_or_samples_of_the_box():
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(gd.ContextSpace.discrete(CELLS).uniform(7, rng).points, CELLS)
    assert len(gd.ContextSpace([0.0], [1.0]).uniform(7, rng)) == 7


def test_as_bounded_refuses_an_infinite_side():
    box = gd.ContextSpace([0.0], [1.0])
    assert as_bounded(box, "space") is box
    with pytest.raises(InvalidInput, match="expected a bounded context space"):
        as_bounded(gd.ContextSpace([0.0], [np.inf]), "space")


def test_a_large_support_is_searched_and_sampled():
    grid = np.stack(np.meshgrid(*3 * [np.arange(20.0)], indexing="ij"), axis=-1).reshape(-1, 3)
    space = gd.ContextSpace.discrete(grid)
    rng = np.random.default_rng(0)
    rows = rng.integers(len(grid), size=200)
    np.testing.assert_array_equal(space.index(grid[rows] + 0.3), rows)
    assert space.contains(grid[rows]).all()
    assert not space.contains(grid[rows] + 0.3).any()
    some = space.uniform(500, rng)
    assert len(np.unique(some.points, axis=0)) == len(some) == 500
    assert space.contains(some.points).all()
    assert len(space.uniform(len(grid), rng)) == len(grid)
    assert len(np.unique(space.draw(3000, rng), axis=0)) > 2000
