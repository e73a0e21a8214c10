"""A problem with known answers: an episode lasts as long as its context says and earns 1 a step."""

import gymnasium as gym
import jax.numpy as jnp
import numpy as np

import geodesic as gd


class Steady(gd.ContextualMDP):
    """Context (length, luck): `length` steps, a success where luck is more than a half. Actions do nothing."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)
    max_steps = 50

    def initial(self, rng, context):
        return jnp.float32(0)

    def transition(self, state, action, rng, context):
        return state + 1

    def observation(self, state, rng, context):
        return jnp.stack([state, context[0]])

    def reward(self, state, action, next_state, rng, context):
        return jnp.float32(1)

    def terminal(self, state, rng, context):
        return state >= context[0]

    def success(self, state, context):
        return context[1] > 0.5


class Restless(Steady):
    """The last of the actions costs a bit: now what is earned tells what the agent did."""

    def reward(self, state, action, next_state, rng, context):
        return 1 - 0.125 * (action == 2)


LEARNER = gd.PPO(n_envs=2, rollout=25, batch_size=50, epochs=1, net=(8,))


def steady(env=None, **options):
    """Segments of 100 steps; an evaluation every 200; two steps of the curriculum."""
    stated = {
        "env": Steady() if env is None else env,
        "contexts": {"length": (1.0, 20.0), "luck": (0.0, 1.0)},
        "source": {"length": 4.0, "luck": 1.0},
        "target": {"length": 8.0, "luck": 1.0},
        "threshold": 2.0,
        "learner": LEARNER,
        "segment": 2,
        "eval_every": 2,
        "eval_episodes": 4,
        "methods": {"gradient": {"step": 0.5, "window": 5}},
        "steps": 600,
    }
    return gd.Task(**{**stated, **options})


def restless(**options):
    """Contexts and returns that are another run's for every seed."""
    ranges = {"source": {"length": (3.0, 5.0), "luck": 1.0}, "target": {"length": (6.0, 8.0), "luck": 1.0}}
    return steady(Restless(), **{**ranges, **options})


task = restless()
endless = restless(segment=10**6, steps=10**9, eval_every=1)
