"""UnlockPickup steps and looks as MiniGrid's own environment does, in the benchmark's contexts."""

import jax
import numpy as np

from extras import needs_minigrid
from geodesic.envs.unlock_pickup import UnlockPickup

EPISODES, STEPS = 60, 100
CHANCES = (0.15, 0.15, 0.3, 0.15, 0.08, 0.14, 0.03)  # of the seven actions

pytestmark = needs_minigrid


def reference():
    """MiniGrid's environment, which starts where `begin(context, direction, colours)` says."""
    from minigrid.core.constants import IDX_TO_COLOR
    from minigrid.core.roomgrid import RoomGrid
    from minigrid.core.world_object import Box, Door, Key
    from minigrid.envs.unlockpickup import UnlockPickupEnv

    class Reference(UnlockPickupEnv):
        start = None

        def _gen_grid(self, *size):
            if self.start is None:
                super()._gen_grid(*size)
                return
            RoomGrid._gen_grid(self, *size)
            (ax, ay, kx, ky, bx, by, door_y, opened), direction, (locks, paint) = self.start
            self.obj, self.key = Box(IDX_TO_COLOR[paint]), Key(IDX_TO_COLOR[locks])
            self.grid.set(bx, by, self.obj)
            self.grid.set(5, door_y, Door(IDX_TO_COLOR[locks], is_open=bool(opened), is_locked=not opened))
            if (ax, ay) != (kx, ky):
                self.grid.set(kx, ky, self.key)
            self.agent_pos, self.agent_dir, self.mission = (ax, ay), direction, ""

        def begin(self, context, direction, colours):
            self.start = [int(value) for value in context], direction, [int(value) for value in colours]
            self.reset()
            self.carrying = self.key if tuple(context[:2]) == tuple(context[2:4]) else None
            return self.gen_obs()["image"].ravel()

    return Reference()


def chosen_contexts(mdp, rng):
    """A third of them next to the box, a third with the key in the doorway, a third anywhere."""
    everywhere = mdp.context_space.support
    pools = mdp.source(rng).points, everywhere[everywhere[:, 2] == 5], everywhere
    return [pool[rng.integers(len(pool))] for _ in range(EPISODES // 3) for pool in pools]


def test_every_step_observation_and_reward_is_minigrids():
    mdp, env, rng = UnlockPickup("codes"), reference(), np.random.default_rng(0)
    step = jax.jit(lambda state, action, context: mdp.transition(state, action, None, context))
    look = jax.jit(lambda state, context: mdp.observation(state, None, context))
    successes = 0
    for seed, context in enumerate(chosen_contexts(mdp, rng)):
        given = context.astype(np.float32)
        state = mdp.initial(jax.random.key(seed), given)
        first = env.begin(context, int(state.direction), np.asarray(state.colours))
        np.testing.assert_array_equal(look(state, given), first)
        for action in rng.choice(len(CHANCES), STEPS, p=CHANCES):
            before, state = state, step(state, action, given)
            obs, reward, terminated, _, _ = env.step(action)
            assert float(mdp.reward(before, action, state, None, given)) == (reward > 0)
            assert bool(mdp.terminal(state, None, given)) == terminated
            if terminated:
                successes += 1
                break
            np.testing.assert_array_equal(look(state, given), obs["image"].ravel())
    assert successes > 5
