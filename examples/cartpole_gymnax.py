"""An environment of gymnax: CartPole, with the pole's length and gravity as the context, compiled together with PPO.

    python examples/cartpole_gymnax.py                                # train 4 seeds, show the table
    geodesic compare examples/cartpole_gymnax.py:task                 # with and without a curriculum

A long pole in weak gravity falls slowly. A short one in strong gravity has to be caught at once.
"""

import geodesic as gd


def put(params, length, gravity):  # CartPole keeps a product of the length, so that is set too
    return params.replace(length=length, polemass_length=params.masspole * length, gravity=gravity)


task = gd.Task(
    env=gd.envs.from_gymnax(
        "CartPole-v1", contexts={"length": (0.05, 1.0, "m"), "gravity": (2.0, 30.0, "m/s²")}, apply=put
    ),
    source={"length": (0.5, 1.0), "gravity": (5.0, 10.0)},
    target={"length": (0.1, 0.2), "gravity": (20.0, 25.0)},
    threshold=150.0,
    worst_return=0.0,
    steps=100_000,
    compare=("gradient", "target-only"),
)

if __name__ == "__main__":
    result = gd.train(task, "gradient:step=0.25", seeds=4, out="runs/cartpole-gymnax")
    print(result.table())
