"""Sparse goal reaching: the corridor around the square, its reachable goals, and the bound on returns."""

import warnings

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from geodesic.envs.plane import crosses_box, path_length_around
from geodesic.envs.sparse_goal import SparseGoal, in_corridor, keep_in_corridor, nearest_in_corridor
from geodesic.tasks import catalogue

MDP = SparseGoal()
KEY = jax.random.key(0)
FAR = jnp.array([9.0, 9.0, 0.05])
quick = jax.jit(keep_in_corridor)


def step(place, action):
    return np.asarray(MDP.transition(jnp.array(place, jnp.float32), jnp.array(action, jnp.float32), KEY, FAR))


@pytest.mark.parametrize(
    ("action", "move"),
    [((1.0, 0.0), (0.3, 0.0)), ((0.3, -0.4), (0.09, -0.12)), ((1.0, 1.0), (0.3 / 2**0.5, 0.3 / 2**0.5))],
)
def test_a_move_is_proportional_to_the_action_and_at_most_3_tenths(action, move):
    np.testing.assert_allclose(step((-6.0, -6.0), action), np.add((-6.0, -6.0), move), atol=1e-6)


@pytest.mark.parametrize(
    ("place", "action", "to"),
    [
        ((-5.1, 0.0), (1.0, 0.0), (-5.0, 0.0)),  # into the square from each side: back to its edge
        ((5.1, 0.0), (-1.0, 0.0), (5.0, 0.0)),
        ((0.0, 5.1), (0.0, -1.0), (0.0, 5.0)),
        ((1.0, -5.1), (0.0, 1.0), (1.0, -5.0)),
        ((-5.0, 1.0), (0.6, 0.8), (-5.0, 1.24)),  # along the edge it slides
        ((-5.1, -5.1), (1.0, 1.0), (-5.0, -5.0)),  # both coordinates enter at a corner
        ((-6.9, 6.9), (-1.0, 1.0), (-7.0, 7.0)),  # the arena's corner
        ((-5.0, 4.95), (0.6, 0.8), (-4.82, 5.19)),  # off the end of an edge
    ],
)
def test_a_step_out_of_the_corridor_is_set_back(place, action, to):
    np.testing.assert_allclose(step(place, action), to, atol=1e-5)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(x=st.floats(-7, 7), y=st.floats(-7, 7), dx=st.floats(-0.3, 0.3), dy=st.floats(-0.3, 0.3))
def test_every_step_ends_in_the_corridor_and_is_no_longer(x, y, dx, dy):
    start = np.float32(nearest_in_corridor(np.array([[x, y]]))[0])
    end = np.asarray(quick(start, start + np.float32([dx, dy])))
    assert in_corridor(end[None])[0]
    assert np.abs(end - start).max() <= 0.3 + 1e-5


def test_starts_are_uniform_in_the_lower_left_corner():
    starts = np.asarray(jax.vmap(lambda key: MDP.initial(key, FAR))(jax.random.split(KEY, 4000)))
    assert (starts >= -7).all()
    assert (starts <= -5).all()
    np.testing.assert_allclose(starts.mean(axis=0), [-6, -6], atol=0.05)
    np.testing.assert_allclose(starts.var(axis=0), 4 / 12, rtol=0.1)


def test_success_ends_it_with_0_and_any_other_step_costs_1():
    near, goal = jnp.array([-6.04, -6.0]), jnp.array([-6.0, -6.0, 0.05])
    away = jnp.array([-6.06, -6.0])
    assert MDP.success(near, goal)
    assert MDP.terminal(near, KEY, goal)
    assert MDP.reward(away, jnp.zeros(2), near, KEY, goal) == 0.0
    assert not MDP.terminal(away, KEY, goal)
    assert MDP.reward(near, jnp.zeros(2), away, KEY, goal) == -1.0


def test_3_tenths_of_the_target_lie_in_the_corridor_and_a_little_more_can_be_reached():
    """Areas: 14^2 - 10^2 of 18^2; within 0.05 of it, bands along 56 and 40 and four rounded corners more."""
    x, y = np.meshgrid(*2 * [np.arange(180) / 10 - 8.95])
    assert in_corridor(np.column_stack([x.ravel(), y.ravel()])).mean() == pytest.approx(96 / 324, abs=1e-9)
    assert round(96 / 324, 3) == 0.296
    reached = (96 + 56 * 0.05 + np.pi * 0.05**2 + 10**2 - 9.9**2) / 324
    goals = np.column_stack([np.random.default_rng(0).uniform(-9, 9, (200_000, 2)), np.full(200_000, 0.05)])
    assert MDP.is_feasible(goals).mean() == pytest.approx(reached, abs=4e-3)
    target = MDP.target(np.random.default_rng(0))
    assert in_corridor(target.points).mean() == pytest.approx(0.296, abs=0.05)


def test_agents_are_evaluated_in_the_corridor():
    task = catalogue.load("sparse-goal")
    assert len(task.evaluation_particles) == 500
    assert in_corridor(task.evaluation_particles.points).all()
    assert task.infeasible(task.evaluation_particles) == 0
    assert task.infeasible(task.target_particles) == pytest.approx(0.69, abs=0.05)
    assert set(task.evaluation_particles.points[:, 2]) == set(task.target_particles.points[:, 2]) == {0.05}


def test_a_wide_tolerance_makes_any_goal_feasible():
    goals = np.array([[0.0, 0.0, 5.1], [0.0, 0.0, 4.9], [9.0, 9.0, 2.9], [9.0, 9.0, 2.8], [0.0, 9.0, 2.1]])
    assert MDP.is_feasible(goals).tolist() == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("goal", "length"),
    [
        ((-6.0, 6.0), 12.0),
        ((6.0, -6.0), 12.0),
        ((6.0, 6.0), 2 * np.hypot(11.0, 1.0)),  # by one corner
        ((5.0, 5.0), 10.0 + np.hypot(11.0, 1.0)),  # along an edge
        ((7.0, 0.0), np.hypot(11.0, 1.0) + np.hypot(2.0, 5.0)),
        ((0.0, 0.0), np.inf),
    ],
)
def test_the_path_around_the_square_has_a_closed_form(goal, length):
    corner = np.full(2, 5.0)
    corners = np.array([(-5.0, -5.0), (-5.0, 5.0), (5.0, -5.0), (5.0, 5.0)])
    way = path_length_around(np.array([[-6.0, -6.0]]), np.array([goal]), -corner, corner, corners)
    assert way[0] == pytest.approx(length)
    assert not crosses_box(np.array([[-5.0, -9.0]]), np.array([[-5.0, 9.0]]), -corner, corner)[0]
    assert crosses_box(np.array([[-9.0, 0.0]]), np.array([[9.0, 0.1]]), -corner, corner)[0]


@pytest.mark.parametrize("goal", [(-6.0, 6.5), (6.5, -5.5), (0.0, 6.0), (6.0, 6.0), (5.0, 0.0), (6.9, 6.9)])
def test_the_shortest_path_meets_the_bound_on_the_return_within_a_few_steps(goal):
    """The point heads for the next corner of its path, from the start nearest to the goal."""
    goal = np.array(goal)
    bound = MDP.best_return(np.array([[*goal, 0.05]]))[0]
    turn = [np.array([-5.0, 5.0])] if goal[1] > goal[0] else [np.array([5.0, -5.0])]
    if max(goal) > 5 > min(goal) and min(goal) < -5:
        turn = []
    place, steps = np.clip(goal, -7.0, -5.0), 0
    for aim in [*turn, goal]:
        near = 0.05 if aim is goal else 1e-3
        while np.linalg.norm(aim - place) >= near:
            place = step(place, (aim - place) / max(0.3, np.linalg.norm(aim - place)))
            steps += 1
            assert steps < 200
    assert bound - 3 <= 1 - steps <= bound


def test_the_bound_is_the_worst_return_off_reach_and_0_for_one_step():
    contexts = np.array([[0.0, 0.0, 0.05], [-6.0, -6.0, 0.05], [9.0, 9.0, 18.0]])
    assert MDP.best_return(contexts).tolist() == [-200.0, 0.0, -5.0]  # 10 * sqrt(2) + 4 * sqrt(2) - 18 is 6 steps


def test_gymnasiums_check_passes_and_the_picture_shows_goal_point_and_walls():
    env = gym.make("geodesic/SparseGoal-v0", render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(env.unwrapped)
    obs, _ = env.reset(seed=0, options={"context": [6.0, 6.0, 0.05]})
    picture = env.render()
    assert picture.shape == (252, 252, 3)
    assert picture[126, 126].tolist() == [90, 90, 90]
    assert picture[126 - 84, 126 + 84].tolist() == [60, 170, 90]
    x, y = (int(126 + side * 14 * value) for side, value in ((1, obs[0]), (-1, obs[1])))
    assert picture[y, x].tolist() == [200, 60, 50]
    assert catalogue.load("sparse-goal").plot.walls == MDP.walls
