"""Sparse rewards without a source: goals in a room, of which only the far corner matters. Easy goals are searched for.

python examples/sparse_goals.py
"""

import gymnasium as gym
import numpy as np

import geodesic as gd


class Room(gym.Env):
    """A point starts in the lower left corner of a room; the episode ends with a reward of 1 when it meets the goal."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    goal = (0.0, 0.0)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1.0, -0.8, 2)
        return self.place.astype(np.float32), {}

    def step(self, action):
        self.place = np.clip(self.place + 0.1 * np.clip(action, -1.0, 1.0), -1.0, 1.0)
        there = bool(np.linalg.norm(self.place - self.goal) < 0.15)
        return self.place.astype(np.float32), float(there), there, False, {"is_success": there}


def make():
    return gym.wrappers.TimeLimit(Room(), 50)


def set_context(env, x, y):
    env.unwrapped.goal = (x, y)


task = gd.Task(
    make,
    contexts={"x": (-1.0, 1.0), "y": (-1.0, 1.0)},
    target={"x": (0.8, 1.0), "y": (0.8, 1.0)},
    set_context=set_context,
    score="success",
)


def main(steps=80_000, out="runs/sparse-goals"):
    result = gd.train(task, steps=steps, out=out)
    print(result.table(), result.verdict(), sep="\n")
    return result


if __name__ == "__main__":
    main()
