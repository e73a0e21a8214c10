"""gymnax's SpaceInvaders of MinAtar; how often the aliens move and shoot is the context.

Each of the 24 aliens of a wave earns 1. The agent sees the whole board as 600 numbers.
"""

import geodesic as gd

task = gd.Task(
    env=gd.envs.from_gymnax(
        "SpaceInvaders-MinAtar", contexts={"enemy_move_interval": (4, 20), "enemy_shot_interval": (4, 30)}
    ),
    source={"enemy_move_interval": (16, 20), "enemy_shot_interval": (24, 30)},  # slow and seldom
    target={"enemy_move_interval": (6, 8), "enemy_shot_interval": (5, 7)},  # the standard game has 12 and 10
    threshold=12.0,  # half a wave
    worst_return=0.0,
    training=gd.TrainingSettings(steps=300_000),
    name="invaders",
)
