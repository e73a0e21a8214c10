"""Contexts of every kind: a number, a category and an integer.

    python examples/mixed_contexts.py
    geodesic plan examples/mixed_contexts.py:task      # what the curriculum would train on

CartPole in strong gravity, in a wind, with actions that take effect some steps later.
"""

import gymnasium as gym

import geodesic as gd

WINDS = ["none", "steady", "gusts"]


class Weather(gym.Wrapper):
    """A wind that turns the pole, and a delay of the actions."""

    wind, delay = "none", 0

    def reset(self, **options):
        self.waiting = [0, 1] * 4
        return super().reset(**options)

    def step(self, action):
        self.waiting.append(action)
        push = {"none": 0.0, "steady": 0.01, "gusts": self.np_random.normal(scale=0.05)}[self.wind]
        x, speed, angle, turn = self.unwrapped.state
        self.unwrapped.state = (x, speed, angle, turn + push)
        return super().step(self.waiting[-1 - self.delay])


def make(**options):
    return Weather(gym.make("CartPole-v1", **options))


def set_context(env, gravity, wind, delay):  # a float, one of WINDS, and an integer
    env.unwrapped.gravity, env.wind, env.delay = gravity, wind, delay


task = gd.Task(
    make,
    contexts={"gravity": (5.0, 30.0, "m/s²"), "wind": WINDS, "delay": range(4)},
    source={"gravity": (5.0, 10.0), "wind": "none", "delay": 0},
    target={"gravity": (15.0, 20.0), "wind": ["steady", "gusts"], "delay": (2, 3)},
    set_context=set_context,
)

if __name__ == "__main__":
    env = task.make()
    obs, info = env.reset(seed=0, options={"context": {"gravity": 18.0, "wind": "gusts", "delay": 2}})
    print(info["context"], task.space.decode(info["context"]))
    print(obs[-5:])  # gravity and delay scaled to [-1, 1], between them the wind as one-hot
    result = gd.train(task, steps=100_000, out="runs/mixed")
    print(result.table(), result.verdict(), result.report(), sep="\n")
