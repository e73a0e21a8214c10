"""E-Maze: chances, reward and end, the exact optimum, and its four distances."""

import warnings

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from scipy.sparse.csgraph import shortest_path

import geodesic as gd
from geodesic.envs.maze import EMaze, EMazeState
from geodesic.metrics import ReturnGap
from geodesic.tasks import catalogue

MAZE = EMaze()
RNG = np.random.default_rng(0)
NORTH, SOUTH, WEST, EAST = range(4)
STEP = 0.9 / (1 + np.exp(-5.0))  # chance of a move on the flat


def at(row, column):
    return EMazeState(jnp.int32(20 * row + column), jnp.bool_(False))


def moved(state, action, goal, n=4000):
    keys = jax.random.split(jax.random.key(0), n)
    context = jnp.asarray(goal, jnp.float32)
    return jax.vmap(lambda key: MAZE.transition(state, action, key, context))(keys)


def test_the_walls_are_where_the_benchmark_has_them():
    rows, columns = np.nonzero(MAZE.heights)
    assert len(rows) == 128
    assert set(rows) == set(range(16))
    assert set(columns) == {4, 5, 6, 7, 12, 13, 14, 15}
    assert set(MAZE.heights[rows, columns]) == {200.0}


@pytest.mark.parametrize(
    ("row", "column", "action", "to"),
    [(0, 0, SOUTH, 20), (0, 1, WEST, 0), (18, 5, EAST, 366), (3, 5, EAST, 66), (19, 19, NORTH, 379)],
)
def test_a_move_on_the_flat_succeeds_in_894_of_1000_tries(row, column, action, to):
    assert round(STEP, 3) == 0.894
    assert MAZE.chance[20 * row + column, action] == pytest.approx(STEP)
    after = np.asarray(moved(at(row, column), action, (19, 0)).cell)
    assert set(after) == {20 * row + column, to}
    assert (after == to).mean() == pytest.approx(STEP, abs=0.02)


@pytest.mark.parametrize(("row", "column", "action"), [(0, 3, EAST), (0, 4, WEST), (15, 6, SOUTH), (16, 6, NORTH)])
def test_no_move_crosses_the_edge_of_a_wall(row, column, action):
    assert MAZE.chance[20 * row + column, action] < 1e-80
    assert set(np.asarray(moved(at(row, column), action, (19, 0)).cell)) == {20 * row + column}


@pytest.mark.parametrize(("row", "column", "action"), [(0, 0, NORTH), (0, 0, WEST), (19, 19, SOUTH), (19, 19, EAST)])
def test_a_move_over_the_border_stays(row, column, action):
    assert set(np.asarray(moved(at(row, column), action, (10, 0)).cell)) == {20 * row + column}


def test_any_action_in_the_goals_cell_earns_1_and_ends_it():
    key, goal = jax.random.key(0), jnp.array([2.0, 1.0])
    for action in range(4):
        here = at(2, 1)
        after = MAZE.transition(here, action, key, goal)
        assert MAZE.reward(here, action, after, key, goal) == 1.0
        assert MAZE.terminal(after, key, goal)
        assert MAZE.success(after, goal)
        assert after.cell == here.cell
    entering = MAZE.transition(at(1, 1), SOUTH, jax.random.key(1), goal)
    assert entering.cell == 41  # it has arrived, but has not acted there
    assert MAZE.reward(at(1, 1), SOUTH, entering, key, goal) == 0.0
    assert not MAZE.terminal(entering, key, goal)


def test_observations_are_the_centres_of_goal_and_cell():
    seen = MAZE.observation(at(0, 19), jax.random.key(0), jnp.array([19.0, 0.0]))
    np.testing.assert_allclose(seen, [-0.95, 0.95, 0.95, -0.95], atol=1e-6)


def test_source_and_target_are_the_benchmarks():
    for particles, cells in (
        (MAZE.source(RNG), [0, 1, 2, 20, 21, 22, 40, 41, 42]),
        (MAZE.target(RNG), [9, 10, 11, 29, 30, 31, 49, 50, 51]),
    ):
        assert np.flatnonzero(particles.weights).tolist() == cells
        assert particles.weights.max() == pytest.approx(1 / 9)


def test_the_optimum_is_631_on_the_target_and_978_on_the_source():
    assert MAZE.target(RNG).weights @ MAZE.optimal_returns == pytest.approx(0.631, abs=5e-4)
    assert MAZE.source(RNG).weights @ MAZE.optimal_returns == pytest.approx(0.978, abs=5e-4)


def test_value_iteration_gives_the_closed_form_of_n_moves():
    """A move takes a geometric time T, of which E[0.99^T] = 0.99 p / (1 - 0.99 (1 - p))."""
    flat = np.flatnonzero(MAZE.heights.ravel() == 0)
    graph = np.zeros((400, 400))
    for row in flat:
        graph[row, [cell for cell in MAZE.next_cell[row] if cell in flat]] = 1
    steps = shortest_path(graph, unweighted=True)[0, flat]
    each = 0.99 * STEP / (1 - 0.99 * (1 - STEP))
    np.testing.assert_allclose(MAZE.optimal_returns[flat], each**steps, atol=1e-6)
    assert (np.delete(MAZE.optimal_returns, flat) < 1e-60).all()
    np.testing.assert_array_equal(MAZE.is_feasible(MAZE.cells.astype(float)), MAZE.heights.ravel() == 0)


def test_following_the_walls_earns_the_optimum():
    """Down, across and up to the middle of the target, 41 moves, in many episodes at once."""
    goal, n = jnp.array([1.0, 10.0]), 2000
    table = np.full((20, 20), NORTH)
    table[:16, :4], table[16:, :10], table[16:, 11:] = SOUTH, EAST, WEST
    policy = jnp.asarray(table.ravel())

    def play(key):
        def step(carry, key):
            state, total, weight = carry
            after = MAZE.transition(state, policy[state.cell], key, goal)
            reward = MAZE.reward(state, policy[state.cell], after, key, goal)
            return (after, total + weight * reward, weight * 0.99), None

        start = (MAZE.initial(key, goal), jnp.float32(0), jnp.float32(1))
        return jax.lax.scan(step, start, jax.random.split(key, 150))[0][1]

    earned = np.asarray(jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(0), n)))
    assert earned.mean() == pytest.approx(MAZE.optimal_returns[30], abs=5 * earned.std() / np.sqrt(n))


def test_graph_paths_lead_around_the_wall_and_straight_lines_cross_it():
    spacing = 2 / 19
    start, neighbour, across = np.array([[0.0, 3.0], [1.0, 3.0], [0.0, 8.0]])[:, None]
    graph, lines = MAZE.metric("graph"), MAZE.metric("l2")
    assert graph.pairwise(start, neighbour)[0, 0] == pytest.approx(spacing)
    assert graph.pairwise(start, across)[0, 0] == pytest.approx((16 + 5 + 16) * spacing)
    assert lines.pairwise(start, across)[0, 0] == pytest.approx(5 * spacing)
    wall = np.array([[0.0, 4.0]])
    assert graph.pairwise(start, wall)[0, 0] == pytest.approx(200 + spacing)
    assert lines.pairwise(start, wall)[0, 0] == pytest.approx(np.hypot(200, spacing))


def test_on_the_graph_the_geodesic_avoids_walls():
    source, target = MAZE.source(RNG), MAZE.target(RNG)
    path = gd.Geodesic(source, target, MAZE.metric("graph"))
    halfway = path(0.5)
    assert halfway.weights @ (MAZE.heights.ravel()[MAZE.context_space.index(halfway.points)] > 0) == 0
    assert halfway.weights @ halfway.points[:, 0] > 13  # at the bottom of the maze, where no straight line leads
    straight = gd.Geodesic(source, target, MAZE.metric("l2"))(0.5)
    assert straight.weights @ straight.points[:, 0] == pytest.approx(1.0)


def test_return_distances_are_differences_of_returns():
    optimal = MAZE.metric("optimal-returns")
    np.testing.assert_allclose(optimal.distances[0], 1 - MAZE.optimal_returns, atol=1e-9)
    learned = MAZE.metric("policy-returns")
    assert isinstance(learned, ReturnGap)
    unseen = learned.fit(gd.EpisodeBatch.empty(2), RNG)
    assert gd.Geodesic(MAZE.source(RNG), MAZE.target(RNG), unseen).length == 0
    contexts = MAZE.context_space.draw(150, RNG)
    returns = np.maximum(0, 1 - 0.05 * contexts.sum(axis=1))
    fitted = learned.fit(gd.EpisodeBatch(contexts, returns, np.ones(150), np.zeros(150)), RNG)
    truth = np.maximum(0, 1 - 0.05 * MAZE.cells.sum(axis=1))
    np.testing.assert_allclose(fitted.distances[0], np.abs(truth - truth[0]), atol=0.1)
    np.testing.assert_allclose(
        fitted.distances[0, 5], abs(np.diff(fitted.returns(MAZE.cells[[0, 5]].astype(float)))[0])
    )


def test_a_return_gap_needs_a_discrete_space():
    with pytest.raises(gd.GeodesicError, match="expected a discrete context space, got a box; try ReturnLift"):
        ReturnGap(gd.ContextSpace([0.0], [1.0]), 0.0)


def test_gymnasiums_check_passes_and_the_picture_shows_goal_and_agent():
    env = gym.make("geodesic/EMaze-v0", render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(env.unwrapped)
    env.reset(seed=0, options={"context": [5.0, 18.0]})
    picture = env.render()
    assert picture.shape == (240, 240, 3)
    assert picture[66, 222].tolist() == [38, 166, 91]
    assert picture[6, 6].tolist() == [214, 69, 65]
    assert picture[6, 66].tolist() == [45, 45, 55]


def test_the_task_draws_its_walls_and_its_start():
    task = catalogue.load("e-maze")
    assert task.plot.cells.sum() == 128
    assert (task.plot.goals, task.plot.star) == (((0.0, 0.0),), "start")
    assert task.metric_names == ("graph", "l2", "optimal-returns", "policy-returns")
