"""A curriculum in a script of Stable-Baselines3 that has VecNormalize and EvalCallback: the lines marked + are new."""

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import geodesic as gd  # +
from cartpole import task  # +


def main(steps=100_000, out="runs/normalized"):
    env = VecNormalize(make_vec_env(task.make, n_envs=8))  # + task.make was "CartPole-v1"
    judge = VecNormalize(make_vec_env(task.make, n_envs=4), training=False, norm_reward=False)  # + likewise
    callbacks = [EvalCallback(judge, eval_freq=max(steps // 80, 1), verbose=0)]  # on the target
    callbacks.append(gd.sb3.CurriculumCallback(task, out=out))  # +
    model = PPO("MlpPolicy", env, n_steps=256, batch_size=256)
    return model.learn(steps, callback=callbacks)


if __name__ == "__main__":
    main()
