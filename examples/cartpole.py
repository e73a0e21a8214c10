"""CartPole with the pole's length and gravity as the context; other examples import this task."""

import geodesic as gd


def set_context(env, length, gravity):  # CartPole also stores a product of the length
    env.length, env.polemass_length, env.gravity = length, env.masspole * length, gravity


task = gd.Task(
    "CartPole-v1",
    contexts={"length": (0.05, 1.0, "m"), "gravity": (2.0, 30.0, "m/s²")},
    source={"length": (0.5, 1.0), "gravity": (5.0, 10.0)},
    target={"length": (0.1, 0.2), "gravity": (20.0, 25.0)},
    threshold=60.0,  # a stage is mastered above this mean return
    set_context=set_context,
)
