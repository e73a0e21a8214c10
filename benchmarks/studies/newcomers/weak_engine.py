"""gymnax's MountainCarContinuous; the power of the engine is the context.

A strong engine drives straight up the hill. A weak one has to swing, which costs fuel before it earns anything.
"""

import geodesic as gd

task = gd.Task(
    env=gd.envs.from_gymnax("MountainCarContinuous-v0", contexts={"power": (0.0005, 0.005)}),
    source={"power": (0.003, 0.004)},
    target={"power": (0.001, 0.0015)},  # the standard one has 0.0015
    threshold=70.0,  # 100 for the flag, less the fuel
    worst_return=-99.9,
    training=gd.TrainingSettings(steps=300_000),
    name="weak-engine",
)
