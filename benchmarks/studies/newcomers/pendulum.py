"""gymnax's Pendulum; gravity is the context.

In weak gravity the motor lifts the pendulum at once. In the standard one (10) it has to swing it up.
"""

import geodesic as gd

task = gd.Task(
    env=gd.envs.from_gymnax("Pendulum-v1", contexts={"g": (1.0, 15.0, "m/s²")}),
    source={"g": (1.0, 3.0)},
    target={"g": (9.0, 11.0)},
    threshold=-300.0,  # hanging down costs about 10 per step, for 200 steps
    worst_return=-3300.0,
    training=gd.TrainingSettings(steps=400_000),
    name="pendulum",
)
