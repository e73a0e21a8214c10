"""U-Maze: walls hold, the shortest path around them is known, and no policy beats the bound on its return."""

from __future__ import annotations

import warnings

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import example, given, settings
from hypothesis import strategies as st

from geodesic import envs
from geodesic.envs.u_maze import UMaze, UMazeState, move, nearest_free, path_length
from geodesic.errors import InvalidInput

ENV = UMaze()
MOVE = jax.jit(jax.vmap(move))
STEP = jax.jit(jax.vmap(ENV.transition, in_axes=(0, 0, None)))
KEY = jax.random.key(0)


def states(points: np.ndarray, headings: np.ndarray) -> UMazeState:
    zero = jnp.zeros(len(points))
    return UMazeState(*jnp.asarray(points, jnp.float32).T, jnp.asarray(headings, jnp.float32), zero, zero, zero, zero)


def free(points: np.ndarray) -> np.ndarray:
    """An independent test in double precision: strictly off each wall."""
    x, y = points.T
    inside = (np.abs(x - 4) < 5.6) & (np.abs(y - 4) < 5.6)
    return inside & ~((x <= 6.4) & (y >= 1.6) & (y <= 6.4))


def clear(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """No point of the path lies in a wall, up to single precision: 2001 points on a path of at most 1."""
    fractions = np.linspace(0, 1, 2001)[:, None, None]
    x, y = np.moveaxis(starts + fractions * (ends - starts), -1, 0)
    return ~((x < 6.4 - 1e-5) & (y > 1.6 + 1e-5) & (y < 6.4 - 1e-5)).any(axis=0)


places = st.tuples(st.floats(-1.59, 9.59), st.floats(-1.59, 9.59)).filter(
    lambda p: bool(free(np.array([p], np.float32).astype(float))[0])
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(place=places, heading=st.floats(-3.1415, 3.1415), forward=st.sampled_from([-1.0, -0.4, 0.7, 1.0]))
@example(place=(6.0, 1.2), heading=np.pi / 4, forward=1.0)  # onto the wall's corner
@example(place=(9.5, 9.5), heading=np.pi / 4, forward=1.0)  # into the arena's corner
def test_no_move_crosses_a_wall(place: tuple[float, float], heading: float, forward: float) -> None:
    start = np.array([place], np.float32).astype(float)
    after = STEP(states(start, np.array([heading])), jnp.array([[forward, 0.0]]), KEY)
    end = np.stack([after.x, after.y], axis=1).astype(float)
    assert free(end).all()
    assert clear(start, end).all()
    assert np.linalg.norm(end - start) <= 1 + 1e-5


def test_no_move_crosses_a_wall_in_a_long_random_drive() -> None:
    rng = np.random.default_rng(0)
    points = np.zeros((4000, 2))
    headings = rng.uniform(-np.pi, np.pi, 4000)
    for _ in range(60):
        state = states(points, headings)
        following = STEP(state, jnp.asarray(np.c_[np.ones(4000), rng.uniform(-0.25, 0.25, 4000)]), KEY)
        ends = np.stack([following.x, following.y], axis=1).astype(float)
        assert free(ends).all()
        points, headings = ends, np.asarray(following.heading)
    assert (points[:, 1] > 6.4).any(), "some should have passed around the wall"


@pytest.mark.parametrize(
    ("start", "end", "rest"),
    [
        ((0.0, 0.0), (0.6, 0.8), (0.6, 0.8)),
        ((0.0, 1.2), (0.0, 2.2), (0.0, 1.6 - 0.8 * 0.6)),  # straight onto the wall
        ((0.0, 1.2), (0.6, 2.0), (0.3 + 0.8 * 0.3, 1.6 - 0.8 * 0.4)),  # at a slant
        ((9.2, 4.0), (10.2, 4.0), (9.6 - 0.8 * 0.6, 4.0)),
        ((9.5, 9.5), (10.2, 10.2), (9.5, 9.5)),  # a corner: reflected at one side, it crosses the other
        ((6.8, 1.2), (6.0, 1.8), (6.8 - 1.6 / 3 - 0.8 * 0.8 / 3, 1.6 - 0.8 * 0.2)),  # past the corner
    ],
)
def test_moves_are_reflected_with_coefficient_0_8(start: tuple, end: tuple, rest: tuple) -> None:
    got = MOVE(jnp.array([start]), jnp.array([end]))[0]
    np.testing.assert_allclose(got, rest, atol=2e-6)


def test_headings_turn_first_and_stay_in_half_turns() -> None:
    state = states(np.array([[0.0, 0.0]]), np.array([np.pi - 0.1]))
    after = STEP(state, jnp.array([[0.5, 0.25]]), KEY)
    np.testing.assert_allclose(after.heading, -np.pi + 0.15, atol=1e-6)
    np.testing.assert_allclose([after.x[0], after.y[0]], [-0.5 * np.cos(0.15), -0.5 * np.sin(0.15)], atol=1e-6)


def test_observation_reward_and_end() -> None:
    goal = jnp.array([1.5, 0.0])
    state = ENV.initial(KEY, goal)
    following = ENV.transition(state, jnp.array([1.0, 0.0]), KEY, goal)
    np.testing.assert_allclose(ENV.observation(following, KEY, goal), [1, 0, 0, 0, 0, 0, 0.001, 1.5, 0], atol=1e-7)
    assert float(ENV.reward(state, None, state, KEY, goal)) == pytest.approx(-0.01)
    assert not ENV.terminal(state, KEY, goal)
    assert float(ENV.reward(state, None, following, KEY, goal)) == 1.0
    assert ENV.terminal(following, KEY, goal)


def test_feasible_goals_are_those_within_reach_of_a_free_position() -> None:
    goals = np.array([[0, 0], [0, 8], [0, 4], [0, 2.19], [0, 2.21], [5.81, 4], [5.79, 4], [-2, -2], [10, 10]])
    assert ENV.is_feasible(goals).tolist() == [True, True, False, True, False, True, False, True, True]


def test_shortest_paths_turn_at_the_corners() -> None:
    here = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [7.0, 0.0], [0.0, 0.0]])
    there = np.array([[3.0, -1.0], [8.0, 4.0], [0.0, 8.0], [7.0, 8.0], [0.0, 4.0]])
    low, high = np.hypot(6.4, 1.6), np.hypot(6.4, 1.6)
    expected = [np.hypot(3, 1), low + np.hypot(1.6, 2.4), low + 4.8 + high, 8.0, np.inf]
    np.testing.assert_allclose(path_length(here, there), expected)
    np.testing.assert_allclose(path_length(there, here), expected)


def test_shortest_paths_agree_with_a_fine_grid() -> None:
    """Dijkstra on a grid with 16 directions is at most 2.7 % too long, never too short."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    side = np.linspace(-1.55, 9.55, 112)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    index = np.arange(len(grid)).reshape(112, 112)
    rows, cols, lengths = [], [], []
    for dx, dy in [(1, 0), (0, 1), (1, 1), (1, -1), (1, 2), (2, 1), (1, -2), (2, -1)]:
        a = index[: 112 - dx, max(0, -dy) : 112 - max(0, dy)].ravel()
        b = index[dx:, max(0, dy) : 112 + min(0, dy)].ravel()
        keep = free(grid[a]) & free(grid[b]) & free((grid[a] + grid[b]) / 2)
        rows, cols = [*rows, a[keep]], [*cols, b[keep]]
        lengths.append(np.full(keep.sum(), 0.1 * np.hypot(dx, dy)))
    graph = coo_array((np.concatenate(lengths), (np.concatenate(rows), np.concatenate(cols))), shape=(len(grid),) * 2)
    start = int(np.linalg.norm(grid, axis=1).argmin())
    ways = dijkstra(graph.tocsr(), directed=False, indices=start)
    reachable = free(grid)
    exact = path_length(np.broadcast_to(grid[start], grid.shape), grid)
    assert np.isfinite(ways[reachable]).all()
    assert (ways[reachable] >= exact[reachable] - 1e-6).all()
    assert (ways[reachable] <= 1.03 * exact[reachable] + 0.2).all()


def test_no_drive_beats_the_bound_on_its_return() -> None:
    rng = np.random.default_rng(1)
    n = 3000
    goals = rng.uniform(-2, 10, (n, 2))
    bound = ENV.best_return(goals)
    points, headings, won = np.zeros((n, 2)), np.zeros(n), np.full(n, np.nan)
    drift = rng.uniform(-0.25, 0.25, n)
    for step in range(100):
        turns = np.clip(drift + rng.uniform(-0.1, 0.1, n), -0.25, 0.25)
        after = STEP(states(points, headings), jnp.asarray(np.c_[np.ones(n), turns]), KEY)
        points, headings = np.stack([after.x, after.y], axis=1).astype(float), np.asarray(after.heading)
        new = (np.linalg.norm(points - goals, axis=1) <= 0.6) & np.isnan(won)
        won[new] = 1 - 0.01 * step
    reached = ~np.isnan(won)
    assert reached.sum() > 300
    assert ENV.is_feasible(goals[reached]).all()
    assert (won[reached] <= bound[reached] + 1e-9).all()
    assert (bound[~ENV.is_feasible(goals)] == -1).all()


def test_straight_paths_meet_the_bound() -> None:
    np.testing.assert_allclose(
        ENV.best_return(np.array([[0.0, 0.0], [1.6, 0.0], [1.7, 0.0], [5.5, 0.0]])), [1, 1, 0.99, 0.96]
    )


def test_source_and_target_are_as_stated() -> None:
    rng = np.random.default_rng(0)
    source, target = ENV.source(rng), ENV.target(rng)
    assert len(source) == len(target) == 100
    assert np.abs(source.mean() - [0, 0]).max() < 0.4
    assert np.abs(target.mean() - [0, 8]).max() < 0.4
    wide = np.concatenate([ENV.target(np.random.default_rng(seed)).points for seed in range(100)])
    assert 0.005 < 1 - ENV.is_feasible(wide).mean() < 0.025


def test_nearest_free_position() -> None:
    got = nearest_free(np.array([[0.0, 2.0], [6.0, 4.0], [0.0, 6.0], [-2.0, 10.0], [8.0, 4.0]]))
    np.testing.assert_allclose(got, [[0, 1.6], [6.4, 4], [0, 6.4], [-1.6, 9.6], [8, 4]])


def test_gymnasium_accepts_it_and_an_episode_ends_at_its_goal() -> None:
    envs.register()
    env = gym.make("geodesic/UMaze-v0", render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
    obs, info = env.reset(seed=0, options={"context": [2.0, 0.0]})
    np.testing.assert_array_equal(obs[-2:], [2, 0])
    env.step(np.array([1, 0], np.float32))
    *_, reward, terminated, truncated, info = env.step(np.array([1, 0], np.float32))
    assert (reward, terminated, truncated, info["is_success"]) == (1.0, True, False, True)


def test_time_limit_gives_the_worst_return() -> None:
    env = envs.make_gymnasium("u-maze")
    env.reset(seed=0, options={"context": [0.0, 8.0]})
    rewards, truncated = [], False
    while not truncated:
        _, reward, terminated, truncated, _ = env.step(np.array([0.0, 0.0], np.float32))
        rewards.append(reward)
    assert not terminated
    assert len(rewards) == 100
    assert sum(rewards) == pytest.approx(ENV.worst_return)


def test_image_shows_walls_goal_and_point() -> None:
    picture = ENV.image(
        states(np.array([[0.0, 0.0]]), np.array([0.0]))._replace(
            x=np.float32(0), y=np.float32(0), heading=np.float32(0)
        ),
        np.array([8.0, 8.0]),
    )
    assert picture.shape == (240, 240, 3)

    def at(x: float, y: float) -> list[int]:
        return picture[int((10.5 - y) / 13 * 240), int((x + 2.5) / 13 * 240)].tolist()

    assert at(0, 4) == [90, 90, 90]
    assert at(8, 4) == [255, 255, 255]
    assert at(8, 8) == [60, 170, 90]
    assert at(-0.2, 0) == [200, 60, 50]
    assert at(0.6, 0) == [20, 20, 20]


def test_goal_noise_moves_the_goal_of_each_episode_and_the_agent_sees_it() -> None:
    noisy, goal = UMaze(goal_noise=0.1), jnp.array([3.0, 0.0])
    starts = jax.vmap(noisy.initial, in_axes=(0, None))(jax.random.split(KEY, 4000), goal)
    seen = np.asarray(jax.vmap(noisy.observation, in_axes=(0, None, None))(starts, KEY, goal))[:, 7:]
    np.testing.assert_allclose(seen.mean(axis=0), goal, atol=0.01)
    np.testing.assert_allclose(seen.std(axis=0), 0.1, atol=0.005)
    there = starts._replace(x=jnp.asarray(seen[:, 0]) + 0.59, y=jnp.asarray(seen[:, 1]))
    assert bool(jax.vmap(noisy.success, in_axes=(0, None))(there, goal).all())
    at_edge = starts._replace(x=jnp.full(4000, 3.59), y=jnp.zeros(4000))
    assert 0.4 < float(jax.vmap(noisy.success, in_axes=(0, None))(at_edge, goal).mean()) < 0.6


def test_without_goal_noise_the_state_has_no_offset() -> None:
    state = ENV.initial(KEY, jnp.zeros(2))
    assert state.offset == ()
    assert jax.tree.leaves(state) == jax.tree.leaves(state[:7])


@pytest.mark.parametrize("noise", [-0.1, float("nan"), "much"])
def test_invalid_goal_noise_is_refused(noise: object) -> None:
    with pytest.raises(InvalidInput, match="goal_noise"):
        UMaze(goal_noise=noise)  # type: ignore[arg-type]
