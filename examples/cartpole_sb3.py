"""Stable-Baselines3 on CartPole with a short pole and strong gravity, learned from a long pole and weak gravity on."""

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import geodesic as gd


def put(env, length, gravity):  # CartPole keeps a product of the length, so that is set too
    env.length, env.polemass_length, env.gravity = length, env.masspole * length, gravity


task = gd.Task(
    "CartPole-v1",
    contexts={"length": (0.05, 1.0, "m"), "gravity": (2.0, 30.0, "m/s²")},
    source={"length": (0.5, 1.0), "gravity": (5.0, 10.0)},
    target={"length": (0.1, 0.2), "gravity": (20.0, 25.0)},
    threshold=60.0,  # a stage is mastered above this mean return
    apply=put,
)

if __name__ == "__main__":
    model = PPO("MlpPolicy", make_vec_env(task.make, n_envs=8), n_steps=256, batch_size=256)
    model.learn(20_000, callback=gd.sb3.CurriculumCallback(task, "gradient:step=0.25", out="runs/cartpole"))
