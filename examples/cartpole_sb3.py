"""Stable-Baselines3 on CartPole: from a long pole in weak gravity to a short pole in strong gravity."""

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

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

if __name__ == "__main__":
    model = PPO("MlpPolicy", make_vec_env(task.make, n_envs=8), n_steps=256, batch_size=256)
    model.learn(20_000, callback=gd.sb3.CurriculumCallback(task, "gradient:step=0.25", out="runs/cartpole"))
