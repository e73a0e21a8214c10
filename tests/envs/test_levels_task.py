"""Levels: moves, what the agent sees, rewards and ends; source, target and pictures."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import geodesic as gd
from geodesic.envs.levels import Levels

ENV = Levels()
KEY = jax.random.key(0)
NORTH, SOUTH, WEST, EAST = range(4)
SPIRAL = ENV.layouts[0].astype(np.float32)  # start in the top left, a wall below it


def level(start, goal, *walls):
    context = np.zeros(ENV.context_space.dim, np.float32)
    context[:4] = (*start, *goal)
    for row, column in walls:
        context[4 + 13 * row + column] = 1
    return context


def walk(context, actions):
    state = ENV.initial(KEY, context)
    for action in actions:
        state = ENV.transition(state, jnp.int32(action), KEY, context)
    return state


@pytest.mark.parametrize(
    ("actions", "cell"),
    [([EAST], (0, 1)), ([SOUTH], (0, 0)), ([NORTH], (0, 0)), ([WEST], (0, 0)), ([EAST] * 12 + [SOUTH] * 2, (2, 12))],
)
def test_walls_and_the_border_stop_the_agent(actions, cell):
    assert tuple(np.asarray(walk(SPIRAL, actions).cell)) == cell


def test_the_agent_sees_walls_visits_and_where_the_goal_is():
    context = level((6, 6), (9, 4), (5, 6), (6, 8))
    state = walk(context, [WEST, EAST])
    walls, visits, away = np.split(np.asarray(ENV.observation(state, KEY, context)), [25, 50])
    assert set(np.flatnonzero(walls)) == {5 * 1 + 2, 5 * 2 + 4}
    assert {place: visits[place] for place in np.flatnonzero(visits)} == pytest.approx({11: 1 / 2, 12: 2 / 3})
    np.testing.assert_allclose(away, [3 / 12, -2 / 12])


def test_beyond_the_border_are_walls_without_visits():
    walls, visits, _ = np.split(np.asarray(ENV.observation(walk(SPIRAL, []), KEY, SPIRAL)), [25, 50])
    grid = walls.reshape(5, 5)
    assert grid[:2].all()
    assert grid[:, :2].all()
    np.testing.assert_array_equal(grid[2:, 2:], [[0, 0, 0], [1, 1, 1], [0, 0, 0]])
    assert visits.sum() == 0.5


@pytest.mark.parametrize(("steps", "reward"), [(1, 1 - 0.9 / 200), (3, 1 - 2.7 / 200)])
def test_the_goal_ends_the_episode_and_pays_more_the_earlier(steps, reward):
    context = level((4, 4), (4, 5))
    before = walk(context, [WEST, EAST][: steps - 1])
    after = ENV.transition(before, jnp.int32(EAST), KEY, context)
    assert float(ENV.reward(before, EAST, after, KEY, context)) == pytest.approx(reward)
    assert bool(ENV.terminal(after, KEY, context))
    assert bool(ENV.success(after, context))
    assert float(ENV.reward(before, EAST, before, KEY, context)) == 0
    assert not bool(ENV.terminal(before, KEY, context))


def test_walls_below_start_and_goal_do_not_count():
    context = level((4, 4), (4, 5), (4, 4), (4, 5))
    assert bool(ENV.terminal(walk(context, [EAST]), KEY, context))


def test_the_source_is_easy_and_the_target_hard_and_both_have_solutions():
    space = ENV.context_space
    source = ENV.source(np.random.default_rng(0)).points
    assert len(source) == 100
    assert space.solution_steps(source).max() <= 3
    assert source[:, 4:].sum(axis=1).max() <= 10
    steps = space.solution_steps(ENV.layouts)
    assert np.isfinite(steps).all()
    assert (steps.min(), steps.max(), len(steps)) == (27, 96, 8)
    assert steps.max() < ENV.max_steps / 2
    random = space.solution_steps(space.draw(1000, np.random.default_rng(0)))
    assert np.median(random) < 12 < steps.min()


def test_the_best_return_is_what_the_shortest_way_earns():
    contexts = np.stack([level((4, 4), (4, 6)), level((0, 0), (2, 2), (0, 1), (1, 0))])
    np.testing.assert_allclose(ENV.best_return(contexts), [1 - 0.9 * 2 / 200, 0.0])
    np.testing.assert_array_equal(ENV.is_feasible(contexts), [True, False])


def test_other_levels_are_a_target_too(tmp_path):
    text = "\n".join(["S" + 12 * ".", *["." * 13] * 11, 12 * "." + "G"])
    (tmp_path / "mine.txt").write_text(text)
    task = gd.tasks.load(f"levels:layout={tmp_path / 'mine.txt'}")
    assert len(task.target_particles) == 1
    with pytest.raises(gd.GeodesicError, match="expected layouts of 13 lines"):
        Levels(layout="S.\n.G")


def test_it_is_a_gymnasium_environment():
    check_env(gym.make("geodesic/Levels-v0").unwrapped, skip_render_check=True)
    env = gym.make("geodesic/Levels-v0", render_mode="rgb_array").unwrapped
    env.reset(seed=0, options={"context": SPIRAL})
    picture = env.render()
    assert picture.shape == (208, 208, 3)
    red, dark = tuple(picture[8, 8]), tuple(picture[16 + 8, 8])
    assert red == (214, 69, 65)
    assert dark == (45, 45, 55)
    env.step(EAST)
    assert tuple(env.render()[8, 16 + 8]) == red
    np.testing.assert_array_equal(ENV.picture(SPIRAL), picture)


def test_an_agent_that_follows_the_shortest_way_earns_the_best_return():
    from geodesic.contexts.levels import solution

    (walls,), (start,), (goal,) = ENV.context_space.split(SPIRAL[None])
    way = solution(walls, tuple(start), tuple(goal))
    moves = {(-1, 0): NORTH, (1, 0): SOUTH, (0, -1): WEST, (0, 1): EAST}
    actions = [moves[tuple(int(each) for each in step)] for step in np.diff(way, axis=0)]
    before, after = walk(SPIRAL, actions[:-1]), walk(SPIRAL, actions)
    assert bool(ENV.success(after, SPIRAL))
    assert not bool(ENV.success(before, SPIRAL))
    reward = float(ENV.reward(before, actions[-1], after, KEY, SPIRAL))
    assert reward == pytest.approx(ENV.best_return(SPIRAL[None])[0])
