"""The edit distance: one edit at a time, all levels solvable; as long as the distance, and evenly harder."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.contexts.levels import MARKS, LevelSpace, parse_levels
from geodesic.envs.levels import Levels
from geodesic.errors import InvalidInput
from geodesic.metrics import EditDistance
from geodesic.metrics.edit import cheapest_route

SPACE = LevelSpace(6, most_walls=18)
METRIC = EditDistance(SPACE)
X, Y = (SPACE.draw(60, np.random.default_rng(seed)) for seed in (0, 1))


def edits(levels):
    return np.abs(np.diff(levels, axis=0))


def opened(x, y, size):
    """How many walls of both levels are in the way of the start and the goal."""
    common = ((x * y)[MARKS:] > 0).reshape(size, size)
    routes = [cheapest_route(common, x[k : k + 2].astype(int), y[k : k + 2].astype(int)) for k in (0, 2)]
    return len({cell for route in routes for cell in route if common[cell]})


def test_a_path_is_a_sequence_of_edits_through_solvable_levels():
    for x, y in zip(X, Y):
        levels = METRIC.path(x, y)
        np.testing.assert_array_equal(levels[[0, -1]], [x, y])
        assert (edits(levels).sum(axis=1) == 1).all()
        assert np.isfinite(SPACE.solution_steps(levels)).all()


def test_it_is_as_long_as_the_distance_unless_common_walls_are_in_the_way():
    env = Levels()
    metric, hard = env.metric("edit"), env.layouts
    pairs = [(metric, 13, x, y) for x in hard for y in hard] + [(METRIC, 6, x, y) for x, y in zip(X, Y)]
    more = [opened(x, y, size) for _, size, x, y in pairs]
    for (each, _, x, y), k in zip(pairs, more):
        assert len(each.path(x, y)) - 1 == each.pairwise(x[None], y[None]) + 2 * k
    assert not any(more[64:])  # random levels
    assert 0 < np.mean(np.array(more[:64]) > 0) < 0.5  # between two mazes


def test_the_distance_is_the_number_of_differences():
    first, second = parse_levels("S..\n.#.\n..G\n\n..S\n...\n#G.", LevelSpace(3, 3))
    found = EditDistance(LevelSpace(3, 3)).pairwise(first[None], second[None])
    assert found == [[2 + 2 + 1]]  # two walls differ, the start moves by two cells and the goal by one


def test_a_common_wall_in_the_way_is_opened_and_closed_again():
    space = LevelSpace(3, 3)
    x, y = parse_levels("S#.\nG#.\n.#.\n\n.#S\n.#G\n.#.", space)
    levels = EditDistance(space).path(x, y)
    assert len(levels) - 1 == 4 + 2 * 2  # two walls, one for the start and one for the goal
    assert np.isfinite(space.solution_steps(levels)).all()


def test_mass_between_two_levels_is_split():
    x, y = X[:1], Y[:1]
    levels = METRIC.path(x[0], y[0])
    points, fractions = METRIC.interpolate(x, y, 2.25 / (len(levels) - 1))
    np.testing.assert_array_equal(points[0], levels[2:4])
    np.testing.assert_allclose(fractions, [[0.75, 0.25]])
    points, fractions = METRIC.interpolate(x, x, 0.5)
    np.testing.assert_array_equal(points[0], [x[0], x[0]])
    assert fractions.sum() == 1.0


def test_levels_become_evenly_harder_on_the_way_to_the_built_in_target():
    """The solution's length is never far above its even share, and grows in small steps."""
    env = Levels()
    start = env.source(np.random.default_rng(0)).points[0]
    for level in env.layouts:
        steps = env.context_space.solution_steps(env.metric("edit").path(start, level))
        assert np.isfinite(steps).all()
        assert np.diff(steps).max() <= 24
        assert steps[len(steps) // 2] <= 0.75 * steps[-1] + 12


def test_the_geodesic_of_the_built_in_task_has_constant_speed():
    task = gd.tasks.load("levels")
    metric = task.make_metric("edit")
    source = gd.Particles(task.source_particles.points[:20])
    path = gd.Geodesic(source, task.target_particles, metric)
    for a, b in ((0.0, 0.3), (0.3, 0.55), (0.55, 1.0)):
        assert gd.wasserstein(path(a), path(b), metric, 1) == pytest.approx((b - a) * path.length, abs=1e-9)
        assert task.infeasible(path(b)) == 0
        assert task.space.contains(path(b).points).all()


def test_a_level_without_a_solution_has_a_path_too():
    x, y = X[0], np.ones(SPACE.dim)
    y[:MARKS] = (0, 0, 5, 5)
    np.testing.assert_array_equal(METRIC.path(x, y)[-1], y)


def test_another_space_is_refused():
    with pytest.raises(InvalidInput, match="expected space to be LevelSpace"):
        EditDistance(gd.ContextSpace([0.0], [1.0]))
    with pytest.raises(InvalidInput, match="expected levels of dimension 40"):
        METRIC.pairwise(X[:, 1:], Y[:, 1:])
