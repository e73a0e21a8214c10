"""A training script that tests kill and start again; it prints the step and stage at which it resumes."""

import sys

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import geodesic as gd
from clocks import task


class Printing(gd.sb3.CurriculumCallback):
    def _on_training_start(self):
        super()._on_training_start()
        print(self.model.num_timesteps, self.stage, flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    model = PPO("MlpPolicy", make_vec_env(task().make, n_envs=2), n_steps=16, batch_size=32, n_epochs=1)
    method = "gradient:step=0.05:window=30"
    model.learn(int(sys.argv[2]), callback=Printing(task(), method, out=sys.argv[1], eval_freq=500, save_every=0.0))
