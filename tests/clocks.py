"""An environment whose episodes last as long as their context says, so that each episode can be identified."""

import gymnasium as gym
import numpy as np

import geodesic as gd


class Clock(gym.Env):
    observation_space = gym.spaces.Box(0.0, 100.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    rings = 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.due = 0, self.rings
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.full(1, self.time, np.float32), 1.0, self.time >= self.due, False, {"time": self.time}


def set_rings(env, rings):
    env.rings = round(rings)


def particles(*values):
    return gd.Particles(np.array(values, float)[:, None])


def task(**more):
    facts = {"source": particles(2, 3), "target": particles(5), "threshold": 1.0, "set_context": set_rings, **more}
    return gd.Task(Clock, {"rings": (1.0, 9.0)}, **facts)
