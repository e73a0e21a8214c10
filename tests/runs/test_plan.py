"""A curriculum without training: the distributions on the geodesic and their precision."""

import re
from dataclasses import replace

import numpy as np
import pytest

import geodesic as gd
from geodesic.runs.plan import plan
from geodesic.tasks import load
from mixed_walk import mixed_walk


def test_a_plan_states_its_precision():
    drawn = plan(load("maze"), (0.0, 1.0), "l2")
    assert drawn.lines()[0] == "maze: W(source, target) = 4.445 under l2, exact"
    for excess, words in ((0.003, "at most 0.30% above the optimum"), (float("inf"), "with no bound on its excess")):
        assert replace(drawn, excess=excess).lines()[0].endswith(f"under l2, {words}")


def test_a_plan_states_how_far_contexts_move_and_are_from_the_target():
    lines = plan(load("u-maze"), (0.0, 0.5, 1.0)).lines()
    assert [line.split(", moved ")[1] for line in lines[1:4]] == [
        "0.00, 0.48 from the target", "0.24, 0.24 from the target", "0.24, 0.00 from the target",
    ]  # fmt: skip
    assert lines[-1] == "  the largest move is 0.24; distances are in diagonals of the context space"


class Late(gd.metrics.Euclidean):
    """Paths that do not move until the end."""

    def interpolate(self, x, y, t):
        return super().interpolate(x, y, float(t == 1.0))


def test_a_plan_warns_of_a_path_that_jumps():
    alphas = (0.0, 0.25, 0.5, 0.75, 1.0)
    assert (
        plan(load("u-maze"), alphas, Late()).lines()[-1] == "  warning: the path jumps to alpha 1; try another metric"
    )
    assert plan(load("u-maze"), alphas).jump is None


def test_a_plan_names_integers_and_categories():
    drawn = plan(mixed_walk(), (0.0, 0.5, 1.0))
    assert drawn.geodesic == "gradient (product)"
    shares = "steering=straight 0.5, steering=mirrored 0.25, steering=slow 0.25, cost 1.25"
    assert re.fullmatch(rf"  alpha 0.5   mean context place 3.\d*, {shares}, infeasible 0%, moved .*", drawn.lines()[2])
    space = drawn.task.space
    assert all(space.contains(there.points).all() for path in drawn.paths.values() for there in path)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_the_ends_of_the_path_are_source_and_target(alpha):
    task = load("maze")
    drawn = plan(task, (alpha,), "l2")
    assert drawn.paths[drawn.geodesic] == [task.target_particles if alpha else task.source_particles]


def test_the_examples_of_a_plan_go_from_the_source_to_different_points_of_the_target():
    drawn = plan(load("levels"), (0.0, 0.5, 1.0))
    task = drawn.task
    first, middle, last = drawn.examples.swapaxes(0, 1)
    assert all((task.source_particles.points == each).all(axis=1).any() for each in first)
    np.testing.assert_array_equal(last, task.target_particles.points[:3])
    metric = task.make_metric()
    whole, half = (np.diagonal(metric.pairwise(first, other)) for other in (last, middle))
    assert (np.abs(half - whole / 2) <= 0.5).all()


def test_a_plan_of_many_context_values_names_the_first():
    line = plan(load("levels"), (0.0, 1.0)).lines()[1]
    assert "start_row" in line
    assert "wall_0_3 0.03, ... (173 in all), infeasible 0%" in line
