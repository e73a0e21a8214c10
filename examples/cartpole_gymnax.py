"""CartPole of gymnax, compiled together with PPO; the pole's length and gravity are the context.

    python examples/cartpole_gymnax.py                                # train 4 seeds and print the table
    geodesic compare examples/cartpole_gymnax.py:task                 # compare with training on the target

A long pole in weak gravity falls slowly. A short one in strong gravity has to be caught at once.
"""

import geodesic as gd


def set_context(params, length, gravity):  # CartPole also stores a product of the length
    return params.replace(length=length, polemass_length=params.masspole * length, gravity=gravity)


task = gd.Task(
    env=gd.envs.from_gymnax(
        "CartPole-v1",
        contexts={"length": (0.05, 1.0, "m"), "gravity": (2.0, 30.0, "m/s²")},
        set_context=set_context,
    ),
    source={"length": (0.5, 1.0), "gravity": (5.0, 10.0)},
    target={"length": (0.1, 0.2), "gravity": (20.0, 25.0)},
    threshold=150.0,
    worst_return=0.0,
    training=gd.TrainingSettings(steps=100_000, compare=["gradient", "target-only"]),
)

if __name__ == "__main__":
    result = gd.train(task, "gradient:step=0.25", seeds=4, out="runs/cartpole-gymnax")
    print(result.table())
