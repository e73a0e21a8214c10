"""UnlockPickup: the rules of MiniGrid, what the agent sees, the benchmark's contexts and their distance."""

import warnings
from itertools import pairwise

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import geodesic as gd
from geodesic.envs.unlock_pickup import (
    ABSENT,
    BOX,
    CLOSED,
    DOOR,
    DROP,
    EMPTY,
    FORWARD,
    INCOMPARABLE,
    KEY,
    LEFT,
    LOCKED,
    OPEN,
    PICKUP,
    RIGHT,
    TOGGLE,
    UNSEEN,
    WALL,
    UnlockPickup,
)
from geodesic.tasks import load
from geodesic.tasks.methods import build, resolve

MDP = UnlockPickup()
CODES = UnlockPickup("codes")
METRIC = MDP.steps_between
DONE = 6  # an action without effect
START = np.array([1, 2, 2, 2, 7, 3, 3, 0], np.float32)  # agent, key, box, door_y, door_open
SOLUTION = [PICKUP, FORWARD, RIGHT, FORWARD, LEFT, FORWARD, FORWARD, TOGGLE]  # fetch the key and open the door,
SOLUTION += [RIGHT, DROP, LEFT, FORWARD, FORWARD, PICKUP]  # drop it, pick up the box
advance = jax.jit(lambda state, action, context: MDP.transition(state, action, None, context))
first = jax.jit(MDP.initial)
look = jax.jit(lambda state, context: CODES.observation(state, None, context))


def begin(context, direction=0, seed=0):
    return first(jax.random.key(seed), np.asarray(context, np.float32))._replace(direction=jnp.int32(direction))


def play(context, actions, direction=0):
    states = [begin(context, direction)]
    for action in actions:
        states.append(advance(states[-1], action, np.asarray(context, np.float32)))
    return states


def picture(state, context):
    """What the agent sees: kind, colour and state of each cell, rows from far to near."""
    return np.asarray(look(state, np.asarray(context, np.float32))).reshape(7, 7, 3).transpose(1, 0, 2)


def test_fetching_the_key_opening_the_door_and_picking_up_the_box_earns_1_and_ends_it():
    states = play(START, SOLUTION)
    doors = [int(state.door) for state in states]
    assert doors == 8 * [LOCKED] + 7 * [OPEN]
    rewards = [float(MDP.reward(a, None, b, None, START)) for a, b in pairwise(states)]
    assert rewards == [0.0] * 13 + [1.0]
    assert [bool(MDP.terminal(state, None, START)) for state in states] == [False] * 14 + [True]
    assert bool(MDP.success(states[-1], START))


def test_a_locked_door_needs_the_key_and_an_open_one_can_be_closed():
    at_door = [4, 3, 1, 1, 7, 3, 3, 0]
    assert [int(state.door) for state in play(at_door, [TOGGLE, FORWARD])] == [LOCKED] * 3
    with_key = [4, 3, 4, 3, 7, 3, 3, 0]
    states = play(with_key, [TOGGLE, TOGGLE, TOGGLE, FORWARD])
    assert [int(state.door) for state in states] == [LOCKED, OPEN, CLOSED, OPEN, OPEN]
    assert states[-1].agent.tolist() == [5, 3]
    assert play(with_key, [TOGGLE, TOGGLE, FORWARD])[-1].agent.tolist() == [4, 3]  # a closed door stops it


def test_hands_hold_one_thing_and_it_is_dropped_on_free_cells_only():
    with_key = [6, 3, 6, 3, 7, 3, 3, 1]
    states = play(with_key, [PICKUP, DROP, LEFT, DROP, RIGHT, PICKUP])
    assert [bool(state.carrying) for state in states] == [True, True, True, True, False, False, False]
    assert [bool(state.done) for state in states] == [False] * 6 + [True]
    assert states[4].key.tolist() == [6, 2]
    facing_door = play([4, 3, 4, 3, 7, 3, 3, 1], [DROP])[-1]
    assert bool(facing_door.carrying)


def test_walls_objects_and_useless_actions_do_not_move_the_agent():
    assert play([1, 1, 2, 1, 7, 3, 3, 0], [FORWARD, DONE, LEFT, FORWARD])[-1].agent.tolist() == [1, 1]
    assert play([1, 1, 3, 3, 7, 3, 3, 0], [LEFT, LEFT, LEFT, FORWARD])[-1].agent.tolist() == [1, 2]


def test_opening_the_box_destroys_it():
    states = play([6, 3, 1, 1, 7, 3, 3, 1], [TOGGLE, PICKUP, FORWARD])
    assert not bool(states[1].box)
    assert not bool(states[-1].done)
    assert states[-1].agent.tolist() == [7, 3]


def test_a_key_in_the_doorway_takes_the_place_of_the_door():
    state = begin([4, 3, 5, 3, 7, 3, 3, 1])
    assert int(state.door) == ABSENT
    assert play([4, 3, 5, 3, 7, 3, 3, 1], [PICKUP, TOGGLE, FORWARD])[-1].agent.tolist() == [5, 3]
    assert int(begin([5, 3, 5, 3, 7, 3, 3, 1]).door) == OPEN  # carried by an agent in the doorway


def test_the_agent_sees_what_is_in_front_of_it_but_not_through_walls_and_doors():
    seen = picture(begin([2, 2, 3, 2, 7, 3, 2, 0]), [2, 2, 3, 2, 7, 3, 2, 0])[..., 0]
    assert seen[6, 3] == EMPTY  # the agent's own cell
    assert seen[5, 3] == KEY
    assert seen[3, 3] == DOOR
    assert (seen[:3] == UNSEEN).all()
    assert seen[6].tolist() == [UNSEEN, WALL, EMPTY, EMPTY, EMPTY, EMPTY, WALL]
    away = picture(begin([2, 2, 3, 2, 7, 3, 2, 0], direction=2), [2, 2, 3, 2, 7, 3, 2, 0])[..., 0]
    assert not np.isin(away, (KEY, DOOR, BOX)).any()


def test_an_open_door_can_be_seen_through_and_what_is_carried_is_seen():
    context = [4, 2, 4, 2, 8, 2, 2, 1]
    state = begin(context)
    seen = picture(state, context)
    assert seen[6, 3].tolist() == [KEY, int(state.colours[0]), 0]
    assert seen[5, 3].tolist() == [DOOR, int(state.colours[0]), OPEN]
    assert seen[2, 3].tolist() == [BOX, int(state.colours[1]), 0]
    assert picture(begin([4, 2, 1, 1, 8, 2, 2, 0]), [4, 2, 1, 1, 8, 2, 2, 0])[5, 3].tolist()[2] == LOCKED


def test_one_hot_observations_tell_the_same_kinds():
    rng = np.random.default_rng(0)
    for context in MDP.context_space.draw(20, rng):
        state = begin(context, int(rng.integers(4)))
        kinds = picture(state, context).transpose(1, 0, 2).reshape(-1, 3)
        order = {UNSEEN: 0, EMPTY: 1, WALL: 2, DOOR: 3, KEY: 6, BOX: 7}
        expected = [order[kind] + (status if kind == DOOR else 0) for kind, _, status in kinds.astype(int)]
        hot = np.asarray(MDP.observation(state, None, context.astype(np.float32))).reshape(49, 8)
        np.testing.assert_array_equal(hot.argmax(axis=1), expected)
        assert (hot.sum(axis=1) == 1).all()


def test_contexts_are_those_of_the_benchmark():
    contexts = MDP.context_space.support
    assert contexts.shape == (81_920, 8)
    assert len(np.unique(contexts, axis=0)) == 81_920
    closed = contexts[:, 7] == 0
    assert closed.sum() == 64 * 256
    assert (contexts[closed][:, [0, 2]] <= 4).all()
    assert not (contexts[:, :2] == contexts[:, 4:6]).all(axis=1).any()
    assert not (contexts[:, 2:4] == contexts[:, 4:6]).all(axis=1).any()


def test_the_source_has_each_door_and_box_once_and_is_solved_in_a_few_steps():
    points = MDP.source(np.random.default_rng(0)).points
    assert len(np.unique(points[:, 4:7], axis=0)) == len(points) == 64
    assert (np.abs(points[:, :2] - points[:, 4:6]).sum(axis=1) == 1).all()  # next to the box
    assert (points[:, 7] == 1).all()
    MDP.context_space.check(points)


def test_the_target_is_a_part_of_all_contexts_with_a_locked_door():
    rng = np.random.default_rng(0)
    target, every = MDP.target(rng), MDP.evaluation(rng)
    assert len(every) == 64 * 240
    assert len(target) == 64 * 32
    _, counts = np.unique(target.points[:, 4:7], axis=0, return_counts=True)
    assert (counts == 32).all()
    assert {tuple(point) for point in target.points} <= {tuple(point) for point in every.points}
    task = load("unlock-pickup")
    assert len(task.evaluation_particles) == len(every)


@pytest.mark.parametrize(
    ("one", "other", "steps"),
    [
        ([1, 1, 3, 3, 7, 2, 2, 0], [4, 2, 3, 3, 7, 2, 2, 0], 4),  # the key stays: only the agent walks
        ([1, 1, 1, 3, 7, 2, 2, 0], [4, 1, 4, 4, 7, 2, 2, 0], 2 + 4 + 3),  # to the key, with it, and back
        ([6, 1, 2, 2, 7, 2, 3, 1], [2, 2, 2, 2, 7, 2, 3, 1], 4 + 2 + 1),  # through the door
        ([5, 3, 1, 1, 7, 2, 3, 1], [6, 3, 1, 1, 7, 2, 3, 1], 1),  # the doorway is part of the right room
        ([4, 3, 4, 3, 7, 2, 3, 0], [4, 3, 4, 3, 7, 2, 3, 1], 1),  # open the door
        ([1, 3, 2, 3, 7, 2, 3, 0], [5, 3, 4, 3, 7, 2, 3, 1], 1 + 2 + 1 + 1),  # fetch the key, open it, walk
        ([1, 1, 3, 3, 7, 2, 2, 0], [1, 1, 3, 3, 9, 4, 2, 0], 4),  # the box is elsewhere
        ([1, 1, 3, 3, 7, 2, 2, 0], [1, 1, 3, 3, 7, 2, 1, 0], INCOMPARABLE),
    ],
)
def test_distances_are_the_steps_of_agent_key_and_box(one, other, steps):
    for pair in ((one, other), (other, one)):
        assert METRIC.pairwise(*(np.array([each], float) for each in pair)) == [[steps]]


def test_the_distance_is_a_metric():
    rng = np.random.default_rng(0)
    space = MDP.context_space.support
    points = space[rng.choice(np.flatnonzero(space[:, 6] == 2), 150)]
    distances = METRIC.pairwise(points, points)
    np.testing.assert_array_equal(distances, distances.T)
    assert (np.diagonal(distances) == 0).all()
    assert (distances[:, :, None] <= distances[:, None] + distances[None].swapaxes(1, 2)).all()


def test_paths_stay_among_contexts_at_constant_speed_up_to_a_step():
    rng = np.random.default_rng(0)
    start = np.repeat(MDP.source(rng).points, 2, axis=0)
    end = MDP.target(rng).points.reshape(64, 32, 8)[:, :2].reshape(-1, 8)
    end[::7, 4:6] = np.where(end[::7, 4:6] == [9, 4], [6, 1], [9, 4])  # the box moves, too
    end = MDP.context_space.clip(end)
    order = np.lexsort(start[:, [5, 4, 6]].T), np.lexsort(end[:, [5, 4, 6]].T)
    start, end = start[order[0]], end[order[1]]
    end[:, 6] = start[:, 6]
    whole = np.diagonal(METRIC.pairwise(start, end))
    for t in (0.0, 0.25, 0.5, 0.9, 1.0):
        points, fractions = METRIC.interpolate(start, end, t)
        middle = points[:, 0]
        MDP.context_space.check(middle)
        assert (fractions == 1).all()
        behind = np.diagonal(METRIC.pairwise(start, middle))
        ahead = np.diagonal(METRIC.pairwise(middle, end))
        assert np.abs(behind - t * whole).max() <= 1.5
        assert np.abs(ahead - (1 - t) * whole).max() <= 1.5


def test_gradient_leads_from_the_box_to_the_locked_door():
    task = load("unlock-pickup")
    geodesic = gd.Geodesic(task.source_particles, task.target_particles, task.make_metric())
    early, late = geodesic(0.1), geodesic(0.9)
    assert (early.points[:, 7] == 1).all()
    assert (late.points[:, 7] == 0).mean() > 0.5
    assert 11 < geodesic.length < 13  # steps, on average


def test_currot_follows_the_distance_and_never_changes_the_door():
    task = load("unlock-pickup")
    method = build(task, *resolve(task, "currot:n_particles=64:episodes_per_update=20"), threshold=task.threshold)
    rng = np.random.default_rng(0)
    state = method.init(rng)
    doors = np.bincount(state.particles[:, 6].astype(int))
    for _ in range(12):
        contexts = state.distribution.sample(rng, 40)
        scores = np.where(rng.random(40) < 0.9, 0.8, 0.0)
        stages = np.full(40, state.stage)
        episodes = gd.EpisodeBatch(contexts, scores, np.full(40, 20), stages, discounted=scores)
        before, state = state.particles, method.update(state, episodes, rng)
        task.space.check(state.particles)
        np.testing.assert_array_equal(np.bincount(state.particles[:, 6].astype(int)), doors)
        assert len(before) == len(state.particles)
    assert state.alpha > 0.7


def test_other_contexts_are_refused():
    for wrong in ([5, 1, 1, 1, 7, 2, 3, 1], [7, 2, 1, 1, 8, 2, 3, 0], [0, 1, 1, 1, 7, 2, 3, 1]):
        with pytest.raises(gd.GeodesicError, match="expected contexts of UnlockPickup, got"):
            METRIC.pairwise(np.array([wrong], float), np.array([START], float))
    with pytest.raises(gd.GeodesicError, match="expected observation to be one of one-hot, codes"):
        UnlockPickup("pixels")


def test_gymnasiums_checker_finds_nothing():
    for options in ({}, {"observation": "codes"}):
        env = gym.make("geodesic/UnlockPickup-v0", render_mode="rgb_array", **options)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_env(env.unwrapped)


def test_it_is_drawn_with_every_thing_in_its_place():
    context = np.array([2, 2, 3, 3, 7, 2, 3, 0], np.float32)
    state = begin(context)
    image = MDP.image(jax.device_get(state), context)
    assert image.shape == (6 * 24, 11 * 24, 3)
    tiles = image.reshape(6, 24, 11, 24, 3).swapaxes(1, 2)
    drawn = (tiles != 255).any(axis=(2, 3, 4))
    assert np.argwhere(drawn[1:5, 1:5]).tolist() == [[1, 1], [2, 2]]
    assert np.argwhere(drawn[1:5, 6:10]).tolist() == [[1, 1]]
    assert (tiles[0, 0] == (45, 45, 55)).all()
