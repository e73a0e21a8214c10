"""An integer context: the number of obstacles on a field that the agent has to cross.

python examples/obstacles.py
"""

import gymnasium as gym
import numpy as np

import geodesic as gd

SIZE = 9
MOVES = ((0, 1), (0, -1), (1, 0), (-1, 0))


class Field(gym.Env):
    """A field with obstacles at random places. The agent sees the cells around it and has to cross the field."""

    observation_space = gym.spaces.Box(0.0, 1.0, (27,), np.float32)  # 5 x 5 cells, and where the agent is
    action_space = gym.spaces.Discrete(4)
    obstacles = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.blocked = np.ones((SIZE + 4, SIZE + 4), np.float32)  # with a border
        self.blocked[2:-2, 2:-2] = 0.0
        inside = self.np_random.permutation(SIZE * (SIZE - 2))[: self.obstacles]  # none in the first and last column
        self.blocked[2 + inside // (SIZE - 2), 3 + inside % (SIZE - 2)] = 1.0
        self.row, self.column = int(self.np_random.integers(SIZE)), 0
        return self._seen(), {}

    def step(self, action):
        row, column = self.row + MOVES[action][0], self.column + MOVES[action][1]
        hit = bool(self.blocked[row + 2, column + 2])
        if not hit:
            self.row, self.column = row, column
        done = self.column == SIZE - 1
        return self._seen(), -0.2 * hit - 0.02 + done, done, False, {"is_success": done}

    def _seen(self):
        around = self.blocked[self.row : self.row + 5, self.column : self.column + 5]
        return np.append(around, [self.row / SIZE, self.column / SIZE]).astype(np.float32)


def make():
    return gym.wrappers.TimeLimit(Field(), 40)


def set_context(env, obstacles):
    env.unwrapped.obstacles = obstacles


task = gd.Task(
    make,
    contexts={"obstacles": range(25)},
    source={"obstacles": (0, 2)},
    target={"obstacles": (18, 24)},
    set_context=set_context,
    score="success",
)


def main(steps=150_000, out="runs/obstacles"):
    result = gd.train(task, steps=steps, out=out)
    print(result.table(), result.verdict(), sep="\n")
    return result


if __name__ == "__main__":
    main()
