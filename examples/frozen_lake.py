"""A graph: start cells of FrozenLake, with the number of moves around the holes as the distance between two of them.

python examples/frozen_lake.py
geodesic plan examples/frozen_lake.py:task      # from the cells next to the goal back to the corner
"""

import gymnasium as gym
import numpy as np

import geodesic as gd

MAP = ["SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"]
CELLS = np.array([(r, c) for r in range(8) for c in range(8) if MAP[r][c] in "SF"], dtype=float)
EDGES = np.argwhere(np.triu(np.abs(CELLS[:, None] - CELLS).sum(axis=2) == 1))  # pairs of neighbouring cells


class OneHot(gym.ObservationWrapper):
    """FrozenLake numbers its cells; a network needs a vector."""

    observation_space = gym.spaces.Box(0.0, 1.0, (64,), np.float32)

    def observation(self, observation):
        return np.eye(64, dtype=np.float32)[observation]


def make(**options):
    return OneHot(gym.make("FrozenLake-v1", desc=MAP, is_slippery=False, max_episode_steps=60, **options))


def set_context(env, row, column):
    env.unwrapped.initial_state_distrib = np.eye(64)[int(8 * row + column)]


task = gd.Task(
    make,
    contexts=gd.ContextSpace.discrete(CELLS, names=["row", "column"]),
    source=gd.Particles([[7.0, 6.0], [6.0, 7.0]]),
    target=gd.Particles([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]),
    threshold=0.5,  # of the episodes' returns, which are 1 at the goal and 0 elsewhere
    set_context=set_context,
    metrics={"moves": gd.metrics.Graph(CELLS, EDGES)},
)


def main(steps=60_000, out="runs/frozen-lake"):
    result = gd.train(task, steps=steps, out=out)
    print(result.table(), result.verdict(), sep="\n")
    return result


if __name__ == "__main__":
    main()
