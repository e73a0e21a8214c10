"""Time SAC on PointMass: ours, Stable-Baselines3's and SBX's, on one CPU core.

    python -m benchmarks.speed.sac

All use the same environment (the other two through Gymnasium) and the paper's settings, and alternate within one
process, so that other load on the machine affects all. Compilation and the random steps before learning are not
counted.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

CORE = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, {CORE})  # before the libraries count the cores

from geodesic.runtime import configure_process  # noqa: E402

configure_process()

import flax.linen  # noqa: E402
import gymnasium as gym  # noqa: E402
import jax  # noqa: E402
import numpy as np  # noqa: E402
import sbx  # noqa: E402
import stable_baselines3  # noqa: E402
import torch  # noqa: E402

import geodesic  # noqa: E402, F401
from geodesic.envs.point_mass import PointMass  # noqa: E402
from geodesic.learners.sac import SAC  # noqa: E402
from geodesic.training.agents import stack  # noqa: E402
from geodesic.training.program import Program, as_sampler  # noqa: E402

TABLE = {"gamma": 0.95, "learning_rate": 3e-4, "batch_size": 64, "buffer_size": 10_000, "learning_starts": 500}
ROUNDS = 3


def compiled(runs: int, iterations: int) -> Callable[[], int]:
    """A function that trains a segment of this many iterations of all runs and returns its environment steps."""
    mdp = PointMass()
    program = Program(mdp, SAC(**TABLE, rollout=5, net=(64, 64)), iterations, 30, "deterministic")
    sampler = stack([as_sampler(mdp.source(np.random.default_rng(0)), 0)] * runs)
    state = [program.init(jax.random.split(jax.random.key(0), runs), sampler)]

    def segment() -> int:
        state[0], log = program.segment(state[0], sampler)
        jax.block_until_ready(log.total)
        return iterations * 5 * runs

    segment()
    return segment


def peer(module: object, activation: object, steps: int) -> Callable[[], int]:
    """The same for another library."""
    env = gym.make("geodesic/PointMass-v0")
    env.unwrapped.set_distribution(PointMass().source(np.random.default_rng(0)))
    options = {"net_arch": [64, 64], "activation_fn": activation}
    model = module.SAC("MlpPolicy", env, **TABLE, train_freq=5, policy_kwargs=options, seed=0, device="cpu")
    model.learn(700)

    def train() -> int:
        before = model.num_timesteps
        model.learn(steps, reset_num_timesteps=False)
        return model.num_timesteps - before

    return train


def main() -> None:
    torch.set_num_threads(1)
    work = {
        "Stable-Baselines3": peer(stable_baselines3, torch.nn.Tanh, 1000),
        "SBX": peer(sbx, flax.linen.tanh, 2000),
        "geodesic, 1 run": compiled(1, 3000),
        "geodesic, 8 runs, total": compiled(8, 500),
    }
    rates: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(ROUNDS):
        for name, run in work.items():
            begin = time.perf_counter()
            steps = run()
            rates[name].append(steps / (time.perf_counter() - begin))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    print(f"{'SAC on PointMass, one core':28} {'env steps/s':>12} {'x SB3':>8} {'x SBX':>8}")
    for name, rate in medians.items():
        print(f"{name:28} {rate:12,.0f} {rate / medians['Stable-Baselines3']:8.1f} {rate / medians['SBX']:8.1f}")


if __name__ == "__main__":
    main()
