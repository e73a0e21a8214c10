"""gymnax's Acrobot; the masses of its two links are the context.

The motor's torque stays the same, so that heavy links need more swings. Each step costs 1 until the tip is high enough.
"""

import geodesic as gd

task = gd.Task(
    env=gd.envs.from_gymnax("Acrobot-v1", contexts={"link_mass_1": (0.2, 2.0, "kg"), "link_mass_2": (0.2, 2.0, "kg")}),
    source={"link_mass_1": (0.3, 0.5), "link_mass_2": (0.3, 0.5)},
    target={"link_mass_1": (1.5, 2.0), "link_mass_2": (1.5, 2.0)},
    threshold=-200.0,
    worst_return=-500.0,
    training=gd.TrainingSettings(steps=300_000),
    name="acrobot",
)
