"""RLlib's PPO on CartPole in two processes with four environments each; the pole's length and gravity are the context.

The run folder keeps the curriculum and the records; RLlib saves the algorithm in a second folder. Start the script
again after a kill to resume both.
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
    algorithm, saved, stages = config.build_algo(), Path(f"{out}-algorithm").absolute(), []
    try:
        if saved.exists():
            algorithm.restore_from_path(saved)
        while algorithm.iteration < iterations:
            stages.append(algorithm.train()["curriculum"])
            algorithm.save_to_path(saved)
        return stages
    finally:
        algorithm.stop()


if __name__ == "__main__":
    print(main()[-1])
