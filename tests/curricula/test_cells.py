"""Cells: how spaces are divided, which cell a context is in, and what is drawn from them."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula.cells import Cells

MIXED = gd.ContextSpace.of(
    {"gravity": (2.0, 12.0), "opponent": ["passive", "random", "chaser"], "obstacles": range(10)}
)


@pytest.mark.parametrize(
    ("space", "most", "parts"),
    [
        (gd.ContextSpace([0.0], [1.0]), 100, (100,)),
        (gd.ContextSpace([0.0, -1.0], [1.0, 9.0]), 100, (10, 10)),
        (gd.ContextSpace(np.zeros(3), np.ones(3)), 100, (5, 5, 4)),
        (gd.ContextSpace(np.zeros(20), np.ones(20)), 100, (3,) + (2,) * 5 + (1,) * 14),
        (gd.ContextSpace([0.0, 3.0], [1.0, 3.0]), 50, (50, 1)),
        (gd.ContextSpace.of({"obstacles": range(10)}), 100, (10,)),
        (gd.ContextSpace.of({"obstacles": range(10)}), 4, (4,)),
        (MIXED, 100, (6, 3, 5)),
        (MIXED, 3, (1, 3, 1)),
        (gd.ContextSpace.discrete(np.arange(300.0)[:, None]), 100, (300,)),
    ],
)
def test_every_context_drawn_from_a_cell_lies_in_it(space, most, parts):
    cells = Cells(space, most)
    assert cells.parts == parts
    assert len(cells) == np.prod(parts)
    contexts = cells.draw(7, np.random.default_rng(0))
    assert space.contains(contexts).all()
    each = 1 if space.support is not None else 7
    np.testing.assert_array_equal(cells.index(contexts), np.repeat(np.arange(len(cells)), each))


def test_cells_cover_the_space_evenly():
    cells = Cells(gd.ContextSpace([0.0, -1.0], [1.0, 9.0]), 16)
    points = cells.space.uniform(16_000, np.random.default_rng(0)).points
    assert np.bincount(cells.index(points), minlength=16).min() > 850
    corners = np.array([[0.0, -1.0], [1.0, 9.0], [0.25, 1.5]])
    assert cells.index(corners).tolist() == [0, 15, 5]


def test_integers_keep_together_and_occur_equally_often():
    cells = Cells(gd.ContextSpace.of({"obstacles": range(0, 50, 5)}), 4)
    assert np.bincount(cells.index(np.arange(0.0, 50.0, 5.0)[:, None])).tolist() in (
        [2, 3, 3, 2],
        [3, 2, 2, 3],
        [2, 3, 2, 3],
    )
    drawn = cells.draw(3000, np.random.default_rng(0))[:3000, 0]
    counts = np.unique(drawn, return_counts=True)[1]
    assert counts.min() > 0.9 * 3000 / len(counts)


@pytest.mark.parametrize(
    ("space", "most", "message"),
    [
        (MIXED, 2, "expected at least 3 cells, one for each combination of categories, got 2"),
        (MIXED, 0, "expected most to be a positive integer, got 0"),
        (
            gd.ContextSpace([0.0], [np.inf]),
            10,
            "expected a bounded context space, got low [0.] and high [inf]",
        ),
    ],
)
def test_bad_arguments(space, most, message):
    with pytest.raises(gd.GeodesicError) as caught:
        Cells(space, most)
    assert str(caught.value) == message


def test_a_space_of_many_values_is_divided_along_the_first():
    """NumPy's own functions for such indices end at 64 dimensions."""
    cells = Cells(gd.ContextSpace(np.zeros(100), np.ones(100)), 8)
    assert (cells.parts[:4], len(cells)) == ((2, 2, 2, 1), 8)
    drawn = cells.draw(5, np.random.default_rng(0))
    np.testing.assert_array_equal(cells.index(drawn), np.repeat(np.arange(8), 5))
