"""Maze: the layout's facts, the moves, and its Gymnasium side."""

import gymnasium as gym
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import geodesic as gd
from geodesic.envs.maze import MOVES, FourRooms, Maze
from geodesic.errors import InvalidInput
from geodesic.tasks.catalogue import table


@pytest.fixture(scope="module")
def maze():
    return Maze()


def test_the_layout_is_the_specified_one(maze):
    assert maze.grid.shape == (11, 11)
    assert len(maze.cells) == 52
    assert len(maze.starts) == 51
    assert maze.goal.tolist() == [5, 6]
    target = maze.target(np.random.default_rng(0))
    held = maze.start_distance[target.weights > 0]
    assert sorted(held) == [13, 13, 14]
    assert held.max() == maze.start_distance.max()
    source = maze.source(np.random.default_rng(0))
    assert set(maze.start_distance[source.weights > 0]) == {1, 2}


def test_moves_go_where_the_grid_says(maze):
    """The table against a walk on the grid, cell by cell."""
    for i, cell in enumerate(maze.cells):
        for action, move in enumerate(MOVES):
            expected = cell + move if maze.grid[tuple(cell + move)] != 1 else cell
            np.testing.assert_array_equal(maze.cells[maze.next_cell[i, action]], expected)


def test_distances_satisfy_the_bellman_equation(maze):
    after = maze.distance[maze.next_cell].min(axis=1)
    assert maze.distance[maze.goal_index] == 0
    moving = np.arange(52) != maze.goal_index
    np.testing.assert_array_equal(maze.distance[moving], 1 + after[moving])


def test_following_the_shortest_path_returns_minus_its_length():
    env = gym.make("geodesic/Maze-v0").unwrapped
    maze = env.mdp
    for start, length in zip(maze.starts[::5], maze.start_distance[::5]):
        env.reset(seed=0, options={"context": start})
        total, ended = 0.0, False
        while not ended:
            best = maze.distance[maze.next_cell[int(env._state)]].argmin()
            _, reward, ended, truncated, info = env.step(best)
            total += reward
        assert (total, truncated, info["is_success"]) == (-length, False, True)


def test_an_episode_is_truncated_after_100_steps():
    env = gym.make("geodesic/Maze-v0").unwrapped
    env.reset(seed=0, options={"context": [1, 1]})
    steps = [env.step(0) for _ in range(100)]
    assert [step[3] for step in steps] == [False] * 99 + [True]
    assert not steps[-1][2]


def test_the_observation_shows_agent_goal_and_walls(maze):
    env = gym.make("geodesic/Maze-v0")
    obs, info = env.reset(seed=0, options={"context": [9, 1]})
    grid = obs.reshape(11, 11)
    assert info["context"].tolist() == [9, 1]
    assert grid[9, 1] == 2
    assert grid[5, 6] == 3
    assert (grid == 1).sum() == 121 - 52


def test_gymnasium_accepts_it_and_it_renders():
    env = gym.make("geodesic/Maze-v0", render_mode="rgb_array")
    check_env(env.unwrapped, skip_render_check=False)
    env.reset(seed=1)
    picture = env.render()
    assert picture.shape == (264, 264, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) == 4


def test_contexts_come_from_the_distribution_that_was_set():
    env = gym.make("geodesic/Maze-v0").unwrapped
    env.set_distribution(gd.Particles([[9.0, 1.0], [9.0, 9.0]]))
    drawn = {tuple(env.reset(seed=seed)[1]["context"]) for seed in range(20)}
    assert drawn == {(9.0, 1.0), (9.0, 9.0)}
    with pytest.raises(InvalidInput, match=r"expected distribution inside its support, got \[0.0, 0.0\]"):
        env.set_distribution(gd.Particles([[0.0, 0.0]]))
    with pytest.raises(InvalidInput, match=r"expected context inside its support, got \[0.0, 0.0\]"):
        env.reset(options={"context": [0, 0]})
    with pytest.raises(InvalidInput, match="expected an action in Discrete"):
        env.step(7)


def test_the_metrics_order_starts_as_the_steps_do(maze):
    steps = maze.metric("graph").distances
    assert steps.max() >= maze.start_distance.max()
    near, far = maze.start_distance[:, None], maze.start_distance
    contextual = maze.metric("contextual").distances
    np.testing.assert_allclose(contextual, np.abs(near - far) + 0.1 * steps)
    assert (contextual[~np.eye(51, dtype=bool)] > 0).all()


def test_geodesics_of_every_metric_stay_on_the_cells(maze):
    rng = np.random.default_rng(0)
    for name in table("maze")["metrics"]:
        path = gd.Geodesic(maze.source(rng), maze.target(rng), maze.metric(name))
        for alpha in (0.13, 0.37, 0.5, 0.9):
            maze.context_space.check(path(alpha).points)


def test_the_geodesic_passes_through_intermediate_difficulty(maze):
    rng = np.random.default_rng(0)
    source, target = maze.source(rng), maze.target(rng)
    halfway = gd.Geodesic(source, target, maze.metric("contextual"))(0.5)
    levels = maze.start_distance[halfway.weights > 1e-12]
    assert levels.min() >= 5
    assert levels.max() <= 10
    assert abs(halfway.weights @ maze.start_distance - 0.5 * (1.5 + 40 / 3)) < 0.2


def test_other_layouts_and_broken_ones():
    small = Maze("#####\n#..G#\n#...#\n#####")
    assert len(small.starts) == 5
    assert small.best_return(np.array([[2.0, 1.0]])).tolist() == [-3.0]
    for layout, message in [
        ("####\n#.G#\n#####", "expected a layout of equally long lines of '#', '.' and one 'G'"),
        ("#####\n#...#\n#####", "expected one goal and at least 3 free cells, got 0 goals"),
        ("#####\n..G.#\n#####", "expected a layout with walls all around"),
        ("#######\n#..G#.#\n#######", "expected every free cell to reach the goal, got a cut-off cell at (1, 5)"),
    ]:
        with pytest.raises(InvalidInput) as caught:
            Maze(layout)
        assert str(caught.value) == message


def test_a_file_of_one_line_is_neither_shown_nor_taken_for_a_path(tmp_path):
    """Somebody else's configuration may name any file, and messages end up on the page of a report."""
    (tmp_path / "layout.txt").write_text("#####\n#.G.#\n#####")
    (tmp_path / "path.txt").write_text(str(tmp_path / "layout.txt"))
    (tmp_path / "secret.txt").write_text("password=1234")
    for name in ("path.txt", "secret.txt"):
        with pytest.raises(InvalidInput, match="expected several lines, got one") as error:
            gd.tasks.load(f"maze:layout={tmp_path / name}")
        assert "password" not in str(error.value)


def test_a_layout_may_be_a_file(tmp_path):
    file = tmp_path / "small.txt"
    file.write_text("\n#####\n#..G#\n#...#\n#####\n")
    np.testing.assert_array_equal(Maze(str(file)).grid, Maze("#####\n#..G#\n#...#\n#####").grid)
    with pytest.raises(InvalidInput) as caught:
        Maze("nowhere.txt")
    assert str(caught.value) == (
        "expected a layout as a string, or a file that holds one, got 'nowhere.txt': "
        "cannot read it: No such file or directory"
    )


def test_its_functions_can_be_mapped(maze):
    contexts = np.asarray(maze.starts, np.float32)
    states = jax.vmap(maze.initial, (None, 0))(jax.random.PRNGKey(0), contexts)
    np.testing.assert_array_equal(maze.cells[np.asarray(states)], maze.starts)


def test_the_four_rooms():
    rooms = FourRooms()
    assert rooms.grid.shape == (13, 13)
    assert len(rooms.cells) == 104  # of Sutton, Precup and Singh
    target = rooms.target(np.random.default_rng(0))
    assert sorted(rooms.start_distance[target.weights > 0]) == [19, 19, 20]
    assert rooms.start_distance.max() == 20
    assert rooms.goal.tolist() == [11, 11]
    assert gd.tasks.load("four-rooms").reachable() == pytest.approx(-58 / 3)
