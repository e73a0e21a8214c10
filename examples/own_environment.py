"""A Gymnasium environment with nothing to guess: no source, no threshold, the default method.

    python examples/own_environment.py                                            # one run
    geodesic compare examples/own_environment.py:task --methods auto,target-only,uniform --seeds 5

In strong gravity the car has to swing before it can climb, which random actions hardly ever discover.
"""

import geodesic as gd


def set_context(env, gravity):
    env.gravity = gravity


task = gd.Task(
    "MountainCar-v0", {"gravity": (0.0, 0.003)}, target={"gravity": (0.0024, 0.0026)}, set_context=set_context
)

if __name__ == "__main__":
    result = gd.train(task, steps=200_000, out="runs/mountain-car")
    print(result.table(), result.verdict(), result.report(), sep="\n")
