"""RLlib's PPO on CartPole, with the pole's length and gravity as the context, in two processes of four environments.

The folder is a run folder like any other and keeps the curriculum; the algorithm's weights are RLlib's to save, here
beside it. Killed and started again, both go on: the algorithm from RLlib's checkpoint, the curriculum at its stage.
"""

from pathlib import Path

from ray.rllib.algorithms.ppo import PPOConfig

import geodesic as gd
from cartpole import task


def main(iterations=20, steps=50_000, out="runs/rllib", runners=2):
    config = (
        PPOConfig()
        .env_runners(num_env_runners=runners, num_envs_per_env_runner=4)
        .training(train_batch_size=2048, minibatch_size=256, num_epochs=5)
        .evaluation(evaluation_interval=5, evaluation_duration=10)
    )
    config = gd.rllib.with_curriculum(config, task, "gradient:step=0.25", out=out, steps=steps)
    algorithm, kept, told = config.build_algo(), Path(f"{out}-algorithm").absolute(), []
    try:
        if kept.exists():
            algorithm.restore_from_path(kept)
        while algorithm.iteration < iterations:
            told.append(algorithm.train()["curriculum"])
            algorithm.save_to_path(kept)
        return told
    finally:
        algorithm.stop()


if __name__ == "__main__":
    print(main()[-1])
