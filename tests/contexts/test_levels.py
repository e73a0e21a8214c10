"""Levels: random ones have a solution, its length is exact, and layouts are read as they are drawn."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

import geodesic as gd
from geodesic.contexts.levels import MARKS, LevelSpace, parse_levels, solution
from geodesic.errors import InvalidInput

SPACE = LevelSpace(6, most_walls=18)
LEVELS = SPACE.random(200, np.random.default_rng(0))


def steps_by_dijkstra(level):
    """An independent count of the steps from start to goal."""
    walls = level[MARKS:] > 0
    start, goal = (int(6 * level[place] + level[place + 1]) for place in (0, 2))
    walls[[start, goal]] = False
    near = [(a, b) for a in range(36) for b in (a + 1, a + 6) if b < 36 and (b == a + 6 or b % 6)]
    free = [(a, b) for a, b in near if not walls[a] and not walls[b]]
    i, j = np.array(free or [(0, 0)]).T
    return dijkstra(csr_array((np.ones(len(i)), (i, j)), shape=(36, 36)), directed=False, indices=start)[goal]


def test_the_length_of_a_solution_is_that_of_a_shortest_path():
    steps = SPACE.solution_steps(LEVELS)
    assert np.isinf(steps).any()
    np.testing.assert_array_equal(steps, [steps_by_dijkstra(level) for level in LEVELS])


def test_a_solution_is_a_way_over_free_cells_of_that_length():
    walls, starts, goals = SPACE.split(LEVELS)
    for level, grid, start, goal in zip(LEVELS, walls, starts, goals):
        way = solution(grid, tuple(start), tuple(goal))
        steps = SPACE.solution_steps(level[None])[0]
        assert len(way) == (0 if np.isinf(steps) else steps + 1)
        if way:
            assert (way[0], way[-1]) == (tuple(start), tuple(goal))
            assert (np.abs(np.diff(way, axis=0)).sum(axis=1) == 1).all()
            assert not any(grid[cell] for cell in way)


def test_random_levels_are_in_the_space_and_have_a_solution():
    levels = SPACE.uniform(300, np.random.default_rng(1)).points
    assert SPACE.contains(levels).all()
    assert np.isfinite(SPACE.solution_steps(levels)).all()
    number = levels[:, MARKS:].sum(axis=1)
    assert (number.min(), number.max()) == (0, 18)
    assert (levels[:, :2] != levels[:, 2:MARKS]).any(axis=1).all()
    assert len(np.unique(levels, axis=0)) > 290


def test_the_same_generator_gives_the_same_levels():
    first, second = (SPACE.draw(20, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_wall_below_the_start_or_the_goal_does_not_count():
    level = np.ones((1, SPACE.dim))
    level[0, :MARKS] = (2, 2, 2, 3)
    (walls,), _, _ = SPACE.split(level)
    assert walls.sum() == 34
    assert SPACE.solution_steps(level) == [1.0]


def test_ranges_are_those_of_any_space():
    ranges = dict.fromkeys(SPACE.names, 0) | {"goal_row": 5}
    particles = SPACE.uniform(10, np.random.default_rng(0), ranges)
    assert len(particles) == 1
    assert SPACE.decode(particles.points[0]) == ranges


@pytest.mark.parametrize(("size", "walls"), [(0, 1), (3, 8), (3, 0), ("3", 1)])
def test_invalid_sizes_are_refused(size, walls):
    with pytest.raises(InvalidInput, match="expected (size|most_walls)"):
        LevelSpace(size, walls)


def test_layouts_are_read_as_they_are_drawn():
    space = LevelSpace(3, 3)
    levels = parse_levels("S..\n.#.\n..G\n\n##G\n...\nS..\n", space)
    np.testing.assert_array_equal(levels[0], [0, 0, 2, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(levels[1], [2, 0, 0, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("S..\n...\n...", "expected layouts of 3 lines of 3 .* as level 1"),
        ("S..\n...\n..G\n\nS.G\n...", "as level 2"),
        ("S..\n.x.\n..G", "as level 1"),
        ("", "as level 1"),
        ("S..\n...\n..G\n\nS#.\n##.\n..G", "expected levels with a way to the goal, got none in level 2"),
    ],
)
def test_invalid_layouts_are_refused(text, message):
    with pytest.raises(gd.GeodesicError, match=message):
        parse_levels(text, LevelSpace(3, 3))
