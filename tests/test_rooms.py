"""The rooms of `python -m benchmarks.studies.rooms` have the ways and walls that they are meant to have."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.studies.rooms import ROOMS, SPEED, RoomEnv, RoomState, task_of

OPEN = [name for name in ROOMS if name != "closed"]


@pytest.mark.parametrize("name", OPEN)
def test_every_target_but_the_closed_rooms_can_be_reached(name):
    task, room = task_of(name), ROOMS[name]
    assert not task.infeasible(task.source_particles)
    assert not task.infeasible(task.target_particles)
    rows = room.oracle.index(np.concatenate([task.source_particles.points, task.target_particles.points]))
    assert np.isfinite(room.oracle.distances[np.ix_(rows[:5], rows[-5:])]).all()
    assert not room.inside(room.places).any()


def test_nothing_behind_a_wall_without_a_door_can_be_reached():
    env = RoomEnv("closed")
    assert not env.is_feasible(env.target(np.random.default_rng(0)).points).any()


def test_a_point_slides_along_a_wall_and_does_not_cross_it():
    env = RoomEnv("door")
    state = RoomState(jnp.array([-0.5, 0.0]), jnp.int32(0))
    for _ in range(5):
        state = env.transition(state, jnp.array([1.0, 0.5]), jax.random.key(0), jnp.zeros(2))
    np.testing.assert_allclose(state.place, [-0.5, 5 * SPEED / 2], rtol=1e-5)
