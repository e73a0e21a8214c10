"""Time PPO: ours and Stable-Baselines3's, on one CPU core.

    python -m benchmarks.speed.ppo maze      # 1, 8 and 64 runs at once, and the curriculum's share of a run
    python -m benchmarks.speed.ppo u-maze    # 16 environments, 1 run

Both use the same environment (Stable-Baselines3 through Gymnasium) and the paper's settings, and alternate within one
process, so that other load on the machine affects both. Compilation is not counted.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

CORE = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, {CORE})  # before the libraries count the cores

from geodesic.runtime import configure_process  # noqa: E402

configure_process()

import jax  # noqa: E402
import numpy as np  # noqa: E402
import stable_baselines3  # noqa: E402
import torch  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv  # noqa: E402

from geodesic.runs import run  # noqa: E402
from geodesic.tasks import load  # noqa: E402
from geodesic.training.agents import stack  # noqa: E402
from geodesic.training.configure import configure  # noqa: E402
from geodesic.training.program import as_sampler  # noqa: E402

RUNS = {"maze": (1, 8, 64), "u-maze": (1,)}
ROUNDS = 3


def ours(env: str, runs: int) -> Callable[[], int]:
    """A function that trains a segment of all runs and returns its environment steps."""
    task = load(env)
    program = run.trainer_of([configure(task)], task).program
    samplers = stack([as_sampler(task.source_particles, 0)] * runs)
    state = [program.init(np.stack([np.asarray(jax.random.PRNGKey(i)) for i in range(runs)]), samplers)]

    def segment() -> int:
        state[0], log = program.segment(state[0], samplers)
        jax.device_get(log)
        return runs * program.segment_steps

    segment()
    return segment


def theirs(env: str) -> Callable[[], int]:
    """A function that does one rollout with its updates and returns its environment steps."""
    config = configure(env)
    given = config.learner_options
    task = load(env)

    def make() -> object:
        one = task.make()
        one.set_distribution(task.source_particles)
        return one

    names = {"gamma": "gamma", "learning_rate": "learning_rate", "batch_size": "batch_size", "entropy_coef": "ent_coef"}
    names |= {"rollout": "n_steps", "epochs": "n_epochs", "gae_lambda": "gae_lambda", "clip": "clip_range"}
    net = {"net_arch": list(given.get("net", (64, 64))), "activation_fn": torch.nn.Tanh}
    options = {name: given[key] for key, name in names.items() if key in given}
    vector = DummyVecEnv([make] * given["n_envs"])
    model = stable_baselines3.PPO("MlpPolicy", vector, policy_kwargs=net, seed=0, device="cpu", **options)
    size = given["rollout"] * given["n_envs"]
    model.learn(size)

    def train() -> int:
        model.learn(size, reset_num_timesteps=False)
        return size

    return train


def rate(work: Callable[[], int], seconds: float) -> float:
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        steps += work()
    return steps / (time.perf_counter() - began)


def product_rate() -> float:
    """GFlop/s of this core on the products in U-Maze's update, 256 x 128 by 128 x 128."""
    n = 2000
    weights = jax.numpy.full((128, 128), 1e-3)
    chain = jax.jit(lambda x: jax.lax.scan(lambda y, _: (y @ weights, None), x, None, length=n)[0])
    x = jax.numpy.ones((256, 128))
    jax.block_until_ready(chain(x))
    began = time.perf_counter()
    jax.block_until_ready(chain(x))
    return n * 2 * 256 * 128 * 128 / (time.perf_counter() - began) / 1e9


def curriculum_fraction(env: str) -> float:
    """The curriculum's share of the wall-clock of a whole run; POT is imported before it starts."""
    import ot  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        batch = run.start([configure(env)], [Path(folder) / "run"])
        began = time.perf_counter()
        batch.train()
        return batch.sessions[0].curriculum_seconds / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env", choices=RUNS)
    env = parser.parse_args().env
    torch.set_num_threads(1)
    work = {"Stable-Baselines3": theirs(env)}
    work |= {f"geodesic, {runs} run{'s' * (runs > 1)}": ours(env, runs) for runs in RUNS[env]}
    rates: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(ROUNDS):
        for name, job in work.items():
            rates[name].append(rate(job, 4.0))
    base = statistics.median(rates["Stable-Baselines3"])
    print(f"{env}, PPO, one core, median of {ROUNDS} rounds")
    for name, seen in rates.items():
        middle = statistics.median(seen)
        print(f"  {name:<20} {middle:10,.0f} environment steps/s in total  {middle / base:6.1f} x")
    print(f"  products of 256 x 128 by 128 x 128 on this core: {product_rate():.0f} GFlop/s")
    print(f"  the curriculum's share of a run's wall-clock: {curriculum_fraction(env):.2%}")


if __name__ == "__main__":
    main()
