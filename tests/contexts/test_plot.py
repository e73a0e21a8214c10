"""Plots: a description that fits the contexts, and the messages of one that does not."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.errors import InvalidInput
from geodesic.tasks import catalogue

PLANE = gd.ContextSpace([0.0, 0.0], [1.0, 1.0], names=("x", "y"))
CUBE = gd.ContextSpace(np.zeros(3), np.ones(3), names=("x", "y", "z"))
CELLS = gd.ContextSpace.discrete([[0, 0], [0, 1], [1, 1]], ("row", "column"))


@pytest.mark.parametrize(
    ("plot", "space", "message"),
    [
        (gd.Plot(axes=("x", "t")), PLANE, "expected axes among the context values x, y, got 't'"),
        (
            gd.Plot(cells=np.zeros((2, 2), int)),
            CUBE,
            "expected cells (rows, columns) with contexts (row, column), got (2, 2)",
        ),
        (
            gd.Plot(order=np.arange(3.0)),
            PLANE,
            "expected order to have a number for each support point of a discrete context space",
        ),
        (
            gd.Plot(order=np.arange(4.0)),
            CELLS,
            "expected order to have a number for each support point of a discrete context space",
        ),
    ],
)
def test_a_plot_that_does_not_fit_the_space_is_refused(plot, space, message):
    with pytest.raises(InvalidInput) as caught:
        plot.check(space)
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
def test_an_invalid_plot_is_refused_at_once(parts, message):
    with pytest.raises(InvalidInput) as caught:
        gd.Plot(**parts)
    assert str(caught.value) == message


def test_a_plot_that_fits_is_accepted():
    gd.Plot().check(CUBE)
    gd.Plot(axes=("z", "x")).check(CUBE)
    gd.Plot(cells=np.zeros((2, 2), int), order=np.arange(3.0)).check(CELLS)


def test_the_plane_is_the_named_axes_or_the_first_two():
    assert gd.Plot(axes=("z", "x")).plane(CUBE).tolist() == [2, 0]
    assert gd.Plot().plane(CUBE).tolist() == [0, 1]
    assert gd.Plot().plane(gd.ContextSpace([0.0], [1.0])).tolist() == [0]


def test_plots_of_built_in_tasks_have_walls_goals_and_order():
    maze = catalogue.load("maze")
    assert maze.plot.goals == ((5, 6),)
    assert maze.plot.cells.shape == (11, 11)
    assert maze.plot.cells.sum() == 121 - 52
    assert not maze.plot.cells[tuple(maze.space.support.astype(int).T)].any()
    assert maze.plot.order.tolist() == (-maze.env.best_return(maze.space.support)).tolist()
    u_maze = catalogue.load("u-maze")
    assert u_maze.plot.walls == ((-2.0, 2.0, 6.0, 6.0),)
    inside = np.array([[0.0, 4.0]])
    assert not u_maze.env.is_feasible(inside).any()
