"""Time Stable-Baselines3 on CartPole with and without `ContextWrapper`, in alternation in one process on one core.

    python -m benchmarks.speed.context_wrapper

Both train PPO in 16 environments with the same pole, so that episodes are about as long. Seconds are CPU time, because
machines are shared. The first round warms up and is not counted.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import Any

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before the libraries count the cores

import gymnasium as gym  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from stable_baselines3 import PPO  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402

import geodesic as gd  # noqa: E402

ROUNDS, STEPS, ENVS = 21, 16_384, 16
LENGTH = 0.5  # of the pole, CartPole's own


def set_context(env: Any, length: float) -> None:
    """Give CartPole's pole this length."""
    env.length, env.polemass_length = length, length * env.masspole


def wrapped() -> gym.Env[Any, Any]:
    """CartPole with the length of its pole as the context."""
    env = gd.ContextWrapper(gym.make("CartPole-v1"), {"length": (0.05, 2.0)}, set_context)
    env.set_distribution(gd.Particles(np.array([[LENGTH]])))
    return env


def main() -> None:
    """Time both in alternation, and print the ratio."""
    torch.set_num_threads(1)
    makers: dict[str, Any] = {"plain": "CartPole-v1", "ContextWrapper": wrapped}
    models = {
        name: PPO("MlpPolicy", make_vec_env(make, n_envs=ENVS, seed=0), n_steps=256, batch_size=256, seed=0)
        for name, make in makers.items()
    }
    speeds: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(ROUNDS):
        for name, model in models.items():
            began = time.process_time()
            model.learn(STEPS, reset_num_timesteps=False)
            speeds[name].append(STEPS / (time.process_time() - began))
    for name, found in speeds.items():
        print(f"{name:14} {statistics.median(found[1:]):7.0f} environment steps per second of one core")
    plain, ours = (found[1:] for found in speeds.values())
    ratios = sorted(b / a for a, b in zip(plain, ours))
    print(
        f"ratio          {statistics.median(ratios):7.3f} ({ratios[0]:.2f} to {ratios[-1]:.2f} in {len(ratios)} rounds)"
    )


if __name__ == "__main__":
    main()
