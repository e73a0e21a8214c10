"""A curriculum without training: the distributions on the geodesic and their precision."""

import re
from dataclasses import replace

import pytest

from geodesic.runs.plan import plan
from geodesic.tasks import load
from mixed_walk import mixed_walk


def test_a_plan_states_its_precision():
    drawn = plan(load("maze"), (0.0, 1.0), "l2")
    assert drawn.lines()[0] == "maze: W(source, target) = 4.445 under l2, exact"
    for excess, words in ((0.003, "at most 0.30% above the optimum"), (float("inf"), "with no bound on its excess")):
        assert replace(drawn, excess=excess).lines()[0].endswith(f"under l2, {words}")


def test_a_plan_names_integers_and_categories():
    drawn = plan(mixed_walk(), (0.0, 0.5, 1.0))
    assert drawn.geodesic == "gradient (product)"
    shares = "steering=straight 0.5, steering=mirrored 0.25, steering=slow 0.25, cost 1.25"
    assert re.fullmatch(rf"  alpha 0.5   mean context place 3.\d*, {shares}, infeasible 0%", drawn.lines()[2])
    space = drawn.task.space
    assert all(space.contains(there.points).all() for path in drawn.paths.values() for there in path)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_the_ends_of_the_path_are_source_and_target(alpha):
    task = load("maze")
    drawn = plan(task, (alpha,), "l2")
    assert drawn.paths[drawn.geodesic] == [task.target_particles if alpha else task.source_particles]
