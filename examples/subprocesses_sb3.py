"""Sixteen environments in separate processes; each draws from a new distribution from its next reset on."""

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv, VecNormalize

import geodesic as gd
from cartpole import task


def main(steps=200_000, out="runs/sixteen", workers=16):
    env = VecNormalize(make_vec_env(task.make, n_envs=workers, vec_env_cls=SubprocVecEnv))
    try:
        model = PPO("MlpPolicy", env, n_steps=128, batch_size=512, n_epochs=4)
        return model.learn(steps, callback=gd.sb3.CurriculumCallback(task, "gradient", out=out))
    finally:
        env.close()


if __name__ == "__main__":  # worker processes import this file
    main()
