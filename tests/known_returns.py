"""A problem with known returns: an episode lasts as long as its context says and earns 1 per step."""

import gymnasium as gym
import jax.numpy as jnp
import numpy as np

import geodesic as gd


class KnownReturns(gd.ContextualMDP):
    """Context (length, luck): an episode of `length` steps, a success if luck is above a half. Actions do nothing."""

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


class ActionCost(KnownReturns):
    """The last action has a cost, so returns depend on the agent."""

    def reward(self, state, action, next_state, rng, context):
        return 1 - 0.125 * (action == 2)


LEARNER = gd.PPO(n_envs=2, rollout=25, batch_size=50, epochs=1, net=(8,))


def known_returns(env=None, evaluation=None, training=None, **options):
    """A task with segments of 100 steps, an evaluation every 200, and two steps of the curriculum."""
    given = {
        "env": KnownReturns() if env is None else env,
        "contexts": {"length": (1.0, 20.0), "luck": (0.0, 1.0)},
        "source": {"length": 4.0, "luck": 1.0},
        "target": {"length": 8.0, "luck": 1.0},
        "threshold": 2.0,
        "evaluation": gd.EvaluationSettings(**{"every": 2, "episodes": 4, **(evaluation or {})}),
        "training": gd.TrainingSettings(
            **{
                "learner": LEARNER,
                "segment": 2,
                "methods": {"gradient": {"step": 0.5, "window": 5}},
                "steps": 600,
                **(training or {}),
            }
        ),
    }
    return gd.Task(**{**given, **options})


def varied_returns(**options):
    """The same with contexts and returns that differ between seeds."""
    ranges = {"source": {"length": (3.0, 5.0), "luck": 1.0}, "target": {"length": (6.0, 8.0), "luck": 1.0}}
    return known_returns(ActionCost(), **{**ranges, **options})


task = varied_returns()
endless = varied_returns(training={"segment": 10**6, "steps": 10**9}, evaluation={"every": 1})
