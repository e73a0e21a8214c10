"""What is drawn with the contexts: it fits them, or says why not."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.errors import InvalidInput
from geodesic.tasks import catalogue

PLANE = gd.ContextSpace([0.0, 0.0], [1.0, 1.0], names=("x", "y"))
CUBE = gd.ContextSpace(np.zeros(3), np.ones(3), names=("x", "y", "z"))
CELLS = gd.ContextSpace.discrete([[0, 0], [0, 1], [1, 1]], ("row", "column"))


@pytest.mark.parametrize(
    ("drawing", "space", "message"),
    [
        (gd.Drawing(axes=("x", "t")), PLANE, "expected axes among the context values x, y, got 't'"),
        (
            gd.Drawing(cells=np.zeros((2, 2), int)),
            CUBE,
            "expected cells (rows, columns) with contexts (row, column), got (2, 2)",
        ),
        (
            gd.Drawing(order=np.arange(3.0)),
            PLANE,
            "expected order to have a number for each support point of a discrete context space",
        ),
        (
            gd.Drawing(order=np.arange(4.0)),
            CELLS,
            "expected order to have a number for each support point of a discrete context space",
        ),
    ],
)
def test_what_does_not_fit_is_refused(drawing, space, message):
    with pytest.raises(InvalidInput) as caught:
        drawing.check(space)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"cells": np.zeros(4, int)}, "expected cells of 0 and 1 (rows, columns), got shape (4,)"),
        ({"cells": [[0, 2]]}, "expected cells of 0 and 1 (rows, columns), got shape (1, 2)"),
        ({"axes": ("x", "x")}, "expected axes to be two context values, got ('x', 'x')"),
        ({"walls": [(0.0, 0.0, 1.0)]}, "expected walls of shape (n, 4), got shape (1, 3)"),
        ({"goals": "here"}, "expected goals to be numbers, got 'here'"),
    ],
)
def test_what_cannot_be_drawn_is_refused_at_once(parts, message):
    with pytest.raises(InvalidInput) as caught:
        gd.Drawing(**parts)
    assert str(caught.value) == message


def test_what_fits_is_accepted():
    gd.Drawing().check(CUBE)
    gd.Drawing(axes=("z", "x")).check(CUBE)
    gd.Drawing(cells=np.zeros((2, 2), int), order=np.arange(3.0)).check(CELLS)


def test_the_plane_is_the_named_axes_or_the_first_two():
    assert gd.Drawing(axes=("z", "x")).plane(CUBE).tolist() == [2, 0]
    assert gd.Drawing().plane(CUBE).tolist() == [0, 1]
    assert gd.Drawing().plane(gd.ContextSpace([0.0], [1.0])).tolist() == [0]


def test_built_in_drawings_show_walls_goals_and_order():
    maze = catalogue.load("maze")
    assert maze.drawing.goals == ((5, 6),)
    assert maze.drawing.cells.shape == (11, 11)
    assert maze.drawing.cells.sum() == 121 - 52
    assert not maze.drawing.cells[tuple(maze.space.support.astype(int).T)].any()
    assert maze.drawing.order.tolist() == (-maze.env.best_return(maze.space.support)).tolist()
    u_maze = catalogue.load("u-maze")
    assert u_maze.drawing.walls == ((-2.0, 2.0, 6.0, 6.0),)
    inside = np.array([[0.0, 4.0]])
    assert not u_maze.env.is_feasible(inside).any()
